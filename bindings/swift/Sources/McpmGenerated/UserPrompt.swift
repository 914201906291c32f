// uniffi generates a protocol without default implementations.
public extension UserPrompt {
    func askSecret(question: String) throws -> Secret? {
        nil
    }

    func askText(question: String) throws -> String? {
        try askSecret(question: question)?.expose()
    }

    func approve(question: String) throws -> Bool {
        let answer = try askText(question: "\(question) [yes, no]")
        return answer?.split(whereSeparator: \.isWhitespace) == ["yes"]
    }

    func showLogin(login: LoginPrompt) throws {
        throw McpmError.LoginRequired(
            message: "the remote server `\(login.server)` requires a login", hint: nil, context: [:])
    }

    func askRedirect(login: LoginPrompt) throws -> String? {
        nil
    }
}

// uniffi generates the descriptions; without this, `dump(login)` would show the URL and the code.
extension LoginPrompt: CustomReflectable {
    public var customMirror: Mirror { Mirror(self, children: []) }
}

extension DeviceLogin: CustomReflectable {
    public var customMirror: Mirror { Mirror(self, children: []) }
}
