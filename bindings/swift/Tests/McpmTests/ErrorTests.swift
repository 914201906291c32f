import Foundation
import Mcpm
import Testing

@Suite(.timeLimit(oneMinute)) struct ErrorTests {
    @Test func errorsHaveKindAndMessage() async {
        do {
            _ = try await Workload.start(WorkloadOptions())
            Issue.record("it was started")
        } catch {
            // The type is known here: the function has typed throws.
            #expect(error.kind() == "invalid_option")
            #expect(error.message == "`server` is required")
            #expect("\(error)" == error.message)
            #expect(error.localizedDescription == error.message)
            #expect(error.recoverySuggestion == error.hint)
            if case .InvalidOption = error {} else { Issue.record(error) }
        }
    }

    @Test func hintsAndContextArrive() async throws {
        let error = await failure { try explain("tools.unheard") }
        #expect(error?.kind() == "not_found")
        let hint = try #require(error?.hint)
        #expect(error?.message.hasSuffix(hint) == true)
        #expect(error?.recoverySuggestion == hint)
        #expect(try explain("tools.not_listed").layer == "tools")
    }

    @Test func missingImageIsUnavailable() async {
        // No registry listens at this address, so the image cannot be pulled.
        let seen = Recorder<String>()
        let error = await failure {
            try await Workload.start(
                "127.0.0.1:1/missing:1", name: "\(prefix)-missing", onEvent: { seen.add($0.kind) })
        }
        #expect(error?.kind() == "image_unavailable")
        #expect(!seen.all.contains("ready"))
    }

    @Test func takenPortIsReported() async throws {
        try await withName("port") { name in
            let workload = try await Workload.start(everything, name: name)
            let port = try #require(workload.url?.port.flatMap { UInt16(exactly: $0) })
            let error = await failure {
                try await Workload.start(
                    WorkloadOptions(server: everything, name: "\(name)-second", proxyPort: port))
            }
            #expect(error?.kind() == "port_taken")
            try await workload.stop()
        }
    }
}
