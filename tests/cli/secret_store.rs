//! Tests `mcpm secret`: which values are stored, in which store, and how the command prompts for them.

use std::{
    fs,
    io::{Read as _, Write as _},
    os::unix::fs::PermissionsExt as _,
    process::{Command, Stdio},
};

use super::support::{Home, Outcome};

impl Home {
    /// Runs a command that reads a text from its standard input.
    pub(super) fn run_with_stdin(&self, text: &str, command: &mut Command) -> Outcome {
        let mut child =
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        // A command that fails early does not read its input.
        let _ = child.stdin.take().unwrap().write_all(text.as_bytes());
        Outcome::of(child.wait_with_output().unwrap())
    }

    /// A home with a password for its secrets.
    pub(super) fn with_password() -> Self {
        let home = Self::new();
        home.set("MCPM_SECRETS_PASSWORD", "correct horse");
        home
    }

    pub(super) fn store_secret(&self, name: &str, value: &str) {
        self.run_with_stdin(value, &mut self.mcpm(&["secret", "set", name])).succeeded();
    }
}

#[test]
fn values_are_kept_shown_listed_and_forgotten() {
    let home = Home::with_password();
    home.run_and_record(&["secret", "list"]);
    for (name, value) in [("github", "one\n"), ("other key", "two\nlines\r\n"), ("github", "three")] {
        let outcome = home.run_with_stdin(value, &mut home.mcpm(&["secret", "set", name]));
        home.append_to_transcript(&format!("mcpm secret set '{name}' < VALUE"), &outcome);
    }
    home.run_and_record(&["secret", "get", "github"]);
    home.run_and_record(&["secret", "get", "other key"]);
    home.set("MCPM_SECRET_given", "hush");
    home.run_and_record(&["secret", "list"]);
    home.run_and_record(&["secret", "list", "--output", "json"]);
    home.run_and_record(&["secret", "get", "given"]);
    home.run_and_record(&["secret", "rm", "github", "absent", "other key"]);
    home.run_and_record(&["secret", "get", "github"]);
    home.assert_transcript("secret_store/kept");
}

#[test]
fn bad_input_is_one_message_that_repeats_no_value() {
    let home = Home::with_password();
    for args in [
        &["secret", "set", "github", "hush"][..],
        &["secret", "set", "github", "--", "hush"],
        &["secret", "set", "a,b"],
        &["secret", "set", "github"],
        &["secret", "get", ""],
        &["secret", "provider", "other"],
        &["secret", "provider", "command"],
        &["secret", "provider", "encrypted", "--", "pass"],
        &["secret", "provider", "keyring", "--password-in-keyring"],
    ] {
        let outcome = home.run_and_record(args);
        assert_eq!(outcome.code, Some(2), "{outcome:?}");
        assert!(!outcome.stderr.contains("hush"), "{outcome:?}");
    }
    let outcome = home.run_with_stdin("hush\0", &mut home.mcpm(&["secret", "set", "github"]));
    home.append_to_transcript("mcpm secret set github < ZERO-BYTE", &outcome);
    home.assert_transcript("secret_store/bad_input");
    assert!(!home.path("state").exists() && !home.path("home/.config").exists());
}

#[test]
fn without_the_right_password_nothing_opens() {
    let home = Home::with_password();
    home.store_secret("github", "value");
    home.set("MCPM_SECRETS_PASSWORD", "battery staple");
    home.run_and_record(&["secret", "get", "github"]);
    home.set("MCPM_SECRETS_PASSWORD", "");
    // A separate process session has no terminal for prompts.
    home.record_command(
        "mcpm secret list",
        home.command("setsid").arg("--wait").arg(home.program()).args(["secret", "list"]),
    );
    home.write("password", "correct horse\n");
    home.set("MCPM_SECRETS_PASSWORD_FILE", "password");
    home.run_and_record(&["secret", "get", "github"]);
    fs::write(home.path("state/mcpm/secrets/store.json"), "{}").unwrap();
    home.run_and_record(&["secret", "get", "github"]);
    home.assert_transcript("secret_store/password");
}

#[test]
fn values_come_from_a_configured_program() {
    let home = Home::with_password();
    let program = home.write("bin/vault", "#!/bin/sh\n[ \"$2\" = github ] && echo from-the-vault\n");
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    home.run_and_record(&["secret", "provider"]);
    home.run_and_record(&["secret", "provider", "command", "--", &program, "read", "{name}"]);
    home.run_and_record(&["secret", "provider"]);
    home.run_and_record(&["secret", "get", "github"]);
    home.run_and_record(&["secret", "get", "absent"]);
    home.run_and_record(&["secret", "list"]);
    home.run_and_record(&["secret", "rm", "github"]);
    home.set("MCPM_SECRETS_PROVIDER", "environment");
    home.run_and_record(&["secret", "provider"]);
    home.run_and_record(&["secret", "get", "github"]);
    home.set("MCPM_SECRET_github", "given");
    home.run_and_record(&["secret", "get", "github"]);
    let outcome = home.run_with_stdin("x", &mut home.mcpm(&["secret", "set", "github"]));
    home.append_to_transcript("mcpm secret set github < VALUE", &outcome);
    home.run_and_record(&["secret", "provider", "encrypted"]);
    home.assert_transcript("secret_store/program");
}

/// Runs a command on its own terminal, and types there after each prompt. Returns the terminal's output.
fn on_a_terminal(command: &mut Command, answers: &[(&str, &str)]) -> String {
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let (mut keys, mut screen) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
    let mut seen = Vec::new();
    for (question, answer) in answers {
        while !String::from_utf8_lossy(&seen).ends_with(&format!("{question}: ")) {
            let mut byte = [0];
            assert_eq!(screen.read(&mut byte).unwrap(), 1, "{}", String::from_utf8_lossy(&seen));
            seen.push(byte[0]);
        }
        keys.write_all(answer.as_bytes()).unwrap();
    }
    screen.read_to_end(&mut seen).unwrap();
    child.wait().unwrap();
    String::from_utf8(seen).unwrap()
}

