// uniffi gives the property; this makes `"\(error)"` and `print(error)` read it.
extension McpmError: CustomStringConvertible {}

public extension McpmError {
    /// What happened and what to do next, in one line.
    var message: String { details.message }

    /// What to do next, if that is known.
    var hint: String? { details.hint }

    /// The inputs of the operation, such as the option or the file, by their names.
    var context: [String: String] { details.context }

    /// The hint, under the name that `LocalizedError` uses.
    var recoverySuggestion: String? { details.hint }

    private var details: (message: String, hint: String?, context: [String: String]) {
        switch self {
        case .InvalidOption(let message, let hint, let context),
            .Unsupported(let message, let hint, let context),
            .NotFound(let message, let hint, let context),
            .NameTaken(let message, let hint, let context),
            .PortTaken(let message, let hint, let context),
            .EngineUnavailable(let message, let hint, let context),
            .ImageUnavailable(let message, let hint, let context),
            .ImageUnverified(let message, let hint, let context),
            .SecretsUnavailable(let message, let hint, let context),
            .StartFailed(let message, let hint, let context),
            .Io(let message, let hint, let context),
            .CorruptState(let message, let hint, let context),
            .Engine(let message, let hint, let context),
            .Registry(let message, let hint, let context),
            .LoginRequired(let message, let hint, let context),
            .Upstream(let message, let hint, let context),
            .Interrupted(let message, let hint, let context),
            .Internal(let message, let hint, let context):
            (message, hint, context)
        }
    }
}
