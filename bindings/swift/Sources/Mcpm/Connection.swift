import McpmGenerated

/// A connection to a server from this process, which needs no port.
///
/// It transports JSON-RPC messages in both directions. Requests pass through all layers of the proxy, as if they had
/// arrived at its port: authentication, tool filters, policies and the audit log apply. The connection ends when the
/// workload or proxy stops, when the server has lost the session and cannot continue it, or when the connection is no
/// longer referenced.
public final class Connection: Sendable {
    private let core: McpmGenerated.Connection

    init(_ core: McpmGenerated.Connection) {
        self.core = core
    }

    /// Sends one JSON-RPC message. If the task is cancelled, the message is sent completely or not at all.
    public func send(_ message: String) async throws(McpmError) {
        try await call { try await core.send(message: message) }
    }

    /// Waits for the next JSON-RPC message from the server; returns `nil` after the end of the connection. If the task
    /// is cancelled, no message is lost.
    public func receive() async throws(McpmError) -> String? {
        try await call { try await core.receive() }
    }

    /// The JSON-RPC messages from the server until the end of the connection. Several iterators share the messages:
    /// each message goes to one of the iterators.
    public var messages: Messages {
        Messages(connection: self)
    }

    /// Ends the connection. mcpm waits up to 2 s for pending responses, which can still be received. If the task is
    /// cancelled, closing continues.
    public func close() async throws(McpmError) {
        try await callToCompletion { [core] in try await core.close() }
    }

    /// The messages of a connection.
    public struct Messages: AsyncSequence, Sendable {
        let connection: Connection

        public struct AsyncIterator: AsyncIteratorProtocol, Sendable {
            let connection: Connection

            public func next() async throws(McpmError) -> String? {
                try await connection.receive()
            }
        }

        public func makeAsyncIterator() -> AsyncIterator {
            AsyncIterator(connection: connection)
        }
    }
}
