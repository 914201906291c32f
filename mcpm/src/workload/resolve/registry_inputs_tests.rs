use std::{collections::BTreeMap, path::Path, sync::Mutex};

use async_trait::async_trait;

use super::{
    super::{permissions::EffectivePermissions, remote},
    *,
};
use crate::{
    options::{Secret, SecretRef, WorkloadOptions},
    user_prompt::UserPrompt,
};

/// A user who answers each question with its name and a number.
#[derive(Debug, Default)]
struct NumberedAnswers {
    asked: Mutex<Vec<(String, bool)>>,
    absent: bool,
}

#[async_trait]
impl UserPrompt for NumberedAnswers {
    async fn ask_secret(&self, question: &str) -> Result<Option<Secret>> {
        Ok(self.answer(question, true).map(Secret::from))
    }

    async fn ask_text(&self, question: &str) -> Result<Option<String>> {
        Ok(self.answer(question, false))
    }
}

impl NumberedAnswers {
    fn answer(&self, question: &str, secret: bool) -> Option<String> {
        let mut asked = self.asked.lock().unwrap();
        asked.push((question.to_owned(), secret));
        let name = question.split(' ').next().unwrap_or_default();
        (!self.absent).then(|| format!("{name}-{}", asked.len()))
    }
}

struct InputFixture {
    folder: tempfile::TempDir,
    environment: Environment,
}

fn home() -> InputFixture {
    let folder = tempfile::tempdir().unwrap();
    let environment = Environment {
        config_dir: folder.path().to_owned(),
        working_dir: folder.path().to_owned(),
        ..Environment::from_lookup(|_| None)
    };
    InputFixture { folder, environment }
}

fn sample(name: &str) -> String {
    format!("{}/../tests/data/valid/registry/{name}.json", env!("CARGO_MANIFEST_DIR"))
}

fn options(server: &str, registry: &str) -> WorkloadOptions {
    WorkloadOptions {
        server: Some(server.into()),
        registry: Some(sample(registry)),
        ..WorkloadOptions::default()
    }
}

async fn resolve_request(
    home: &InputFixture,
    options: WorkloadOptions,
    user: &NumberedAnswers,
) -> Result<WorkloadRequest> {
    let located =
        look_up(&WorkloadRequest::load(options, &home.environment)?, &home.environment, &|_| {}).await?;
    resolve_inputs(&located, &home.environment, &InputMode::Interactive(Some(user))).await
}

fn value<'a>(asked: &'a WorkloadRequest, name: &str) -> Option<(&'a str, ValueOrigin)> {
    asked.registry_values.as_ref()?.env.get(name).map(|(value, origin)| (value.as_str(), *origin))
}

#[tokio::test]
async fn the_entry_fills_unset_values_and_the_user_is_prompted_for_the_rest() {
    let (home, user) = (home(), NumberedAnswers::default());
    let asked = resolve_request(&home, options("weather", "server"), &user).await.unwrap();
    let ServerSource::Image(image) = &asked.source else { panic!("{asked:?}") };
    assert_eq!(image.to_string(), "registry.example.com/weather:1.2.0", "an image goes before a package");
    let effective = asked.effective_options();
    assert_eq!((effective.transport, effective.target_port), (Some(Transport::StreamableHttp), Some(9000)));
    assert_eq!(effective.args, ["Berlin", "--units", "metric", "--verbose"]);
    assert_eq!(asked.origin("transport"), ValueOrigin::Registry);
    assert_eq!(value(&asked, "WEATHER_REGION"), Some(("eu", ValueOrigin::Registry)));
    assert_eq!(value(&asked, "WEATHER_KEY"), None, "a secret is no variable among others");
    let name: WorkloadName = "web".parse().unwrap();
    let typed: Vec<(String, &str)> = asked
        .prompted_secrets(&name)
        .into_iter()
        .map(|(secret, value)| (secret.to_string(), value.expose()))
        .collect();
    assert_eq!(
        typed,
        [
            ("web/WEATHER_KEY,target=WEATHER_KEY".to_owned(), "WEATHER_KEY-1"),
            ("web/WEATHER_TOKEN,target=WEATHER_TOKEN".to_owned(), "WEATHER_TOKEN-2"),
        ]
    );
    let composed = asked.secret_formats();
    assert_eq!(composed, BTreeMap::from([("WEATHER_TOKEN".to_owned(), SecretFormat::Whole)]));
    assert!(!format!("{asked:?}").contains("WEATHER_KEY-1"), "not even a developer sees it");
    assert_eq!(value(&asked, "WEATHER_OPTIONAL"), None);
    assert!(effective.volume.is_empty(), "a volume with an optional part that nobody named");
    let questions = user.asked.into_inner().unwrap();
    let expected = ["WEATHER_KEY - Key of the service", "WEATHER_TOKEN - Token of the account"];
    assert_eq!(questions, expected.map(|question| (question.to_owned(), true)));
    assert_eq!(asked.prompted_env, [], "secrets are not exported");
}

