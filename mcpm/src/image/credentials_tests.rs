//! Tests of finding logins.

use std::{fs, os::unix::fs::PermissionsExt};

use tempfile::TempDir;

use super::*;

/// A Docker folder with this configuration, and a folder for helper programs.
struct LoginFixture {
    docker: TempDir,
    programs: TempDir,
}

impl LoginFixture {
    fn new(config: &str) -> Self {
        let home = Self { docker: tempfile::tempdir().unwrap(), programs: tempfile::tempdir().unwrap() };
        fs::write(home.docker.path().join("config.json"), config).unwrap();
        home
    }

    fn program(self, name: &str, script: &str) -> Self {
        let path = self.programs.path().join(format!("docker-credential-{name}"));
        fs::write(&path, format!("#!/bin/sh\nPATH=/usr/bin:/bin\n{script}\n")).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        self
    }

    async fn lookup(&self, registry: &str) -> Result<Option<Credentials>> {
        let docker_config_dir = Some(self.docker.path().to_owned());
        let settings = EngineSettings { docker_config_dir, ..EngineSettings::default() };
        CredentialStore::new(&settings).helper_path(self.programs.path()).lookup(registry).await
    }
}

#[expect(clippy::unnecessary_wraps, reason = "it is compared with what was found")]
fn password(username: &str, password: &str) -> Option<Credentials> {
    Some(Credentials::Password { username: username.to_owned(), password: password.to_owned() })
}

#[tokio::test]
async fn logins_in_the_file_are_found_by_registry() {
    let home = LoginFixture::new(
        r#"{"auths": {
            "https://index.docker.io/v1/": {"auth": "aHViOnM6ZWNyZXQ="},
            "https://old.example/v1/": {"auth": "b2xkOnB3"},
            "ghcr.io": {"identitytoken": "tok", "auth": "PHRva2VuPjo="},
            "plain.example": {"username": "u", "password": "p"},
            "empty.example": {}
        }, "HttpHeaders": {"User-Agent": "x"}}"#,
    );
    assert_eq!(home.lookup("docker.io").await.unwrap(), password("hub", "s:ecret"));
    assert_eq!(home.lookup("old.example").await.unwrap(), password("old", "pw"));
    assert_eq!(home.lookup("ghcr.io").await.unwrap(), Some(Credentials::IdentityToken("tok".to_owned())));
    assert_eq!(home.lookup("plain.example").await.unwrap(), password("u", "p"));
    assert_eq!(home.lookup("empty.example").await.unwrap(), None);
    assert_eq!(home.lookup("io").await.unwrap(), None);
}

