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

/// Calls `body` for each element, for at most 8 of them at the same time.
private func eightAtOnce<Element: Sendable, Value: Sendable>(
    _ elements: [Element], _ body: @escaping @Sendable (Element) async throws -> Value
) async throws -> [Value] {
    try await withThrowingTaskGroup(of: Value.self, returning: [Value].self) { group in
        var values: [Value] = []
        for (number, element) in elements.enumerated() {
            if number >= 8, let value = try await group.next() { values.append(value) }
            group.addTask { try await body(element) }
        }
        for try await value in group { values.append(value) }
        return values
    }
}

private struct UsedWorkload: Sendable {
    let suffix: String
    let workload: Workload
    let seen: Recorder<String>

    /// Starts a workload and calls a tool.
    init(_ suffix: String) async throws {
        let seen = Recorder<String>()
        let workload = try await Workload.start(
            everything, name: "\(prefix)-\(suffix)", onEvent: { seen.add($0.kind) })
        let client = try await Client(try await workload.connect())
        #expect(try await client.call("test_simple_text")["result"] != nil)
        try await client.connection.close()
        self.suffix = suffix
        self.workload = workload
        self.seen = seen
    }

    func end() async throws {
        try await withName(suffix) { _ in
            try await workload.stop()
            #expect(seen.all.last == "ended")
        }
    }
}

/// Uses workloads that run at the same time.
private func useWorkloads(_ indices: Range<Int>) async throws {
    let suffixes = indices.map { "load\($0)" }
    do {
        let used = try await eightAtOnce(suffixes) { try await UsedWorkload($0) }
        #expect(used.allSatisfy { $0.workload.status.phase == .running })
        _ = try await eightAtOnce(used) { try await $0.end() }
    } catch {
        for suffix in suffixes { try? await withName(suffix) { _ in } }
        throw error
    }
}

@Test(.timeLimit(.minutes(10))) func manyWorkloadsLeakNothing() async throws {
    // The threads exist after the first round.
    try await useWorkloads(100..<108)
    let before = try resources()
    let begin = ContinuousClock.now
    try await useWorkloads(0..<50)
    let took = ContinuousClock.now - begin
    let after = try resources()
    print("50 workloads in \(took): \(before) before, \(after) after")
    // Connections to the engine and idle threads of the thread pool may be kept for a while.
    #expect(after.files <= before.files + 4)
    #expect(after.threads <= before.threads + 8)
}