#[tokio::test]
async fn given_values_take_precedence_and_are_not_prompted_for() {
    let (home, user) = (home(), NumberedAnswers::default());
    let file = home.folder.path().join("e.env");
    std::fs::write(&file, "WEATHER_TOKEN=file\n").unwrap();
    let given = WorkloadOptions {
        target_port: Some(7),
        env: vec![("WEATHER_KEY", "given").into(), ("WEATHER_REGION", "mars").into()],
        env_file: Some(file),
        args: vec!["Paris".to_owned()],
        ..options("registry:com.example/weather", "server")
    };
    let asked = resolve_request(&home, given, &user).await.unwrap();
    assert_eq!(user.asked.into_inner().unwrap(), []);
    let effective = asked.effective_options();
    assert_eq!(effective.args, ["Paris"]);
    assert_eq!(asked.origin("args"), ValueOrigin::Given);
    let all = requested_variables(&asked).unwrap();
    assert_eq!(all["WEATHER_KEY"], ("given".to_owned(), ValueOrigin::Given));
    assert_eq!(all["WEATHER_TOKEN"], ("file".to_owned(), ValueOrigin::EnvFile));
    assert_eq!((effective.target_port, asked.origin("target_port")), (Some(7), ValueOrigin::Given));
}

#[tokio::test]
async fn a_missing_value_without_a_prompt_is_an_error() {
    let home = home();
    for user in [None, Some(NumberedAnswers { absent: true, ..NumberedAnswers::default() })] {
        let located = look_up(
            &WorkloadRequest::load(options("notes", "toolhive"), &home.environment).unwrap(),
            &home.environment,
            &|_| {},
        )
        .await
        .unwrap();
        let asking = InputMode::Interactive(user.as_ref().map(|user| user as &dyn UserPrompt));
        let error = resolve_inputs(&located, &home.environment, &asking).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidOption);
        assert_eq!(error.message(), "the server needs a value for `NOTES_TOKEN` (Token)");
        // A plan lists the values that the user would be prompted for.
        let noted =
            resolve_inputs(&located, &home.environment, &InputMode::DryRun(Mutex::default())).await.unwrap();
        assert_eq!(noted.registry_values.unwrap().prompts, ["NOTES_TOKEN"]);
    }
}

#[tokio::test]
async fn lookup_errors_name_the_cause() {
    let home = home();
    let outcome = async |server: &str, registry: &str| {
        look_up(
            &WorkloadRequest::load(options(server, registry), &home.environment).unwrap(),
            &home.environment,
            &|_| {},
        )
        .await
    };
    for (server, registry, kind, words) in [
        ("clock", "list", ErrorKind::InvalidOption, "matches several servers"),
        ("gone", "list", ErrorKind::Registry, "was withdrawn"),
        ("nothing", "list", ErrorKind::Registry, "it is only available as mcpb"),
        ("registry:absent", "list", ErrorKind::NotFound, "has no server `absent`"),
        (
            "Not/An/Image",
            "list",
            ErrorKind::InvalidOption,
            "neither a server in the registry nor a valid image",
        ),
        ("absent", "absent", ErrorKind::Registry, "use `image:absent` to run"),
    ] {
        let error = outcome(server, registry).await.unwrap_err();
        assert_eq!(error.kind(), kind, "{server}: {error}");
        assert!(error.to_string().contains(words), "{server}: {error}");
    }
    let ServerSource::Image(image) = outcome("absent", "list").await.unwrap().source else {
        panic!("an image")
    };
    assert_eq!(image.to_string(), "absent");
}

