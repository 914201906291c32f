// Shared by the tests. `tests/bindings/swift/check` runs them, since they need an engine and images.
import Foundation
import Mcpm
import Testing

/// An image that speaks MCP on standard input and output.
let everything = "mcpm-test/everything:1"
/// An image that never responds.
let silent = "mcpm-test/silent:1"
let prefix = ProcessInfo.processInfo.environment["MCPM_TEST_PREFIX"] ?? "swift-\(getpid())"
let oneMinute = TimeLimitTrait.Duration.minutes(1)

/// Runs `body` with the name of a workload, and removes the workload afterwards.
func withName(_ suffix: String, _ body: (String) async throws -> Void) async throws {
    let name = "\(prefix)-\(suffix)"
    do {
        try await body(name)
    } catch {
        try? await remove(name)
        throw error
    }
    try await remove(name)
}

private func remove(_ name: String) async throws {
    do {
        try await Workloads().remove(name, grace: .zero)
    } catch .NotFound {
        // A start that was rolled back leaves no record.
    } catch {
        throw error
    }
}

/// Returns the error that `operation` fails with.
func failure<Value>(_ operation: () async throws -> Value) async -> McpmError? {
    do {
        _ = try await operation()
        Issue.record("it did not fail")
    } catch {
        guard let error = error as? McpmError else {
            Issue.record(error)
            return nil
        }
        return error
    }
    return nil
}

/// The states of the containers of a workload.
func containers(_ name: String) throws -> [String] {
    try run("docker", "ps", "--all", "--filter", "label=mcpm-name=\(name)", "--format", "{{.State}}").output
        .split(separator: "\n").map(String.init)
}

struct Finished {
    let status: Int32
    /// Standard output and standard error.
    let output: String
}

/// A program that runs.
struct Program {
    let process = Process()
    let output = Pipe()

    init(_ name: String, _ arguments: [String]) throws {
        process.executableURL = URL(fileURLWithPath: "/usr/bin/env")
        process.arguments = [name] + arguments
        process.standardOutput = output
        process.standardError = output
        process.standardInput = FileHandle.nullDevice
        try process.run()
    }

    func finish() throws -> Finished {
        let data = try output.fileHandleForReading.readToEnd() ?? Data()
        process.waitUntilExit()
        return Finished(status: process.terminationStatus, output: String(decoding: data, as: UTF8.self))
    }
}

func run(_ name: String, _ arguments: String...) throws -> Finished {
    try Program(name, arguments).finish()
}

/// Waits for a state of another process or of the engine, which emits no event.
func poll(_ what: String, _ condition: () throws -> Bool) async throws {
    for _ in 0..<1000 {
        if try condition() { return }
        try await Task.sleep(for: .milliseconds(20))
    }
    Issue.record("\(what): not within 20 s")
}

/// A list that events are added to. `Mutex` would need macOS 15.
final class Recorder<Element: Sendable>: @unchecked Sendable {
    private let lock = NSLock()
    private var elements: [Element] = []

    func add(_ element: Element) {
        lock.withLock { elements.append(element) }
    }

    var all: [Element] { lock.withLock { elements } }
}

extension WorkloadEvent {
    /// The name of the case.
    var kind: String {
        String("\(self)".prefix { $0 != "(" })
    }
}

/// A JSON value.
indirect enum JSON: Decodable, Equatable {
    case null
    case bool(Bool)
    case number(Double)
    case string(String)
    case array([JSON])
    case object([String: JSON])

    init(from decoder: any Decoder) throws {
        let container = try decoder.singleValueContainer()
        if container.decodeNil() {
            self = .null
        } else if let value = try? container.decode(Bool.self) {
            self = .bool(value)
        } else if let value = try? container.decode(Double.self) {
            self = .number(value)
        } else if let value = try? container.decode(String.self) {
            self = .string(value)
        } else if let value = try? container.decode([JSON].self) {
            self = .array(value)
        } else {
            self = .object(try container.decode([String: JSON].self))
        }
    }

    subscript(key: String) -> JSON? {
        if case .object(let members) = self { members[key] } else { nil }
    }

    var string: String? {
        if case .string(let value) = self { value } else { nil }
    }

    var elements: [JSON] {
        if case .array(let elements) = self { elements } else { [] }
    }
}

/// A client of the MCP server behind a connection.
struct Client {
    let connection: Connection

    /// Initializes a session.
    init(_ connection: Connection) async throws {
        self.init(uninitialized: connection)
        let response = try await initialize()
        #expect(response["result"]?["serverInfo"]?["name"]?.string == "mcp-conformance-test-server")
        try await connection.send(#"{"jsonrpc": "2.0", "method": "notifications/initialized"}"#)
    }

    init(uninitialized connection: Connection) {
        self.connection = connection
    }

    func initialize() async throws -> JSON {
        let parameters = """
            {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}
            """
        return try await request(1, "initialize", parameters)
    }

    /// Sends a request and returns its response.
    func request(_ id: Int, _ method: String, _ parameters: String = "{}") async throws -> JSON {
        try await connection.send(
            #"{"jsonrpc": "2.0", "id": \#(id), "method": "\#(method)", "params": \#(parameters)}"#)
        for try await message in connection.messages {
            let message = try JSONDecoder().decode(JSON.self, from: Data(message.utf8))
            if message["id"] == .number(Double(id)) { return message }
        }
        throw McpmError.Upstream(message: "no response to `\(method)`", hint: nil, context: [:])
    }

    func tools() async throws -> [String] {
        try await request(2, "tools/list")["result"]?["tools"]?.elements.compactMap { $0["name"]?.string } ?? []
    }

    func call(_ tool: String) async throws -> JSON {
        try await request(3, "tools/call", #"{"name": "\#(tool)", "arguments": {}}"#)
    }
}
