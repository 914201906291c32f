extension Events: AsyncSequence {
    public typealias Element = WorkloadEvent

    /// Pulls the events; several iterators share them.
    public struct Iterator: AsyncIteratorProtocol {
        let events: Events

        public mutating func next() async -> WorkloadEvent? {
            await events.next()
        }
    }

    public func makeAsyncIterator() -> Iterator {
        Iterator(events: self)
    }
}