#[tokio::test]
async fn a_remote_entry_prompts_for_its_headers() {
    let home = home();
    let asked = WorkloadRequest::load(options("calendar", "toolhive"), &home.environment).unwrap();
    let located = look_up(&asked, &home.environment, &|_| {}).await.unwrap();
    let ServerSource::Remote(url) = &located.source else { panic!("{located:?}") };
    let name: WorkloadName = "far".parse().unwrap();
    let resolved =
        |asked: &WorkloadRequest| remote::resolve(asked, url, name.clone(), &home.environment).unwrap();
    for user in [None, Some(NumberedAnswers { absent: true, ..NumberedAnswers::default() })] {
        let user = user.as_ref().map(|user| user as &dyn UserPrompt);
        let error =
            resolve_inputs(&located, &home.environment, &InputMode::Interactive(user)).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidOption);
        assert!(error.to_string().contains("set `secret` to `NAME,target=header:x-key`"), "{error}");
    }
    let user = NumberedAnswers::default();
    let asked =
        resolve_inputs(&located, &home.environment, &InputMode::Interactive(Some(&user))).await.unwrap();
    assert_eq!(user.asked.into_inner().unwrap(), [("X-Key".to_owned(), true)]);
    assert_eq!(asked.effective_options().transport, Some(Transport::Sse));
    let spec = resolved(&asked);
    assert_eq!(spec.secrets, [SecretRef::in_header("far/X-Key", "X-Key")]);
    assert_eq!(spec.prompted_secret_names(), ["far/X-Key"]);
    assert!(!serde_json::to_string(&resolved(&asked)).unwrap().contains("X-Key-1"));
    let noted =
        resolve_inputs(&located, &home.environment, &InputMode::DryRun(Mutex::default())).await.unwrap();
    assert_eq!(noted.registry_values.unwrap().prompts, ["X-Key"]);
    // The user is not prompted for a value that was given, however its name is written.
    let mut given = located.clone();
    given.options.secret = vec![SecretRef::in_header("kept", "x-KEY")];
    let asked = resolve_inputs(&given, &home.environment, &InputMode::Interactive(None)).await.unwrap();
    let spec = resolved(&asked);
    assert_eq!((spec.prompted_secret_names(), spec.secrets), (Vec::new(), given.options.secret));
}

#[tokio::test]
async fn template_values_are_not_expanded_again() {
    let variables = [("a", "{b}"), ("b", "secret")].map(|(name, text)| {
        (
            name.to_owned(),
            RegistryInput {
                name: name.to_owned(),
                default: Some(text.to_owned()),
                ..RegistryInput::default()
            },
        )
    });
    let input = RegistryInput {
        value: Some("{a} {c} {".to_owned()),
        variables: variables.into(),
        ..RegistryInput::default()
    };
    let value = resolve_input(&input, &InputMode::Interactive(None)).await.unwrap().unwrap();
    assert_eq!(value.text, "{b} {c} {");
}

#[tokio::test]
async fn an_answer_must_be_one_of_the_choices() {
    let input = RegistryInput {
        name: "A".to_owned(),
        required: true,
        choices: vec!["x".to_owned()],
        ..RegistryInput::default()
    };
    let user = NumberedAnswers::default();
    let error = resolve_input(&input, &InputMode::Interactive(Some(&user))).await.err().unwrap();
    assert_eq!(error.message(), "`A` must be one of x");
}

