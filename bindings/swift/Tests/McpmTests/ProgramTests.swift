import Foundation
import Mcpm
import Testing

private let programs = ProcessInfo.processInfo.environment["MCPM_TEST_PROGRAMS"] ?? ".build/debug"

@Suite(.timeLimit(oneMinute)) struct ProgramTests {
    @Test func exitStopsTheWorkload() async throws {
        try await withName("exit") { name in
            let finished = try run("\(programs)/exit-while-running", everything, name, "ready")
            #expect(finished.status == 0 && finished.output == "running\n", "\(finished)")
            #expect(try containers(name) == ["exited"])
            #expect(try await Workloads().info(name).status == .stopped)
        }
    }

    @Test func exitRollsAStartBack() async throws {
        try await withName("exit-early") { name in
            let finished = try run("\(programs)/exit-while-running", silent, name, "starting")
            #expect(finished.status == 0 && finished.output == "starting\n", "\(finished)")
            #expect(try containers(name) == [])
            #expect(try await Workloads().list().filter { $0.name == name }.isEmpty)
        }
    }

    @Test func shutdownStopsTheWorkload() async throws {
        try await withName("shutdown") { name in
            let finished = try run("\(programs)/exit-while-running", everything, name, "shutdown")
            #expect(finished.status == 0 && finished.output == "stopped\n", "\(finished)")
            #expect(try containers(name) == ["exited"])
        }
    }

    @Test(arguments: [(everything, "tool test_simple_text", ["exited"]), (silent, "event starting", [])])
    func exampleStopsOnInterrupt(image: String, awaited: String, left: [String]) async throws {
        try await withName("example") { name in
            let example = try Program("\(programs)/list-tools", [image, name])
            var output = ""
            while !output.contains(awaited) {
                let data = example.output.fileHandleForReading.availableData
                try #require(!data.isEmpty, "\(output)")
                output += String(decoding: data, as: UTF8.self)
            }
            example.process.interrupt()
            let finished = try example.finish()
            output += finished.output
            #expect(finished.status == 0 && output.hasSuffix("stopped\n"), "\(output)")
            #expect(output.hasPrefix("event starting(name: \"\(name)\")\n"), "\(output)")
            #expect(try containers(name) == left)
        }
    }
}
