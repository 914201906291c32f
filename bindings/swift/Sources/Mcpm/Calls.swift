// Calls the functions of the generated module.
import Foundation
import McpmGenerated

/// Calls a generated function; all errors become `McpmError`.
func call<T: Sendable>(_ operation: () async throws -> T) async throws(McpmError) -> T {
    do {
        return try await operation()
    } catch {
        throw McpmError(error)
    }
}

/// Calls a generated function that continues if the calling task is cancelled, and waits for its end in that case, too.
func callToCompletion<T: Sendable>(
    _ operation: @escaping @Sendable () async throws -> T
) async throws(McpmError) -> T {
    // A separate task is not cancelled together with the calling task.
    switch await Task(operation: operation).result {
    case .success(let value): return value
    case .failure(let error): throw McpmError(error)
    }
}

/// Parses the URL of a workload or proxy, which is empty without a port.
func serverURL(_ text: String) -> URL? {
    text.isEmpty ? nil : URL(string: text)
}

extension McpmError {
    init(_ error: any Error) {
        self =
            switch error {
            case let error as McpmError: error
            case is CancellationError:
                .Interrupted(message: "the operation was cancelled", hint: nil, context: [:])
            // The generated code reports a panic with another error type.
            default: .Internal(message: error.localizedDescription, hint: nil, context: [:])
            }
    }
}

extension Duration {
    /// The duration in seconds, as the generated code takes it.
    var seconds: Double {
        let (seconds, attoseconds) = components
        return Double(seconds) + Double(attoseconds) / 1e18
    }
}
