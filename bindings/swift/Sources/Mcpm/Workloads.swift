import McpmGenerated

/// The recorded workloads of this machine, whichever process runs them. The environment variables of this process
/// determine where the records are, as for the command line.
public final class Workloads: Sendable {
    private let core = McpmGenerated.Workloads()

    /// Opens the records.
    public init() {}

    /// Returns the status of all workloads in the order of their names. If an engine does not respond, the status says
    /// so.
    public func list() async throws(McpmError) -> [WorkloadInfo] {
        try await call { try await core.list() }
    }

    /// Returns the status of one workload.
    public func info(_ name: String) async throws(McpmError) -> WorkloadInfo {
        try await call { try await core.info(name: name) }
    }

    /// Starts a workload again, with its recorded options, and returns once clients can connect. If a killed process of
    /// mcpm has left the container running, the container is stopped first. Throws `McpmError.NameTaken` if the
    /// workload is running.
    ///
    /// If the task is cancelled, the start is rolled back, the record does not change, and `McpmError.Interrupted` is
    /// thrown.
    ///
    /// - Parameters:
    ///   - name: The name of the workload.
    ///   - inProcessOnly: Opens no port: only `connect` can connect to the server.
    ///   - prompt: Prompts the user at the start and later, for example to log in to a remote server; without it, the
    ///     user cannot be prompted.
    ///   - onEvent: Called with each event, one at a time.
    public func start(
        _ name: String,
        inProcessOnly: Bool = false,
        prompt: (any UserPrompt)? = nil,
        onEvent: (@Sendable (WorkloadEvent) -> Void)? = nil
    ) async throws(McpmError) -> Workload {
        try await Workload.start(onEvent: onEvent) { events in
            try await core.start(name: name, events: events, prompt: prompt, inProcessOnly: inProcessOnly)
        }
    }

    /// Stops a workload, whichever process runs it. A server that has not exited after `grace` is killed. Does nothing
    /// if it has stopped already. If the task is cancelled, stopping continues.
    public func stop(_ name: String, grace: Duration = Workload.defaultGrace) async throws(McpmError) {
        try await callToCompletion { [core] in try await core.stop(name: name, grace: grace.seconds) }
    }

    /// Stops a workload, and removes its containers and its record. If the task is cancelled, removing continues.
    public func remove(_ name: String, grace: Duration = Workload.defaultGrace) async throws(McpmError) {
        try await callToCompletion { [core] in try await core.remove(name: name, grace: grace.seconds) }
    }

    /// Returns the output of a workload's server.
    ///
    /// - Parameters:
    ///   - name: The name of the workload.
    ///   - follow: Whether to continue with the output that the server writes until the workload ends.
    ///   - tail: The number of last lines to begin with; `nil` for all lines.
    public func logs(
        _ name: String, follow: Bool = false, tail: UInt64? = nil
    ) async throws(McpmError) -> Logs {
        Logs(core: try await call { try await core.logs(name: name, follow: follow, tail: tail) })
    }

    /// Writes the options of a workload to a file for the option `fromConfig`. Secrets are omitted.
    public func export(_ name: String, to path: PathBuf) throws(McpmError) {
        do {
            try core.exportTo(name: name, path: path)
        } catch {
            throw McpmError(error)
        }
    }

    /// Accepts the current ignore files of a folder that servers could write to. Files that are no longer ignored are
    /// visible to servers after their next start. Returns the ignore files whose text has changed.
    public func acceptIgnoreFiles(in folder: PathBuf) throws(McpmError) -> [PathBuf] {
        do {
            return try core.acceptIgnoreFiles(folder: folder)
        } catch {
            throw McpmError(error)
        }
    }
}

/// The output of a server, oldest first. Several iterators share the output: each part goes to one of the iterators.
public struct Logs: AsyncSequence, Sendable {
    let core: McpmGenerated.LogReader

    public struct AsyncIterator: AsyncIteratorProtocol, Sendable {
        let core: McpmGenerated.LogReader

        public func next() async throws(McpmError) -> LogChunk? {
            try await call { try await core.next() }
        }
    }

    public func makeAsyncIterator() -> AsyncIterator {
        AsyncIterator(core: core)
    }
}
