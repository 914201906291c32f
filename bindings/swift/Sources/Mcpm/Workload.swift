import Foundation
import McpmGenerated

/// A running workload: an MCP server in a container, or a remote MCP server, behind its own proxy.
///
/// It runs as long as this object and this process exist, so keep a reference; at the end of either, the server is
/// killed. Call `stop` to let the server exit by itself, or use `withWorkload`.
public final class Workload: Sendable {
    private let core: McpmGenerated.Workload
    /// Calls `onEvent` until the events end.
    private let delivery: Task<Void, Never>?

    /// The default time that a server has to exit by itself.
    public static let defaultGrace = Duration.seconds(10)

    private init(_ core: McpmGenerated.Workload, _ delivery: Task<Void, Never>?) {
        self.core = core
        self.delivery = delivery
    }

    /// Starts a workload and returns once clients can connect. The environment variables of this process determine
    /// where the record is and which engine is used, as for the command line.
    ///
    /// If the task is cancelled, the start is rolled back, and then `McpmError.Interrupted` is thrown.
    ///
    /// - Parameters:
    ///   - options: The options; options that are left out have their default values.
    ///   - inProcessOnly: Opens no port: only `connect` can connect to the server.
    ///   - prompt: Prompts the user at the start and later, for example to log in to a remote server; without it, the
    ///     user cannot be prompted.
    ///   - onEvent: Called with each event, one at a time, including the events of the image pull. `stop`, and a start
    ///     that fails, return after the last call.
    public static func start(
        _ options: WorkloadOptions,
        inProcessOnly: Bool = false,
        prompt: (any UserPrompt)? = nil,
        onEvent: (@Sendable (WorkloadEvent) -> Void)? = nil
    ) async throws(McpmError) -> Workload {
        try await start(onEvent: onEvent) { events in
            try await McpmGenerated.Workload.start(
                options: options, events: events, prompt: prompt, inProcessOnly: inProcessOnly)
        }
    }

    /// Starts a workload with a generated function, which receives the object for the events.
    static func start(
        onEvent: (@Sendable (WorkloadEvent) -> Void)?,
        _ operation: (McpmGenerated.Events) async throws -> McpmGenerated.Workload
    ) async throws(McpmError) -> Workload {
        _ = exitHook
        let events = McpmGenerated.Events()
        let delivery = onEvent.map { onEvent in
            Task {
                for await event in WorkloadEvents(core: events) { onEvent(event) }
            }
        }
        do {
            return Workload(try await operation(events), delivery)
        } catch {
            await rolledBack(events, delivery)
            throw McpmError(error)
        }
    }

    /// Starts a workload with the options that most programs use; see `start(_:inProcessOnly:prompt:onEvent:)`.
    public static func start(
        _ server: String,
        args: [String] = [],
        name: String? = nil,
        tools: [String] = [],
        inProcessOnly: Bool = false,
        prompt: (any UserPrompt)? = nil,
        onEvent: (@Sendable (WorkloadEvent) -> Void)? = nil
    ) async throws(McpmError) -> Workload {
        let options = WorkloadOptions(server: server, args: args, name: name, tools: tools)
        return try await start(options, inProcessOnly: inProcessOnly, prompt: prompt, onEvent: onEvent)
    }

    /// Waits until a failed start is rolled back, which is when its events end.
    private static func rolledBack(_ events: McpmGenerated.Events, _ delivery: Task<Void, Never>?) async {
        // A start that was cancelled before it began has not taken the events, so they would never end. Another start
        // without options takes them and fails. If the events are taken already, the new start does nothing.
        _ = await Task { try? await McpmGenerated.Workload.start(options: WorkloadOptions(), events: events) }.value
        await (delivery ?? Task { for await _ in WorkloadEvents(core: events) {} }).value
    }

    /// The name.
    public var name: String { core.name() }

    /// The URL for clients; `nil` without a port.
    public var url: URL? { serverURL(core.url()) }

    /// The status.
    public var status: WorkloadStatus { core.status() }

    /// Subscribes to the events from now on. Only `onEvent` of `start` gets earlier events.
    public var events: WorkloadEvents { WorkloadEvents(core: core.events()) }

    /// Connects to the server from this process, without a port. Requests pass through all layers of the proxy.
    ///
    /// - Parameter bearerToken: The access token of the caller, if the workload authenticates callers.
    public func connect(bearerToken: Secret? = nil) async throws(McpmError) -> Connection {
        Connection(try await call { try await core.connect(bearerToken: bearerToken) })
    }

    /// Waits until the server has exited and will not be restarted, or until the workload was stopped. Returns the
    /// status.
    @discardableResult
    public func wait() async throws(McpmError) -> WorkloadStatus {
        try await call { try await core.wait() }
    }

    /// Stops the workload. A server that has not exited after `grace` is killed. The container and the record remain,
    /// so that `Workloads.start` and the command line can start the workload again. Stopping twice is allowed; if the
    /// task is cancelled, stopping continues.
    public func stop(grace: Duration = defaultGrace) async throws(McpmError) {
        try await callToCompletion { [core, delivery] in
            try await core.stop(grace: grace.seconds)
            await delivery?.value
        }
    }
}

/// Starts a workload, and stops it when `body` returns or throws; see `Workload.start`.
public func withWorkload<Value: Sendable>(
    _ options: WorkloadOptions,
    inProcessOnly: Bool = false,
    grace: Duration = Workload.defaultGrace,
    prompt: (any UserPrompt)? = nil,
    onEvent: (@Sendable (WorkloadEvent) -> Void)? = nil,
    isolation: isolated (any Actor)? = #isolation,
    _ body: (Workload) async throws -> Value
) async throws -> Value {
    let workload = try await Workload.start(
        options, inProcessOnly: inProcessOnly, prompt: prompt, onEvent: onEvent)
    let value: Value
    do {
        value = try await body(workload)
    } catch {
        // The error of the body is the cause.
        try? await workload.stop(grace: grace)
        throw error
    }
    try await workload.stop(grace: grace)
    return value
}
