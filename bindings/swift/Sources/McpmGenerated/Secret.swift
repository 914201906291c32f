/// Text that is not shown when it is printed.
public struct Secret: Hashable, Sendable, ExpressibleByStringLiteral {
    private let text: String

    public init(_ text: String) {
        self.text = text
    }

    public init(stringLiteral text: String) {
        self.text = text
    }

    /// Returns the text itself; keep it out of logs.
    public func expose() -> String {
        text
    }
}

extension Secret: CustomStringConvertible, CustomDebugStringConvertible, CustomReflectable {
    public var description: String { "Secret(..)" }
    public var debugDescription: String { description }
    public var customMirror: Mirror { Mirror(self, children: []) }
}
