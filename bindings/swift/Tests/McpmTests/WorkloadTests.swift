import Foundation
import Mcpm
import Testing

@Suite(.timeLimit(oneMinute)) struct WorkloadTests {
    @Test func workloadIsUsedAndStopped() async throws {
        try await withName("used") { name in
            let seen = Recorder<String>()
            let workload = try await Workload.start(
                everything, name: name, tools: ["!test_image_content"], onEvent: { seen.add($0.kind) })
            #expect(workload.name == name)
            #expect(workload.url?.absoluteString.hasPrefix("http://127.0.0.1:") == true)
            #expect(workload.status.phase == .running)
            #expect(workload.status.restarts == 0)

            let client = try await Client(try await workload.connect())
            let tools = try await client.tools()
            #expect(tools.contains("test_simple_text") && !tools.contains("test_image_content"))
            let content = try await client.call("test_simple_text")["result"]?["content"]?.elements.first
            #expect(content?["text"]?.string?.isEmpty == false)

            let denial = try await client.call("test_image_content")["error"]?["data"]?["refusal"]?.string
            let explanation = try explain(try #require(denial))
            #expect(explanation.refusal?.server == name)
            #expect(explanation.layer == "tools")

            let taken = await failure { try await Workload.start(everything, name: name) }
            #expect(taken?.kind() == "name_taken")

            let later = workload.events
            async let ended = workload.wait()
            async let stopped: Void = workload.stop()
            try await workload.stop()
            try await stopped
            #expect(try await ended.phase == .stopped)
            #expect(workload.status.phase == .stopped)
            var kinds: [String] = []
            for await event in later { kinds.append(event.kind) }
            #expect(!kinds.contains("ready") && kinds.last == "ended")
            for await _ in workload.events { Issue.record("an event after the end") }
            #expect(seen.all.prefix(2) == ["starting", "ready"] && seen.all.last == "ended")

            try await client.connection.close()
            let error = await failure { try await workload.connect() }
            #expect(error?.kind() == "upstream")
            #expect(try containers(name) == ["exited"])
        }
    }

    @Test func workloadWithoutPortHasNoURL() async throws {
        try await withName("portless") { name in
            let options = WorkloadOptions(server: everything, name: name)
            let workload = try await withWorkload(options, inProcessOnly: true) { workload in
                #expect(workload.url == nil)
                let tools = try await Client(try await workload.connect()).tools()
                #expect(tools.contains("test_simple_text"))
                return workload
            }
            #expect(workload.status.phase == .stopped)
        }
    }

    @Test func scopedWorkloadIsStoppedAfterAnError() async throws {
        struct Failure: Error {}
        try await withName("scoped") { name in
            await #expect(throws: Failure.self) {
                try await withWorkload(WorkloadOptions(server: everything, name: name)) { _ in throw Failure() }
            }
            let states = try containers(name)
            #expect(states == ["exited"])
        }
    }

    @Test func connectionEndsWithTheWorkload() async throws {
        try await withName("ends") { name in
            let workload = try await Workload.start(everything, name: name, inProcessOnly: true)
            let client = try await Client(try await workload.connect())
            let rest = Task {
                var messages: [String] = []
                for try await message in client.connection.messages { messages.append(message) }
                return messages
            }
            try await workload.stop()
            #expect(try await rest.value == [])
        }
    }

    @Test func droppedWorkloadIsEnded() async throws {
        try await withName("dropped") { name in
            var workload: Workload? = try await Workload.start(everything, name: name, inProcessOnly: true)
            #expect(workload?.status.phase == .running)
            let events = try #require(workload?.events)
            workload = nil
            for await _ in events {}
            try await poll("the container ends") { try containers(name) != ["running"] }
        }
    }

    @Test func recordsAreListedAndExported() async throws {
        try await withName("listed") { name in
            let workload = try await Workload.start(everything, name: name)
            let records = Workloads()
            let info = try await records.info(name)
            #expect(info.name == name && info.status == .running && info.image == everything)
            #expect(info.url == workload.url?.absoluteString)
            #expect(try await records.list().map(\.name).contains(name))
            let file = NSTemporaryDirectory() + "/\(name).json"
            try records.export(name, to: file)
            #expect(try String(contentsOfFile: file, encoding: .utf8).contains(everything))
            try await workload.stop()
            for try await chunk in try await records.logs(name) { #expect(!chunk.bytes.isEmpty) }
            let missing = await failure { try await records.info("\(name)-missing") }
            #expect(missing?.kind() == "not_found")
        }
    }

    @Test func proxyIsUsedAndStopped() async throws {
        try await withName("behind") { name in
            let workload = try await Workload.start(everything, name: name)
            let options = ProxyOptions(
                serverName: "\(name)-proxy", targetUri: workload.url?.absoluteString, tools: ["test_simple_text"])
            let proxy = try await withProxy(options, inProcessOnly: true) { proxy in
                #expect(proxy.url == nil && proxy.status == .running)
                #expect(try await proxy.check() == nil)
                let client = try await Client(try await proxy.connect())
                #expect(try await client.tools() == ["test_simple_text"])
                let denial = try await client.call("test_image_content")["error"]?["data"]?["refusal"]?.string
                #expect(try proxy.explain(try #require(denial)).layer == "tools")
                return proxy
            }
            #expect(proxy.status == .stopped)
            try await workload.stop()
        }
    }
}
