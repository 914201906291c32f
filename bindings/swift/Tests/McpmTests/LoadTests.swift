import Foundation
import Mcpm
import Testing

/// Threads and file descriptors of this process.
private func resources() throws -> (threads: Int, files: Int) {
    let manager = FileManager.default
    return (
        try manager.contentsOfDirectory(atPath: "/proc/self/task").count,
        try manager.contentsOfDirectory(atPath: "/proc/self/fd").count
    )
}

private func useWorkload(_ index: Int) async throws {
    try await withName("load\(index)") { name in
        let seen = Recorder<String>()
        let options = WorkloadOptions(server: everything, name: name)
        try await withWorkload(options, onEvent: { seen.add($0.kind) }) { workload in
            let client = try await Client(try await workload.connect())
            #expect(try await client.call("test_simple_text")["result"] != nil)
            try await client.connection.close()
        }
        #expect(seen.all.last == "ended")
    }
}

@Test(.timeLimit(.minutes(10))) func manyWorkloadsLeakNothing() async throws {
    // The threads exist after the first round.
    func round(_ indices: Range<Int>) async throws {
        try await withThrowingTaskGroup(of: Void.self) { group in
            for index in indices {
                if index >= indices.lowerBound + 8 { try await group.next() }
                group.addTask { try await useWorkload(index) }
            }
            try await group.waitForAll()
        }
    }
    try await round(100..<108)
    let before = try resources()
    let begin = ContinuousClock.now
    try await round(0..<50)
    let took = ContinuousClock.now - begin
    let after = try resources()
    print("50 workloads in \(took): \(before) before, \(after) after")
    // Connections to the engine and idle threads of the thread pool may be kept for a while.
    #expect(after.files <= before.files + 4)
    #expect(after.threads <= before.threads + 8)
}
