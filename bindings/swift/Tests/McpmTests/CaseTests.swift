import Foundation
import Mcpm
import Testing
#if canImport(FoundationNetworking)
import FoundationNetworking
#endif

/// The cases that a program in every language runs; `tests/cases.rs` describes their lines.
private let folder = ProcessInfo.processInfo.environment["MCPM_TEST_CASES"] ?? "../../tests/data/cases"

/// The variables of the cases that need an identity provider.
private let identity: [String: String] = ["REMOTE", "SERVER", "ISSUER", "TOKEN"].reduce(into: [:]) { variables, name in
    variables[name] = ProcessInfo.processInfo.environment["MCPM_TEST_\(name)"]
}
private let identityCases = ["auth.case", "login.case"]

/// An empty folder that the engine can mount: the path of the home folder is the same for it.
private func emptyFolder() throws -> String {
    let home = ProcessInfo.processInfo.environment["HOME"] ?? NSHomeDirectory()
    let path = "\(home)/case-\(UUID())"
    try FileManager.default.createDirectory(atPath: path, withIntermediateDirectories: false)
    return path
}

/// All cases and their runtimes; without an identity provider, all but those that need one, and without images for the
/// built-in runtime, all but those with it.
private func cases() throws -> [(String, String)] {
    let files = try FileManager.default.contentsOfDirectory(atPath: folder)
        .filter { $0.hasSuffix(".case") && (!identityCases.contains($0) || !identity.isEmpty) }.sorted()
    let hasImages = ProcessInfo.processInfo.environment["MCPM_TEST_IMAGES"] != nil
    let builtin = hasImages ? ["cancel.case", "use.case"] : []
    return files.map { ($0, "auto") } + builtin.map { ($0, "builtin") }
}

/// A user who follows logins or cancels them, and who allows access to this machine or denies it.
private final class User: UserPrompt {
    /// The word of the case.
    let behaviour: String
    let prompts = Recorder<String>()

    init(behaviour: String) { self.behaviour = behaviour }

    func approve(question: String) throws -> Bool {
        prompts.add(question)
        return behaviour == "approve"
    }

    func showLogin(login: LoginPrompt) throws {
        guard behaviour == "follow", let url = URL(string: login.url) else {
            throw McpmError.Interrupted(message: "the user cancelled the prompt", hint: nil, context: [:])
        }
        prompts.add(login.server)
        _ = try Data(contentsOf: url)
    }
}

@Test(.timeLimit(.minutes(1)), arguments: try cases()) func caseHolds(file: String, runtime: String) async throws {
    let run = CaseRun()
    let empty = try emptyFolder()
    defer { try? FileManager.default.removeItem(atPath: empty) }
    for line in try String(contentsOfFile: "\(folder)/\(file)", encoding: .utf8).split(separator: "\n") {
        guard !line.hasPrefix("#") else { continue }
        var expanded = String(line)
        let variables = [
            "IMAGE": everything, "SILENT": silent, "PREFIX": "\(prefix)-case",
            "REGISTRY": "\(folder)/registry.json", "FOLDER": empty, "RUNTIME": runtime,
        ]
        for (name, value) in variables.merging(identity, uniquingKeysWith: { first, _ in first }) {
            expanded = expanded.replacingOccurrences(of: "$\(name)", with: value)
        }
        let words = expanded.split(separator: " ", maxSplits: 1).map(String.init)
        try await run.carryOut(words[0], words.count > 1 ? words[1] : "")
    }
}

