import Mcpm
import Testing

private func dumped<T>(_ value: T) -> String {
    var text = ""
    dump(value, to: &text)
    return text
}

@Test func secretIsNotShown() {
    let secret: Secret = "hunter2"
    let header = Header(name: "A", value: secret)
    for text in [
        "\(secret)", String(reflecting: secret), dumped(secret),
        "\(header)", String(reflecting: header), dumped(header),
    ] {
        #expect(!text.contains("hunter2"), "\(text)")
    }
    #expect(Mirror(reflecting: secret).children.isEmpty)
    #expect(secret.expose() == "hunter2")
    #expect(secret == Secret("hunter2"))
}

@Test func loginIsNotShown() {
    let device = DeviceLogin(url: "https://login.example/device", code: "ABCD")
    let login = LoginPrompt(
        server: "mcp.example", url: "https://login.example/?state=s", hasRedirect: true, device: device,
        openBrowser: true, timeout: 30)
    for text in ["\(login)", String(reflecting: login), dumped(login), "\(device)", dumped(device)] {
        #expect(!text.contains("login.example") && !text.contains("ABCD"), "\(text)")
    }
}

@Test func userPromptHasDefaults() async throws {
    final class Nobody: UserPrompt {}
    let prompt = Nobody()
    let login = LoginPrompt(
        server: "mcp.example", url: "https://login.example", hasRedirect: true, device: nil, openBrowser: true,
        timeout: 30)
    #expect(try prompt.askSecret(question: "password") == nil)
    #expect(try prompt.askText(question: "name") == nil)
    #expect(try prompt.askRedirect(login: login) == nil)
    let error = await failure { try prompt.showLogin(login: login) }
    #expect(error?.kind() == "login_required")

    final class Answers: UserPrompt {
        func askSecret(question: String) throws -> Secret? { "answer" }
    }
    #expect(try Answers().askText(question: "name") == "answer")
}
