use std::{
    os::unix::fs::{MetadataExt as _, PermissionsExt as _},
    path::PathBuf,
    sync::Mutex,
};

use async_trait::async_trait;

use super::*;
use crate::user_prompt::UserPrompt;

/// A user with their own folders, whose secrets are encrypted with a password.
struct Home {
    root: tempfile::TempDir,
    environment: Environment,
}

impl Home {
    fn new() -> Self {
        let root = tempfile::tempdir().unwrap();
        let mut environment = Environment::from_lookup(|_| None);
        environment.state_dir = root.path().join("state");
        environment.config_dir = root.path().join("config");
        environment.secrets.password = Some(Secret::from("correct horse"));
        Self { root, environment }
    }

    fn secrets(&self) -> Secrets {
        Secrets::open(&self.environment).unwrap()
    }

    fn file(&self) -> PathBuf {
        self.environment.state_dir.join("secrets/store.json")
    }

    fn choose(&self, provider: Provider, command: &[&str]) {
        let command = command.iter().map(ToString::to_string).collect();
        StoreConfig { provider, command, ..StoreConfig::default() }.save(&self.environment).unwrap();
    }

    fn program(&self, body: &str) -> String {
        let path = self.root.path().join("program");
        std::fs::write(&path, format!("#!/bin/sh\n{body}\n")).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
        path.to_str().unwrap().to_owned()
    }
}

fn names(infos: &[SecretInfo]) -> Vec<&str> {
    infos.iter().map(|info| info.name.as_str()).collect()
}

#[tokio::test]
async fn a_value_is_kept_found_listed_and_forgotten() {
    let home = Home::new();
    assert_eq!(home.secrets().list().await.unwrap(), []);
    for (name, value) in [("b", "two"), ("a", "one"), ("b", "three")] {
        home.secrets().set(name, &Secret::from(value)).await.unwrap();
    }
    assert_eq!(home.secrets().get("b").await.unwrap().expose(), "three");
    assert_eq!(names(&home.secrets().list().await.unwrap()), ["a", "b"]);
    home.secrets().remove("a").await.unwrap();
    assert_eq!(home.secrets().remove("a").await.unwrap_err().kind(), ErrorKind::NotFound);
    assert_eq!(home.secrets().get("a").await.unwrap_err().kind(), ErrorKind::NotFound);
    assert_eq!(names(&home.secrets().list().await.unwrap()), ["b"]);
}

#[tokio::test]
async fn the_file_is_private_and_shows_neither_names_nor_values() {
    let home = Home::new();
    home.secrets().set("telltale", &Secret::from("hush-hush")).await.unwrap();
    let text = std::fs::read_to_string(home.file()).unwrap();
    assert!(!text.contains("telltale") && !text.contains("hush"), "{text}");
    assert!(text.contains("\"argon2id\"") && text.contains("chacha20-poly1305"), "{text}");
    for path in [home.file(), home.file().with_file_name("lock")] {
        assert_eq!(std::fs::metadata(&path).unwrap().mode() & 0o777, 0o600, "{}", path.display());
    }
    assert_eq!(std::fs::metadata(home.file().parent().unwrap()).unwrap().mode() & 0o777, 0o700);
    // The same content is encrypted differently, because salt and nonce are fresh.
    home.secrets().set("telltale", &Secret::from("hush-hush")).await.unwrap();
    assert_ne!(std::fs::read_to_string(home.file()).unwrap(), text);
}

#[tokio::test]
async fn a_wrong_password_and_a_changed_file_open_nothing() {
    let mut home = Home::new();
    home.secrets().set("a", &Secret::from("hush")).await.unwrap();
    let before = std::fs::read(home.file()).unwrap();
    home.environment.secrets.password = Some(Secret::from("battery staple"));
    for outcome in [
        home.secrets().get("a").await.map(drop),
        home.secrets().set("b", &Secret::from("x")).await,
        home.secrets().remove("a").await,
    ] {
        assert_eq!(outcome.unwrap_err().kind(), ErrorKind::SecretsUnavailable);
    }
    assert_eq!(std::fs::read(home.file()).unwrap(), before);
    home.environment.secrets.password = Some(Secret::from("correct horse"));
    let text = String::from_utf8(before).unwrap();
    for (what, by, kind) in [
        ("\"passes\": 3", "\"passes\": 2", ErrorKind::SecretsUnavailable),
        ("\"passes\": 3", "\"passes\": 4000000000", ErrorKind::CorruptState),
        ("\"memory_kib\": 65536", "\"memory_kib\": 8", ErrorKind::CorruptState),
        ("argon2id", "sha256", ErrorKind::CorruptState),
        ("\"version\": 1", "\"version\": 2", ErrorKind::CorruptState),
        ("\"data\": \"", "\"data\": \"AAAA", ErrorKind::SecretsUnavailable),
        ("\"data\": \"", "\"data\": \"?", ErrorKind::CorruptState),
        ("{", "{\"extra\": 1,", ErrorKind::CorruptState),
    ] {
        assert!(text.contains(what), "{what}: {text}");
        std::fs::write(home.file(), text.replacen(what, by, 1)).unwrap();
        let error = home.secrets().get("a").await.unwrap_err();
        assert_eq!(error.kind(), kind, "{by}: {error}");
    }
    std::fs::write(home.file(), text).unwrap();
    assert_eq!(home.secrets().get("a").await.unwrap().expose(), "hush");
}