private actor CaseRun {
    var options: [(name: String, value: String)] = []
    var events = AsyncStream<WorkloadEvent>.makeStream()
    var workload: Workload?
    var proxy: Proxy?
    var client: Client?
    var user: User?
    var explanation: Explanation?

    func carryOut(_ verb: String, _ rest: String) async throws {
        let words = rest.split(separator: " ", maxSplits: 1).map(String.init)
        let (first, tail) = (words.first ?? "", words.count > 1 ? words[1] : "")
        switch verb {
        case "option": options.append((first, tail))
        case "prompt": user = rest == "none" ? nil : User(behaviour: rest)
        case "prompted": #expect(try #require(user).prompts.all.count == Int(rest))
        case "start" where first == "workload":
            workload = await expect(tail) { try await self.startWorkload() } ?? workload
        case "start": proxy = await expect(tail) { try await self.startProxy() } ?? proxy
        case "start-recorded":
            let (continuation, user) = (events.continuation, user)
            workload =
                await expect(tail) {
                    try await Workloads().start(first, prompt: user, onEvent: { continuation.yield($0) })
                } ?? workload
        case "start-and-cancel":
            let start = Task { try await self.startWorkload() }
            await skipEvents(to: "starting")
            start.cancel()
            #expect(await failure { try await start.value }?.kind() == "interrupted")
            events = AsyncStream.makeStream()
        case "event": await skipEvents(to: rest)
        case "phase": #expect((workload?.status.phase ?? proxy?.status).map { "\($0)" } == rest)
        case "url": #expect((workload?.url != nil) == (rest == "present"))
        case "connect":
            if let connection = await expect(rest, { try await self.connect() }) {
                client = try await Client(connection)
            }
        case "connect-with": client = try await Client(connect(bearerToken: Secret(rest)))
        case "connect-denied":
            let uninitialized = Client(uninitialized: try await connect())
            let response = try await uninitialized.initialize()
            #expect(response["error"]?["data"]?["reason"]?.string == rest)
        case "tool":
            let tools = try await #require(client).tools()
            #expect(tools.contains(first) == (tail == "listed"))
        case "call":
            let result = try await #require(client).call(first)["result"]
            #expect("\(try #require(result))".contains(tail))
        case "denied":
            let data = try await #require(client).call(first)["error"]?["data"]
            #expect(data?["reason"]?.string == tail)
            explanation = try explain(try #require(data?["refusal"]?.string))
        case "explained":
            let found = [
                "reason": explanation?.reason, "layer": explanation?.layer, "server": explanation?.refusal?.server,
            ]
            #expect(found[first] == tail)
        case "disconnect": try await #require(client).connection.close()
        case "check":
            let proxy = try #require(proxy)
            await expect(rest) { _ = try await proxy.check() }
        case "listed":
            let found = try await Workloads().list().first { $0.name == first }
            #expect((found.map { "\($0.status)" } ?? "missing") == tail)
        case "stop":
            if let workload { try await workload.stop() } else { try await #require(proxy).stop() }
        case "remove": await expect(tail) { try await Workloads().remove(first) }
        case "write": try tail.write(toFile: first, atomically: true, encoding: .utf8)
        case "accept-ignore-files":
            let changed = await expect(tail.hasPrefix("fails ") ? tail : "") {
                try Workloads().acceptIgnoreFiles(in: first)
            }
            if let changed {
                #expect(changed.map { URL(fileURLWithPath: $0).lastPathComponent } == (tail == "none" ? [] : [tail]))
            }
        default: Issue.record("unknown verb `\(verb)`")
        }
    }

    /// Checks an outcome: after `fails`, its kind and a text of its message; otherwise that there is no error.
    @discardableResult
    private func expect<Value: Sendable>(
        _ rest: String, _ operation: @Sendable () async throws -> Value
    ) async -> Value? {
        let words = rest.split(separator: " ", maxSplits: 2).map(String.init)
        guard words.first == "fails" else {
            do {
                return try await operation()
            } catch {
                Issue.record(error)
                return nil
            }
        }
        let error = await failure { try await operation() }
        #expect(error?.kind() == words[1])
        #expect(words.count < 3 || error?.message.contains(words[2]) == true, "\(error as Any)")
        return nil
    }

    private func connect(bearerToken: Secret? = nil) async throws -> Connection {
        if let workload { return try await workload.connect(bearerToken: bearerToken) }
        return try await #require(proxy).connect(bearerToken: bearerToken)
    }

    private func startWorkload() async throws -> Workload {
        var workload = WorkloadOptions()
        var inProcessOnly = false
        for (name, value) in options {
            switch name {
            case "server": workload.server = value
            case "name": workload.name = value
            case "registry": workload.registry = value
            case "tools": workload.tools = [value]
            case "volume":
                let paths = value.split(separator: ":").map(String.init)
                workload.volume = [VolumeSpec(hostPath: paths[0], containerPath: paths[1])]
            case "runtime": workload.runtime = value == "builtin" ? .builtin : .auto
            case "oidc_issuer": workload.oidcIssuer = value
            case "oidc_audience": workload.oidcAudience = value
            case "jwks_allow_private_ip": workload.jwksAllowPrivateIp = value == "true"
            case "in_process_only": inProcessOnly = value == "true"
            default: Issue.record("unknown option `\(name)`")
            }
        }
        options = []
        let continuation = events.continuation
        return try await Workload.start(
            workload, inProcessOnly: inProcessOnly, prompt: user, onEvent: { continuation.yield($0) })
    }

    private func startProxy() async throws -> Proxy {
        var proxy = ProxyOptions()
        for (name, value) in options {
            switch name {
            case "server_name": proxy.serverName = value
            case "target_uri": proxy.targetUri = value
            case "oidc_issuer": proxy.oidcIssuer = value
            case "oidc_audience": proxy.oidcAudience = value
            case "jwks_allow_private_ip": proxy.jwksAllowPrivateIp = value == "true"
            case "remote_auth": proxy.remoteAuth = value == "true"
            case "remote_auth_callback_port": proxy.remoteAuthCallbackPort = UInt16(value)
            default: Issue.record("unknown option `\(name)`")
            }
        }
        options = []
        return try await Proxy.start(proxy, prompt: user)
    }

    /// Waits for an event, and skips those of other kinds.
    private func skipEvents(to kind: String) async {
        for await event in events.stream where event.kind == kind { return }
    }
}
