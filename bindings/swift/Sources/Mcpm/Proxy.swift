import Foundation
import McpmGenerated

/// A running proxy in front of an MCP server.
///
/// It runs as long as this object and this process exist, so keep a reference.
public final class Proxy: Sendable {
    private let core: McpmGenerated.Proxy

    private init(_ core: McpmGenerated.Proxy) {
        self.core = core
    }

    /// Starts a proxy and returns once clients can connect.
    ///
    /// - Parameters:
    ///   - options: The options; options that are left out have their default values.
    ///   - inProcessOnly: Opens no port: only `connect` can connect to the server.
    ///   - prompt: Prompts the user at the start and later, for example to log in to a remote server; without it, the
    ///     user cannot be prompted.
    public static func start(
        _ options: ProxyOptions,
        inProcessOnly: Bool = false,
        prompt: (any UserPrompt)? = nil
    ) async throws(McpmError) -> Proxy {
        _ = exitHook
        return Proxy(
            try await call {
                try await McpmGenerated.Proxy.start(
                    options: options, prompt: prompt, inProcessOnly: inProcessOnly)
            })
    }

    /// The name of the server.
    public var name: String { core.name() }

    /// The URL for clients; `nil` without a port.
    public var url: URL? { serverURL(core.url()) }

    /// The phase of the proxy.
    public var status: Phase { core.status() }

    /// The warnings of the start, for example that callers are not authenticated, or that an option has no effect.
    public var warnings: [String] { core.warnings() }

    /// Checks with one MCP exchange whether the target is an MCP server, and returns a remark about a server that
    /// passes, for example that it requires a login. A start does not check this, because the target may be started
    /// later.
    public func check() async throws(McpmError) -> String? {
        try await call { try await core.check() }
    }

    /// Connects to the server from this process, without a port. Requests pass through all layers of the proxy.
    ///
    /// - Parameters:
    ///   - bearerToken: The access token of the caller, if the proxy authenticates callers.
    ///   - transport: The transport of the server; by default, the server's URL determines the transport: SSE if it
    ///     ends in `/sse`.
    public func connect(
        bearerToken: Secret? = nil, transport: ProxyMode? = nil
    ) async throws(McpmError) -> Connection {
        Connection(try await call { try await core.connect(bearerToken: bearerToken, transport: transport) })
    }

    /// Explains a reason, or one of the last denials of this proxy, by its id.
    public func explain(_ id: String) throws(McpmError) -> Explanation {
        do {
            return try core.explain(id: id)
        } catch {
            throw McpmError(error)
        }
    }

    /// Stops listening and waits up to 2 s for pending responses. Stopping twice is allowed; if the task is cancelled,
    /// stopping continues.
    public func stop() async throws(McpmError) {
        try await callToCompletion { [core] in try await core.stop() }
    }
}

/// Starts a proxy, and stops it when `body` returns or throws; see `Proxy.start`.
public func withProxy<Value: Sendable>(
    _ options: ProxyOptions,
    inProcessOnly: Bool = false,
    prompt: (any UserPrompt)? = nil,
    isolation: isolated (any Actor)? = #isolation,
    _ body: (Proxy) async throws -> Value
) async throws -> Value {
    let proxy = try await Proxy.start(options, inProcessOnly: inProcessOnly, prompt: prompt)
    let value: Value
    do {
        value = try await body(proxy)
    } catch {
        // The error of the body is the cause.
        try? await proxy.stop()
        throw error
    }
    try await proxy.stop()
    return value
}
