use super::*;

use crate::options::{OptionSet as _, ProxyOptions};

const ISSUER: (&str, &str) = ("oidc-issuer", "https://id.example");
const URL: (&str, &str) = ("token-exchange-url", "https://id.example/token");

fn parse(options: &[(&str, &str)]) -> Result<Option<ExchangeSpec>> {
    let mut all = ProxyOptions::default();
    for (name, value) in options {
        all.set(name, value)?;
    }
    all.check_conflicts()?;
    let (options, folder) = (SharedOptions::from(&all), Path::new("/work"));
    let incoming = IncomingSpec::read(&options, folder)?;
    ExchangeSpec::read(&options, incoming.as_ref(), folder)
}

#[test]
fn the_endpoint_turns_it_on_and_nothing_else_has_an_effect_alone() {
    assert_eq!(parse(&[ISSUER]).expect("fine"), None);
    assert_eq!(parse(&[("token-exchange-subject-token-type", "access_token")]).expect("fine"), None);
    for (name, value) in [
        ("token-exchange-audience", "a"),
        ("token-exchange-client-id", "a"),
        ("token-exchange-client-secret", "hush"),
        ("token-exchange-client-secret-file", "f"),
        ("token-exchange-scopes", "a"),
        ("token-exchange-subject-token-type", "id_token"),
        ("token-exchange-header-name", "X-Token"),
    ] {
        assert_eq!(parse(&[ISSUER, (name, value)]).expect(name), None, "it is warned of");
    }
    let error = parse(&[URL]).expect_err("a refusal").to_string();
    assert!(error.contains("`token_exchange_url`") && error.contains("`oidc_issuer`"), "{error}");
}

#[test]
fn every_option_is_in_what_comes_of_it() {
    let plain = parse(&[ISSUER, URL]).expect("fine").expect("on");
    let expected = ExchangeSpec {
        url: URL.1.to_owned(),
        audience: None,
        client_id: None,
        client_secret: SecretSource::None,
        scopes: Vec::new(),
        subject_token_type: SubjectTokenType::AccessToken,
        header: None,
    };
    assert_eq!(plain, expected);
    assert_eq!(plain.header().expect("a header"), header::AUTHORIZATION);
    let options = [
        ISSUER,
        URL,
        ("token-exchange-audience", "notes"),
        ("token-exchange-client-id", "me"),
        ("token-exchange-client-secret-file", "f"),
        ("token-exchange-scopes", "a,b"),
        ("token-exchange-subject-token-type", "id_token"),
        ("token-exchange-header-name", "X-Token"),
    ];
    let full = parse(&options).expect("fine").expect("on");
    let expected = ExchangeSpec {
        audience: Some("notes".to_owned()),
        client_id: Some("me".to_owned()),
        client_secret: SecretSource::File("/work/f".into()),
        scopes: vec!["a".to_owned(), "b".to_owned()],
        subject_token_type: SubjectTokenType::IdToken,
        header: Some("X-Token".to_owned()),
        ..expected
    };
    assert_eq!(full, expected);
    assert_eq!(full.header().expect("a header"), "x-token");
}

#[test]
fn what_does_not_go_together_is_refused() {
    for (more, said) in [
        (vec![("token-exchange-url", "http://id.example/token")], "`oidc_insecure_allow_http`"),
        (vec![("token-exchange-url", "https://u:hush@id.example/token")], "credentials"),
        (vec![("token-exchange-client-secret", "hush")], "`token_exchange_client_id`"),
        (vec![("token-exchange-client-secret-file", "f")], "`token_exchange_client_id`"),
        (
            vec![
                ("token-exchange-client-id", "a"),
                ("token-exchange-client-secret", "hush"),
                ("token-exchange-client-secret-file", "f"),
            ],
            "cannot be used with",
        ),
        (vec![("token-exchange-scopes", "a\"b")], "not a valid scope"),
        (vec![("token-exchange-header-name", "Content-Type")], "not a header"),
        (vec![("token-exchange-header-name", "x-forwarded-for")], "not a header"),
        (vec![("token-exchange-header-name", "a b")], "not a header"),
        (vec![("token-exchange-subject-token-type", "saml2")], "id_token"),
    ] {
        let options: Vec<_> = [ISSUER, URL].into_iter().chain(more).collect();
        let error = parse(&options).expect_err(said).to_string();
        assert!(error.contains(said) && !error.contains("hush"), "{error}");
    }
}

#[test]
fn the_client_secret_is_read_from_its_configured_source() {
    let folder = tempfile::tempdir().expect("a folder");
    let (file, empty) = (folder.path().join("secret"), folder.path().join("empty"));
    std::fs::write(&file, " hush\n").expect("a file");
    std::fs::write(&empty, "\n").expect("a file");
    let spec = parse(&[ISSUER, URL]).expect("fine").expect("on");
    let with = |client_secret| ExchangeSpec { client_secret, ..spec.clone() };
    let read = |path: &Path| with(SecretSource::File(path.to_owned())).read_secret();
    assert_eq!(read(&file).expect("a secret").expect("one").expose(), "hush");
    let pipe = folder.path().join("pipe");
    crate::testing::make_pipe(&pipe);
    for (path, said) in [
        (empty, "the file is empty"),
        (folder.path().join("none"), "none"),
        (folder.path().to_owned(), "not a regular file"),
        (pipe, "not a regular file"),
    ] {
        let error = read(&path).expect_err("a refusal").to_string();
        assert!(error.contains(said), "{error}");
    }
    assert!(with(SecretSource::Given).check_secret(Some(&Secret::from("x"))).is_ok());
    let error = with(SecretSource::Given).check_secret(None).expect_err("a refusal").to_string();
    assert!(error.contains("MCPM_TOKEN_EXCHANGE_CLIENT_SECRET"), "{error}");
    assert!(with(SecretSource::None).check_secret(None).is_ok());
    // The record contains where the secret is, not its value.
    let written = serde_json::to_string(&with(SecretSource::Given)).expect("JSON");
    assert!(written.contains(r#""client_secret":"given""#), "{written}");
}
