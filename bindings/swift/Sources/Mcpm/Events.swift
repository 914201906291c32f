import McpmGenerated

/// The events of a workload. Several iterators share the events: each event goes to one of the iterators.
///
/// The sequence ends after the end of the workload, and when the iterating task is cancelled. An iterator that is more
/// than 256 events behind loses the oldest events.
public struct WorkloadEvents: AsyncSequence, Sendable {
    let core: McpmGenerated.Events

    public struct AsyncIterator: AsyncIteratorProtocol, Sendable {
        let core: McpmGenerated.Events

        public func next() async -> WorkloadEvent? {
            // Only a cancellation throws.
            try? await core.next()
        }
    }

    public func makeAsyncIterator() -> AsyncIterator {
        AsyncIterator(core: core)
    }
}