#[tokio::test]
async fn the_format_sample_is_still_readable() {
    let mut home = Home::new();
    home.environment.secrets.password = Some(Secret::from("sample"));
    std::fs::create_dir_all(home.file().parent().unwrap()).unwrap();
    std::fs::write(home.file(), include_bytes!("samples/store.v1.json")).unwrap();
    assert_eq!(home.secrets().get("token").await.unwrap().expose(), "välue\nof two lines");
}

#[tokio::test]
async fn changes_at_the_same_time_are_all_kept() {
    let home = Home::new();
    let one = |number: usize| {
        let secrets = home.secrets();
        async move { secrets.set(&format!("n{number}"), &Secret::from("x")).await.unwrap() }
    };
    futures_util::future::join_all((0..4).map(one)).await;
    assert_eq!(home.secrets().list().await.unwrap().len(), 4);
}

/// Responds to prompts from a list.
#[derive(Debug)]
struct Answers(Mutex<Vec<&'static str>>);

#[async_trait]
impl UserPrompt for Answers {
    async fn ask_secret(&self, _question: &str) -> Result<Option<Secret>> {
        Ok(self.0.lock().unwrap().pop().map(Secret::from))
    }
}

#[tokio::test]
async fn the_password_is_asked_for_once_and_a_new_one_twice() {
    let mut home = Home::new();
    home.environment.secrets.password = None;
    let value = Secret::from("x");
    let answers = |answers: &[&'static str]| {
        let mut environment = home.environment.clone();
        environment.user_prompt = Some(Arc::new(Answers(Mutex::new(answers.to_vec()))));
        Secrets::open(&environment).unwrap()
    };
    let kind = |outcome: Result<()>| outcome.unwrap_err().kind();
    assert_eq!(kind(home.secrets().set("a", &value).await), ErrorKind::SecretsUnavailable);
    assert_eq!(kind(answers(&[]).set("a", &value).await), ErrorKind::SecretsUnavailable);
    assert_eq!(kind(answers(&["other", "one"]).set("a", &value).await), ErrorKind::InvalidOption);
    assert_eq!(kind(answers(&["", ""]).set("a", &value).await), ErrorKind::InvalidOption);
    assert!(!home.file().exists());
    let secrets = answers(&["one", "one"]);
    secrets.set("a", &value).await.unwrap();
    secrets.set("b", &value).await.unwrap();
    assert_eq!(answers(&["one"]).list().await.unwrap().len(), 2);
}

#[tokio::test]
async fn the_password_may_be_in_a_file() {
    let mut home = Home::new();
    home.secrets().set("a", &Secret::from("x")).await.unwrap();
    home.environment.secrets.password = None;
    let path = home.root.path().join("password");
    home.environment.secrets.password_file = Some(path.clone());
    assert_eq!(home.secrets().get("a").await.unwrap_err().kind(), ErrorKind::SecretsUnavailable);
    std::fs::write(&path, "\n").unwrap();
    assert_eq!(home.secrets().get("a").await.unwrap_err().kind(), ErrorKind::SecretsUnavailable);
    std::fs::write(&path, "correct horse\nanother line\n").unwrap();
    assert_eq!(home.secrets().get("a").await.unwrap().expose(), "x");
}

#[tokio::test]
async fn an_environment_value_overrides_a_stored_one_without_a_password() {
    let mut home = Home::new();
    home.secrets().set("a", &Secret::from("kept")).await.unwrap();
    home.environment.secrets.password = None;
    home.environment.secrets.overrides.insert("a".to_owned(), Secret::from("given"));
    assert_eq!(home.secrets().get("a").await.unwrap().expose(), "given");
    home.environment.secrets.provider = Some("environment".to_owned());
    assert_eq!(home.secrets().list().await.unwrap()[0].place, "the variable `MCPM_SECRET_a`");
    assert_eq!(home.secrets().set("b", &Secret::from("x")).await.unwrap_err().kind(), ErrorKind::Unsupported);
}

#[tokio::test]
async fn values_are_read_all_or_none_and_every_missing_one_is_named() {
    let home = Home::new();
    home.secrets().set("a", &Secret::from("one")).await.unwrap();
    let values = read(&["a", "a"].map(str::to_owned), &home.environment).await.unwrap();
    assert_eq!(values.get("a").unwrap().expose(), "one");
    let error = read(&["b", "a", "c"].map(str::to_owned), &home.environment).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound);
    assert!(error.message().contains("there are no secrets `b`, `c` in the encrypted file"), "{error}");
    assert_eq!(format!("{values:?}"), "SecretValues({\"a\": Secret(..)})");
    // Nothing is opened if no secret is needed.
    std::fs::write(home.file(), "broken").unwrap();
    assert!(read(&[], &home.environment).await.unwrap().is_empty());
}

