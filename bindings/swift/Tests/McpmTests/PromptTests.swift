import Foundation
import Mcpm
import Testing

/// Options of a server whose registry entry needs a secret value.
private func options(_ name: String) throws -> WorkloadOptions {
    let registry = """
        {"version": "1.0.0", "last_updated": "2026-01-01T00:00:00Z", "servers": {"notes": {"description": "Keeps notes",
         "transport": "stdio", "image": "\(everything)",
         "env_vars": [{"name": "NOTES_TOKEN", "description": "Token", "required": true, "secret": true}]}}}
        """
    let file = NSTemporaryDirectory() + "/\(name)-registry.json"
    try registry.write(toFile: file, atomically: true, encoding: .utf8)
    return WorkloadOptions(server: "notes", name: name, registry: file)
}

@Suite(.timeLimit(oneMinute)) struct PromptTests {
    @Test func promptSuppliesASecret() async throws {
        final class Answers: UserPrompt {
            let questions = Recorder<String>()

            func askSecret(question: String) throws -> Secret? {
                questions.add(question)
                return "hunter2"
            }
        }
        try await withName("prompt") { name in
            let prompt = Answers()
            let workload = try await Workload.start(try options(name), prompt: prompt)
            #expect(prompt.questions.all == ["NOTES_TOKEN - Token"])
            try await workload.stop()
        }
    }

    @Test func approvalIsAskedAsATextByDefault() throws {
        final class Answers: UserPrompt {
            let answer: String?

            init(_ answer: String?) { self.answer = answer }

            func askText(question: String) throws -> String? {
                #expect(question == "mount? [yes, no]")
                return answer
            }
        }
        for (answer, allows) in [("yes", true), (" yes\n", true), ("no", false), ("", false), (nil, false)] {
            #expect(try Answers(answer).approve(question: "mount?") == allows)
        }
    }

    @Test func errorOfAPromptFailsTheStart() async throws {
        struct Failure: Error, CustomStringConvertible {
            let description = "no terminal"
        }
        final class Fails: UserPrompt {
            func askSecret(question: String) throws -> Secret? { throw Failure() }
        }
        final class Cancels: UserPrompt {
            func askSecret(question: String) throws -> Secret? {
                throw McpmError.Interrupted(message: "the user went away", hint: nil, context: [:])
            }
        }
        try await withName("unprompted") { name in
            let options = try options(name)
            let failed = await failure { try await Workload.start(options, prompt: Fails()) }
            #expect(failed?.kind() == "io" && failed?.message == "the user prompt failed: no terminal")
            let cancelled = await failure { try await Workload.start(options, prompt: Cancels()) }
            #expect(cancelled?.message == "the user went away" && cancelled?.kind() == "interrupted")
            let unprompted = await failure { try await Workload.start(options) }
            #expect(unprompted?.kind() == "invalid_option")
        }
    }
}
