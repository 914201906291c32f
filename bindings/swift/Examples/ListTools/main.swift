// Runs an MCP server without opening a port, lists its tools, prints its events, and stops it on Ctrl-C.
//
//     swift run list-tools IMAGE [NAME]
import Dispatch
import Foundation
import Mcpm

struct Message: Decodable {
    struct Result: Decodable {
        let tools: [Tool]?
    }
    struct Tool: Decodable {
        let name: String
        let description: String?
    }
    let id: Int?
    let result: Result?
}

/// Prints a line without buffering, even to a pipe.
@Sendable func show(_ line: String) {
    FileHandle.standardOutput.write(Data("\(line)\n".utf8))
}

/// Receives messages until the response to the request `id`.
func response(to id: Int, from connection: Connection) async throws -> Message? {
    for try await text in connection.messages {
        let message = try JSONDecoder().decode(Message.self, from: Data(text.utf8))
        if message.id == id { return message }
    }
    return nil
}

func listTools(of workload: Workload) async throws {
    let connection = try await workload.connect()
    try await connection.send(
        """
        {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"protocolVersion": "2025-06-18",
         "capabilities": {}, "clientInfo": {"name": "list-tools", "version": "1"}}}
        """)
    _ = try await response(to: 1, from: connection)
    try await connection.send(#"{"jsonrpc": "2.0", "method": "notifications/initialized"}"#)
    try await connection.send(#"{"jsonrpc": "2.0", "id": 2, "method": "tools/list"}"#)
    for tool in try await response(to: 2, from: connection)?.result?.tools ?? [] {
        show("tool \(tool.name): \(tool.description ?? "")")
    }
    try await connection.close()
}

/// Cancels a task on Ctrl-C, which then does not end the program.
func cancelOnInterrupt(_ task: Task<some Sendable, any Error>) -> any DispatchSourceSignal {
    signal(SIGINT, SIG_IGN)
    let source = DispatchSource.makeSignalSource(signal: SIGINT, queue: .global())
    source.setEventHandler { task.cancel() }
    source.resume()
    return source
}

let arguments = CommandLine.arguments.dropFirst()
guard let image = arguments.first else {
    show("usage: list-tools IMAGE [NAME]")
    exit(2)
}
do {
    let options = WorkloadOptions(server: image, name: arguments.dropFirst().first)
    let run = Task {
        try await withWorkload(options, inProcessOnly: true, onEvent: { show("event \($0)") }) { workload in
            try await listTools(of: workload)
            try await workload.wait()
        }
    }
    let interruption = cancelOnInterrupt(run)
    defer { interruption.cancel() }
    try await run.value
} catch McpmError.Interrupted {
    show("stopped")
} catch {
    show("error: \(error)")
    exit(1)
}
