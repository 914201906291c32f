use std::sync::Mutex;

use super::*;

fn push_all(log: &mut BuildLog, pieces: &[&str]) -> Vec<BuildProgress> {
    let told = Mutex::new(Vec::new());
    for piece in pieces {
        log.push(piece, &|progress| told.lock().unwrap().push(progress));
    }
    told.into_inner().unwrap()
}

fn step(number: u32, total: u32, instruction: &str) -> BuildProgress {
    BuildProgress::Step { number, total, instruction: instruction.to_owned() }
}

fn line(text: &str) -> BuildProgress {
    BuildProgress::Line(text.to_owned())
}

#[test]
fn parses_build_progress_of_both_engines() {
    let none: [String; 0] = [];
    let mut log = BuildLog::new(none.iter());
    let docker = [
        "Step 1/2 : FROM a",
        "\n",
        " ---> 0123456789ab\n",
        "Step 2/2 : RUN [\"x\"]\n",
        "\x1b[91mhe",
        "llo\n\x1b[0m",
    ];
    assert_eq!(push_all(&mut log, &docker), [step(1, 2, "FROM a"), step(2, 2, "RUN [\"x\"]"), line("hello")]);
    let podman = ["STEP 1/2: FROM a\n", "[2/3] STEP 2/2: RUN [\"x\"]\n", "50%\r100%\n"];
    let expected = [step(1, 2, "FROM a"), step(2, 2, "RUN [\"x\"]"), line("50%"), line("100%")];
    assert_eq!(push_all(&mut log, &podman), expected);
    assert_eq!(push_all(&mut log, &["Step by step\n"]), [line("Step by step")]);
    let built = "Successfully built 0123456789ab";
    assert_eq!(push_all(&mut log, &[built, "\n"]), [line(built)]);
}

#[test]
fn a_failure_names_the_step_its_exit_code_and_its_last_words() {
    let none: [String; 0] = [];
    let mut log = BuildLog::new(none.iter());
    push_all(&mut log, &["Step 1/1 : RUN [\"x\"]\n", "one\n", "two"]);
    let error = log.build_error("The command '/bin/sh x' returned a non-zero code: 42");
    assert_eq!(error.kind(), ErrorKind::ImageUnavailable);
    let text = "step 1/1 `RUN [\"x\"]` failed with exit code 42: last output: one | two";
    assert_eq!(error.to_string(), text);
    let error = BuildLog::new(none.iter()).build_error("dockerfile parse error");
    assert_eq!(error.to_string(), "the build failed: dockerfile parse error");
    let mut log = BuildLog::new(none.iter());
    push_all(&mut log, &["STEP 1/1: RUN [\"x\"]\n", &"é".repeat(4000), "\n"]);
    let error = log.build_error("while running runtime: exit status 2").to_string();
    assert!(error.contains("exit code 2") && error.len() < MAX_EXCERPT_BYTES + 100, "{error}");
}

#[test]
fn logins_in_variables_are_shown_nowhere() {
    let args =
        ["https://user:pass-word@index.example/simple".to_owned(), "http://token@proxy.example".to_owned()];
    let mut log = BuildLog::new(args.iter());
    let shown = push_all(
        &mut log,
        &["Step 1/1 : RUN x\n", "GET https://user:pass-word@index.example/a by token, pass-word\n"],
    );
    assert_eq!(shown[1], line("GET https://***@index.example/a by ***, ***"));
    let error = log.build_error("cannot reach https://user:pass-word@index.example").to_string();
    assert!(!error.contains("pass-word"), "{error}");
}

#[test]
fn a_certificate_of_an_unknown_authority_is_answered_with_the_option_for_it() {
    let none: [String; 0] = [];
    for (line, has_hint) in [
        ("invalid peer certificate: UnknownIssuer", true),
        ("npm error code SELF_SIGNED_CERT_IN_CHAIN", true),
        ("tls: failed to verify certificate: x509: certificate signed by unknown authority", true),
        ("no such package", false),
    ] {
        let mut log = BuildLog::new(none.iter());
        push_all(&mut log, &["Step 1/1 : RUN [\"x\"]\n", line, "\n"]);
        let error = log.build_error("The command '/bin/sh x' returned a non-zero code: 1");
        assert_eq!(error.to_string().contains("set `ca_cert` to a file"), has_hint, "{error}");
    }
}