#[tokio::test]
async fn secret_parts_are_prompted_hidden_and_never_become_arguments_or_mounts() {
    let part = |name: &str, secret| {
        let input =
            RegistryInput { name: name.to_owned(), required: true, secret, ..RegistryInput::default() };
        (name.to_owned(), input)
    };
    let input = |secret, part: (String, RegistryInput)| RegistryInput {
        name: "KEY".to_owned(),
        value: Some(format!("--key={{{}}}", part.0)),
        secret,
        variables: [part].into(),
        ..RegistryInput::default()
    };
    for input in [input(true, part("key", false)), input(false, part("key", true))] {
        let user = NumberedAnswers::default();
        let value = resolve_input(&input, &InputMode::Interactive(Some(&user))).await.unwrap().unwrap();
        assert_eq!((value.text.as_str(), value.secret), ("--key=key-1", true));
        assert_eq!(user.asked.into_inner().unwrap(), [("key".to_owned(), true)]);
        let user = NumberedAnswers::default();
        let flag = "--key".to_owned();
        for argument in
            [Argument::Positional(input.clone()), Argument::Named { flag, input: Some(input.clone()) }]
        {
            let way = RunMethod { args: vec![argument], ..RunMethod::default() };
            let error = arguments(&way, &InputMode::Interactive(Some(&user))).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Unsupported);
            assert!(error.to_string().contains("the secret `KEY` as an argument"), "{error}");
        }
        let error =
            volume(&input, Path::new("/work"), &InputMode::Interactive(Some(&user))).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unsupported);
        assert_eq!(user.asked.into_inner().unwrap(), [], "it is refused before it is asked for");
    }
    let seen = input(false, part("level", false));
    let way = RunMethod { args: vec![Argument::Positional(seen)], ..RunMethod::default() };
    let user = NumberedAnswers::default();
    assert_eq!(arguments(&way, &InputMode::Interactive(Some(&user))).await.unwrap(), ["--key=level-1"]);
}

#[test]
fn validates_secret_target_names() {
    for name in ["KEY", "a.b-c_1"] {
        assert!(is_secret_target_name(name), "{name}");
    }
    for name in ["", "file:/etc/passwd", "A,target=B", "A B", "Ä", &"A".repeat(129)] {
        assert!(!is_secret_target_name(name), "{name}");
    }
}

#[tokio::test]
async fn an_entry_mounts_only_what_the_user_named() {
    let variable = |name: &str, default: Option<&str>| {
        let default = default.map(str::to_owned);
        (
            name.to_owned(),
            RegistryInput { name: name.to_owned(), default, required: true, ..RegistryInput::default() },
        )
    };
    let input = |template: &str| RegistryInput {
        value: Some(template.to_owned()),
        variables: [variable("asked", None), variable("fixed", Some("/etc")), variable("more", Some(":/x"))]
            .into(),
        ..RegistryInput::default()
    };
    for template in [
        "/:/host",
        "/var/run/docker.sock:/var/run/docker.sock",
        "{unknown}:/host",
        "{fixed}:/host",
        "/{asked}:/host",
        "{asked}/..:/host",
        "{asked}:/..:/host",
        "{asked}:/host{more}",
    ] {
        let user = NumberedAnswers::default();
        let error = volume(&input(template), Path::new("/work"), &InputMode::Interactive(Some(&user)))
            .await
            .unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Registry, "{template}: {error}");
        assert!(error.to_string().contains("set `volume`"), "{template}: {error}");
    }
    let fallback = RegistryInput { default: Some("/:/host".to_owned()), ..RegistryInput::default() };
    assert!(volume(&fallback, Path::new("/work"), &InputMode::Interactive(None)).await.is_err());
    let user = NumberedAnswers::default();
    let mounted =
        volume(&input("{asked}:/data:ro"), Path::new("/work"), &InputMode::Interactive(Some(&user)))
            .await
            .unwrap()
            .unwrap();
    assert_eq!(mounted, VolumeSpec::new("asked-1", "/data").read_only());
}

#[tokio::test]
async fn entry_permissions_grant_no_host_access() {
    let home = home();
    let mut asked = look_up(
        &WorkloadRequest::load(options("weather", "server"), &home.environment).unwrap(),
        &home.environment,
        &|_| {},
    )
    .await
    .unwrap();
    let mut reach = |permissions: serde_json::Value| {
        asked.registry_values.as_mut().unwrap().run_method.permissions = Some(permissions);
        EffectivePermissions::resolve(&asked, Path::new("/"))
    };
    for (permissions, wanted) in [
        (serde_json::json!({"privileged": true}), "`privileged`"),
        (serde_json::json!({"write": ["/"]}), "`/` of this machine"),
        (serde_json::json!({"read": ["/etc:/data"]}), "`/etc` of this machine"),
        (serde_json::json!({"network": {"mode": "host"}}), "the network `host`"),
        (serde_json::json!({"network": {"mode": "other"}}), "the network `other`"),
    ] {
        let error = reach(permissions).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Registry, "{error}");
        let text = error.to_string();
        assert!(text.contains("they ") && text.contains(wanted), "{text}");
        assert!(text.contains("set `permission_profile`"), "{text}");
    }
    for mode in ["bridge", "none", ""] {
        let outbound = serde_json::json!({"insecure_allow_all": true});
        reach(serde_json::json!({"network": {"mode": mode, "outbound": outbound}})).unwrap();
    }
}