#[tokio::test]
async fn bad_names_and_values_are_refused() {
    let home = Home::new();
    for name in ["", "-a", "a,b", "a\nb", " a", "a ", &"x".repeat(256)] {
        let error = home.secrets().set(name, &Secret::from("x")).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidOption, "{name:?}");
    }
    for value in ["", "hush\0", &"hush".repeat(MAX_VALUE_BYTES)] {
        let error = home.secrets().set("a", &Secret::from(value)).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidOption);
        assert!(!error.to_string().contains("hush"));
    }
    assert!(!home.file().exists());
}

#[tokio::test]
async fn the_command_runs_without_a_shell() {
    let home = Home::new();
    let name = "op://vault/$(touch hacked); item";
    for (arguments, expected) in [
        (&["read", "{name}"][..], format!("read|{name}|2")),
        (&["--item={name}", "x"], format!("--item={name}|x|2")),
        (&["-q"], format!("-q|{name}|2")),
    ] {
        let program = home.program(r#"printf '%s|%s|%s\n' "$1" "$2" "$#""#);
        home.choose(Provider::Command, &[&[program.as_str()], arguments].concat());
        assert_eq!(home.secrets().get(name).await.unwrap().expose(), expected);
    }
    let refused = home.secrets().set("a", &Secret::from("x")).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Unsupported);
}

#[tokio::test]
async fn a_failed_command_does_not_leak_the_value() {
    let home = Home::new();
    for body in ["echo hush; exit 3", "true", "echo", "printf 'hush\\377'", "yes hush", "kill -9 $$"] {
        let program = home.program(body);
        home.choose(Provider::Command, &[&program]);
        let error = home.secrets().get("a").await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::SecretsUnavailable, "{body}");
        assert!(!error.to_string().contains("hush"), "{error}");
    }
    home.choose(Provider::Command, &["/no/such/program"]);
    assert_eq!(home.secrets().get("a").await.unwrap_err().kind(), ErrorKind::SecretsUnavailable);
}

#[test]
fn an_inconsistent_store_config_is_not_saved() {
    let mut home = Home::new();
    for choice in [
        StoreConfig { provider: Provider::Command, ..StoreConfig::default() },
        StoreConfig { command: vec!["a".to_owned()], ..StoreConfig::default() },
        StoreConfig { provider: Provider::Environment, password_in_keyring: true, ..StoreConfig::default() },
    ] {
        assert_eq!(choice.save(&home.environment).unwrap_err().kind(), ErrorKind::InvalidOption);
    }
    assert_eq!(StoreConfig::load(&home.environment).unwrap(), StoreConfig::default());
    home.environment.secrets.provider = Some("other".to_owned());
    assert_eq!(Secrets::open(&home.environment).unwrap_err().kind(), ErrorKind::InvalidOption);
}

#[cfg(all(feature = "keyring", not(target_os = "macos")))]
#[tokio::test]
async fn without_a_keyring_the_error_says_so() {
    let mut home = Home::new();
    home.environment.secrets.provider = Some("keyring".to_owned());
    for bus in [None, Some("unix:path=/nowhere"), Some("nonsense")] {
        home.environment.secrets.session_bus = bus.map(str::to_owned);
        let error = home.secrets().get("a").await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::SecretsUnavailable);
        assert!(error.message().starts_with("cannot use the keyring"), "{error}");
    }
}
