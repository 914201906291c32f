import Foundation
import Mcpm
import Testing

@Suite(.timeLimit(oneMinute)) struct CancellationTests {
    @Test func cancelledStartIsRolledBack() async throws {
        try await withName("cancelled") { name in
            let start = Task { try await Workload.start(silent, name: name) }
            try await poll("the container runs") { try containers(name) == ["running"] }
            start.cancel()
            let error = await failure { try await start.value }
            #expect(error?.kind() == "interrupted")
            // The start is rolled back already: the name is free again.
            #expect(try containers(name) == [])
            try await Workload.start(everything, name: name).stop()
        }
    }

    @Test func startOfACancelledTaskDoesNothing() async throws {
        let name = "\(prefix)-never"
        let seen = Recorder<String>()
        let start = Task {
            withUnsafeCurrentTask { $0?.cancel() }
            return try await Workload.start(everything, name: name, onEvent: { seen.add($0.kind) })
        }
        let error = await failure { try await start.value }
        #expect(error?.kind() == "interrupted")
        #expect(seen.all == [])
        #expect(try containers(name) == [])
    }

    @Test(arguments: 0..<20) func startIsCancelledAtAnyTime(index: Int) async throws {
        try await withName("any\(index)") { name in
            let start = Task { try await Workload.start(silent, name: name) }
            try await Task.sleep(for: .milliseconds(index * index))
            start.cancel()
            #expect(await failure { try await start.value } != nil)
            #expect(try containers(name) == [])
        }
    }

    @Test func waitsAreCancelledAndLoseNothing() async throws {
        try await withName("waits") { name in
            let workload = try await Workload.start(everything, name: name, inProcessOnly: true)
            let client = try await Client(try await workload.connect())

            let wait = Task { try await workload.wait() }
            let receive = Task { try await client.connection.receive() }
            let events = Task {
                for await event in workload.events { Issue.record("\(event)") }
            }
            for _ in 0..<100 { await Task.yield() }
            wait.cancel()
            receive.cancel()
            events.cancel()
            await events.value
            for error in [
                await failure { try await wait.value },
                await failure { try await receive.value },
            ] {
                #expect(error?.kind() == "interrupted")
            }

            // Receivers that are cancelled while the response arrives.
            for id in 10..<60 {
                try await client.connection.send(#"{"jsonrpc": "2.0", "id": \#(id), "method": "ping"}"#)
                var response: String?
                while response == nil {
                    let receive = Task { try await client.connection.receive() }
                    await Task.yield()
                    receive.cancel()
                    response = try? await receive.value
                }
                #expect(response?.contains("\(id)") == true)
            }
            try await workload.stop()
        }
    }

    @Test func scopedWorkloadIsStoppedAfterACancellation() async throws {
        try await withName("scope") { name in
            let ready = AsyncStream<Void>.makeStream()
            let scope = Task {
                try await withWorkload(WorkloadOptions(server: everything, name: name)) { workload in
                    ready.continuation.finish()
                    try await workload.wait()
                }
            }
            for await _ in ready.stream {}
            scope.cancel()
            #expect(await failure { try await scope.value } != nil)
            let states = try containers(name)
            #expect(states == ["exited"])
        }
    }
}