#[tokio::test]
async fn a_credential_helper_serves_its_registry_and_the_store_all_others() {
    let home =
        LoginFixture::new(r#"{"credsStore": "all", "credHelpers": {"ghcr.io": "one", "off.example": ""}}"#)
            .program("all", r#"read -r server; echo "{\"Username\":\"all $1\",\"Secret\":\"$server\"}""#)
            .program("one", r#"echo '{"ServerURL":"x","Username":"<token>","Secret":"tok"}'"#);
    let hub = password("all get", "https://index.docker.io/v1/");
    assert_eq!(home.lookup("docker.io").await.unwrap(), hub);
    assert_eq!(home.lookup("quay.io").await.unwrap(), password("all get", "quay.io"));
    assert_eq!(home.lookup("ghcr.io").await.unwrap(), Some(Credentials::IdentityToken("tok".to_owned())));
    assert_eq!(home.lookup("off.example").await.unwrap(), None);
}

#[tokio::test]
async fn the_config_file_is_used_when_a_helper_has_no_login() {
    let config = r#"{"credsStore": "none", "auths": {"a.example": {"auth": "dTpw"}}}"#;
    let home =
        LoginFixture::new(config).program("none", "echo credentials not found in native keychain; exit 1");
    assert_eq!(home.lookup("a.example").await.unwrap(), password("u", "p"));
    assert_eq!(home.lookup("b.example").await.unwrap(), None);
}

#[tokio::test]
async fn a_helper_that_misbehaves_is_named_and_never_quoted() {
    let secret = "s3cret";
    let cases = [
        ("fails", format!("echo {secret}; exit 3"), "failed"),
        ("babbles", format!("echo '{{\"Username\": \"{secret}'"), "cannot be parsed"),
        ("floods", format!("yes {secret}"), "wrote too much output"),
    ];
    for (name, script, why) in cases {
        let home = LoginFixture::new(&format!(r#"{{"credsStore": "{name}"}}"#)).program(name, &script);
        let error = home.lookup("a.example").await.unwrap_err().to_string();
        assert!(error.contains(&format!("docker-credential-{name}")) && error.contains(why), "{error}");
        assert!(!error.contains(secret), "{error}");
    }
    for missing in ["missing", "../evil"] {
        let error = LoginFixture::new(&format!(r#"{{"credsStore": "{missing}"}}"#))
            .lookup("a.example")
            .await
            .unwrap_err();
        assert_eq!(error.kind(), ErrorKind::CorruptState);
    }
}

#[tokio::test]
async fn a_damaged_file_is_an_error_that_quotes_nothing() {
    let error = LoginFixture::new(r#"{"auths": {"a.example": {"auth": 5, "password": "s3cret"}}}"#)
        .lookup("a.example")
        .await;
    let error = error.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::CorruptState);
    assert!(error.to_string().contains("config.json") && !error.to_string().contains("s3cret"), "{error}");
    let error = LoginFixture::new(r#"{"auths": {"a.example": {"auth": "s3cret!"}}}"#)
        .lookup("a.example")
        .await
        .unwrap_err();
    assert!(error.to_string().contains("docker login a.example"), "{error}");
    assert!(!error.to_string().contains("s3cret"), "{error}");
}

#[tokio::test]
async fn a_helper_outside_of_the_path_is_found_in_the_usual_folders() {
    let script = r#"cat >/dev/null; echo '{"Username": "u", "Secret": "p"}'"#;
    let login = LoginFixture::new(r#"{"credsStore": "far"}"#).program("far", script);
    let home = tempfile::tempdir().unwrap();
    fs::create_dir(home.path().join(".docker")).unwrap();
    fs::rename(login.programs.path(), home.path().join(".docker/bin")).unwrap();
    let settings = EngineSettings {
        home: Some(home.path().to_owned()),
        docker_config_dir: Some(login.docker.path().to_owned()),
        ..EngineSettings::default()
    };
    let store = CredentialStore::new(&settings).helper_path("/nowhere");
    assert_eq!(store.lookup("a.example").await.unwrap(), password("u", "p"));
}

#[tokio::test]
async fn no_file_means_no_login_and_podmans_files_come_next() {
    assert_eq!(CredentialStore::new(&EngineSettings::default()).lookup("a.example").await.unwrap(), None);
    let folder = tempfile::tempdir().unwrap();
    let write = |dir: &str, auths: &str| {
        let path = folder.path().join(dir).join("containers");
        fs::create_dir_all(&path).unwrap();
        fs::write(path.join("auth.json"), format!(r#"{{"auths": {auths}}}"#)).unwrap();
    };
    write("run", r#"{"a.example": {"auth": "dTpw"}}"#);
    write("config", r#"{"a.example": {"auth": "djpx"}, "b.example": {"auth": "djpx"}}"#);
    let settings = EngineSettings {
        runtime_dir: Some(folder.path().join("run")),
        config_home: Some(folder.path().join("config")),
        ..EngineSettings::default()
    };
    let store = CredentialStore::new(&settings);
    assert_eq!(store.lookup("a.example").await.unwrap(), password("u", "p"));
    assert_eq!(store.lookup("b.example").await.unwrap(), password("v", "q"));
}

#[test]
fn debug_shows_no_secret() {
    let shown =
        format!("{:?} {:?}", password("user", "s3cret"), Credentials::IdentityToken("s3cret".to_owned()));
    assert!(shown.contains("user") && !shown.contains("s3cret"), "{shown}");
}