#[test]
fn values_and_passwords_are_prompted_for_without_echo() {
    let home = Home::new();
    let terminal = |args: &str| {
        let mut command = home.command("script");
        command.args(["--quiet", "--return", "--command"]);
        command.arg(format!("{} {args}; stty -a", home.program())).arg("/dev/null");
        command
    };
    let password = ("Password of mcpm's secrets", "hörse\r");
    let seen = on_a_terminal(
        &mut terminal("secret set github"),
        &[
            ("Value of github", "wrong\u{15}huxé\u{7f}\u{7f}sh\r"),
            ("New password for mcpm's secrets", "hörse\r"),
            ("Repeat the password", "hörse\r"),
        ],
    );
    assert!(!seen.contains("hush") && !seen.contains("hörse") && seen.contains(" echo "), "{seen}");
    let seen = on_a_terminal(&mut terminal("secret get github"), &[password]);
    assert!(seen.contains("hush\r\n"), "{seen}");
    // An interrupt cancels the prompt and restores the settings of the terminal.
    let seen = on_a_terminal(&mut terminal("secret get github"), &[(password.0, "hö\u{3}")]);
    assert!(seen.contains("error: interrupted") && seen.contains(" echo "), "{seen}");
}

/// A session bus with an unlocked keyring, for one shell script.
fn with_keyring(home: &Home, script: &str) -> Outcome {
    let unlock = "printf pw | gnome-keyring-daemon --unlock --components=secrets >/dev/null 2>&1";
    let script = format!("mcpm() {{ '{}' \"$@\"; }}; {unlock}; {script}", home.program());
    home.run_with_stdin("", home.command("dbus-run-session").args(["--", "sh", "-c", &script]))
}

#[test]
fn a_real_keyring_keeps_values() {
    let home = Home::new();
    let script = "
        mcpm secret provider keyring
        mcpm secret list
        printf 'one' | mcpm secret set 'the token'
        printf 'twö\\nlines' | mcpm secret set 'the token'
        printf 'three' | mcpm secret set other
        mcpm secret get 'the token'
        mcpm secret list
        mcpm secret rm other
        mcpm secret get other || echo gone";
    let outcome = with_keyring(&home, script).succeeded();
    let expected = "keyring  the keyring\nNAME  FROM\nthe token\nthe token\nother\ntwö\nlines\n\
        NAME       FROM\nother      the keyring\nthe token  the keyring\nother\ngone\n";
    assert_eq!(outcome.stdout, expected, "{outcome:?}");
    // A new keyring process reads the value from the keyring's own file.
    let outcome = with_keyring(&home, "mcpm secret get 'the token'").succeeded();
    assert_eq!(outcome.stdout, "twö\nlines\n");
    assert!(!home.path("state").exists());
    home.run_and_record(&["secret", "get", "other"]);
    home.assert_transcript("secret_store/no_keyring");
}

#[test]
fn the_doctor_finds_a_locked_keyring() {
    let home = Home::new();
    let lock = "dbus-send --session --print-reply --dest=org.freedesktop.secrets /org/freedesktop/secrets \
        org.freedesktop.Secret.Service.Lock array:objpath:/org/freedesktop/secrets/aliases/default >/dev/null";
    let doctor = "mcpm doctor -o json";
    let script = format!("mcpm secret provider keyring >/dev/null; {doctor}; echo; {lock} && {doctor}");
    let outcome = with_keyring(&home, &script);
    let mut documents = serde_json::Deserializer::from_str(&outcome.stdout).into_iter::<serde_json::Value>();
    let mut finding = || {
        let findings = documents.next().unwrap_or_else(|| panic!("{outcome:?}")).unwrap();
        let findings = findings["findings"].as_array().or(findings.as_array()).unwrap().clone();
        findings.into_iter().find(|finding| finding["id"] == "secrets.keyring").unwrap()
    };
    assert_eq!(finding()["severity"], "ok");
    let locked = finding();
    assert_eq!(locked["severity"], "warning", "{locked}");
    assert_eq!(locked["message"], "the keyring is locked", "{locked}");
}

#[test]
fn a_real_keyring_keeps_the_password_of_the_file() {
    let home = Home::new();
    home.set("MCPM_SECRETS_PASSWORD", "");
    let script = "
        mcpm secret provider encrypted --password-in-keyring
        printf 'hush' | MCPM_SECRETS_PASSWORD=known mcpm secret set github
        setsid --wait mcpm secret get github 2>/dev/null || echo not known yet";
    let script = script.replace("--wait mcpm", &format!("--wait '{}'", home.program()));
    let outcome = with_keyring(&home, &script).succeeded();
    assert!(outcome.stdout.ends_with("\ngithub\nnot known yet\n"), "{outcome:?}");
    // The user types the password once, on a terminal; from then on the keyring has it.
    let mut command = home.command("dbus-run-session");
    let unlock = "printf pw | gnome-keyring-daemon --unlock --components=secrets >/dev/null 2>&1";
    let inner =
        format!("{unlock}; {} secret get github; setsid --wait {0} secret get github", home.program());
    let inner = inner.replace("{0}", &home.program());
    command.args(["--", "script", "--quiet", "--return", "--command", &inner, "/dev/null"]);
    let seen = on_a_terminal(&mut command, &[("Password of mcpm's secrets", "known\r")]);
    assert_eq!(seen.matches("hush\r\n").count(), 2, "{seen}");
}