/// A user who gives the same answer to every question.
#[derive(Debug)]
struct FixedAnswer(&'static str, Mutex<Vec<String>>);

#[async_trait]
impl UserPrompt for FixedAnswer {
    async fn ask_secret(&self, question: &str) -> Result<Option<Secret>> {
        self.1.lock().unwrap().push(question.to_owned());
        Ok(Some(Secret::from(self.0)))
    }
}

#[tokio::test]
async fn host_access_of_an_entry_needs_confirmation() {
    let home = home();
    let located = look_up(
        &WorkloadRequest::load(options("weather", "server"), &home.environment).unwrap(),
        &home.environment,
        &|_| {},
    )
    .await
    .unwrap();
    let network = serde_json::json!({"mode": "host", "outbound": {"insecure_allow_all": true}});
    let permissions = serde_json::json!({"read": ["/etc:/data"], "write": ["/tmp"], "network": network});
    for (answer, is_applied) in [("yes", true), ("no", false), ("", false)] {
        let mut asked = located.clone();
        asked.registry_values.as_mut().unwrap().run_method.permissions = Some(permissions.clone());
        let user = FixedAnswer(answer, Mutex::default());
        let asked =
            confirm_permissions(asked, Path::new("/"), &InputMode::Interactive(Some(&user))).await.unwrap();
        let questions = user.1.into_inner().unwrap();
        assert!(questions[0].contains("`/etc` of this machine as `/data`, to read "), "{questions:?}");
        let reach = EffectivePermissions::resolve(&asked, Path::new("/"));
        assert_eq!(reach.is_ok(), is_applied, "{answer}");
        if let Ok(reach) = reach {
            assert_eq!(questions.len(), 3, "{questions:?}");
            assert_eq!(reach.network, crate::runtime::Network::Host);
            assert_eq!(reach.profile.mounts.len(), 2);
        }
    }
    // If the user gives a profile, it is used as it is, without a prompt.
    let with_profile =
        WorkloadOptions { permission_profile: Some("none".parse().unwrap()), ..options("weather", "server") };
    let with_profile = WorkloadRequest::load(with_profile, &home.environment).unwrap();
    let mut asked = look_up(&with_profile, &home.environment, &|_| {}).await.unwrap();
    asked.registry_values.as_mut().unwrap().run_method.permissions = Some(permissions);
    let user = FixedAnswer("yes", Mutex::default());
    let asked =
        confirm_permissions(asked, Path::new("/"), &InputMode::Interactive(Some(&user))).await.unwrap();
    assert_eq!(user.1.into_inner().unwrap(), [""; 0]);
    assert!(EffectivePermissions::resolve(&asked, Path::new("/")).unwrap().profile.mounts.is_empty());
}

#[tokio::test]
async fn host_mounts_of_an_entry_need_confirmation() {
    for (value, shown) in [
        ("/etc:/data:ro", "`/etc` of this machine as `/data`, to read "),
        ("../etc:/data", "`/work/../etc` of this machine as `/data`, to write "),
        ("/etc:/data:Z", "`/etc` of this machine as `/data`, to write, relabelled for this container alone "),
    ] {
        let input = RegistryInput { value: Some(value.to_owned()), ..RegistryInput::default() };
        let user = FixedAnswer("yes", Mutex::default());
        let mounted =
            volume(&input, Path::new("/work"), &InputMode::Interactive(Some(&user))).await.unwrap().unwrap();
        assert_eq!(mounted, value.parse().unwrap());
        let questions = user.1.into_inner().unwrap();
        assert!(questions[0].contains(shown), "{questions:?}");
        let user = FixedAnswer("no", Mutex::default());
        assert!(volume(&input, Path::new("/work"), &InputMode::Interactive(Some(&user))).await.is_err());
    }
}
