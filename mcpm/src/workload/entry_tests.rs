use std::path::Path;

use async_trait::async_trait;

use super::*;
use crate::options::{Secret, SecretRef};

/// A user who answers each question with its name and a number.
#[derive(Debug, Default)]
struct User {
    asked: Mutex<Vec<(String, bool)>>,
    absent: bool,
}

#[async_trait]
impl Interaction for User {
    async fn ask_secret(&self, question: &str) -> Result<Option<Secret>> {
        Ok(self.answer(question, true).map(Secret::from))
    }

    async fn ask_text(&self, question: &str) -> Result<Option<String>> {
        Ok(self.answer(question, false))
    }
}

impl User {
    fn answer(&self, question: &str, secret: bool) -> Option<String> {
        let mut asked = self.asked.lock().unwrap();
        asked.push((question.to_owned(), secret));
        let name = question.split(' ').next().unwrap_or_default();
        (!self.absent).then(|| format!("{name}-{}", asked.len()))
    }
}

struct Home {
    folder: tempfile::TempDir,
    environment: Environment,
}

fn home() -> Home {
    let folder = tempfile::tempdir().unwrap();
    let environment = Environment {
        config_dir: folder.path().to_owned(),
        working_dir: folder.path().to_owned(),
        ..Environment::from_lookup(|_| None)
    };
    Home { folder, environment }
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

async fn settled(home: &Home, options: WorkloadOptions, user: &User) -> Result<Asked> {
    let located = locate(&Asked::read(options, Path::new("/"))?, &home.environment, &|_| {}).await?;
    supply(&located, &home.environment, &Asking::User(Some(user))).await
}

fn value<'a>(asked: &'a Asked, name: &str) -> Option<(&'a str, Origin)> {
    asked.supplied.as_ref()?.env.get(name).map(|(value, origin)| (value.as_str(), *origin))
}

#[tokio::test]
async fn an_entry_supplies_what_nobody_gave_and_the_user_the_rest() {
    let (home, user) = (home(), User::default());
    let asked = settled(&home, options("weather", "server"), &user).await.unwrap();
    let Source::Image(image) = &asked.source else { panic!("{asked:?}") };
    assert_eq!(image.to_string(), "registry.example.com/weather:1.2.0", "an image goes before a package");
    let effective = asked.effective();
    assert_eq!((effective.transport, effective.target_port), (Some(Transport::StreamableHttp), Some(9000)));
    assert_eq!(effective.args, ["Berlin", "--units", "metric", "--verbose"]);
    assert_eq!(asked.origin("transport"), Origin::Registry);
    assert_eq!(value(&asked, "WEATHER_REGION"), Some(("eu", Origin::Registry)));
    assert_eq!(value(&asked, "WEATHER_KEY"), None, "a secret is no variable among others");
    let name: WorkloadName = "web".parse().unwrap();
    let typed: Vec<(String, &str)> = asked
        .typed_secrets(&name)
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
    assert!(!format!("{asked:?}").contains("WEATHER_KEY-1"), "not even a developer sees it");
    assert_eq!(value(&asked, "WEATHER_OPTIONAL"), None);
    assert!(effective.volume.is_empty(), "a volume with an optional part that nobody named");
    let questions = user.asked.into_inner().unwrap();
    let expected = ["WEATHER_KEY - Key of the service", "WEATHER_TOKEN - Token of the account"];
    assert_eq!(questions, expected.map(|question| (question.to_owned(), true)));
    assert_eq!(asked.answered, [], "secrets are not exported");
}

#[tokio::test]
async fn what_was_given_goes_before_the_entry_and_is_not_asked_for() {
    let (home, user) = (home(), User::default());
    let file = home.folder.path().join("e.env");
    std::fs::write(&file, "WEATHER_TOKEN=file\n").unwrap();
    let given = WorkloadOptions {
        target_port: Some(7),
        env: vec![("WEATHER_KEY", "given").into(), ("WEATHER_REGION", "mars").into()],
        env_file: Some(file),
        args: vec!["Paris".to_owned()],
        ..options("registry:com.example/weather", "server")
    };
    let asked = settled(&home, given, &user).await.unwrap();
    assert_eq!(user.asked.into_inner().unwrap(), []);
    let effective = asked.effective();
    assert_eq!(effective.args, ["Paris"]);
    assert_eq!(asked.origin("args"), Origin::Given);
    let all = resolve::asked_variables(&asked, &home.environment).unwrap();
    assert_eq!(all["WEATHER_KEY"], ("given".to_owned(), Origin::Given));
    assert_eq!(all["WEATHER_TOKEN"], ("file".to_owned(), Origin::EnvFile));
    assert_eq!((effective.target_port, asked.origin("target_port")), (Some(7), Origin::Given));
}

#[tokio::test]
async fn a_missing_value_is_an_error_when_nobody_can_be_asked() {
    let home = home();
    for user in [None, Some(User { absent: true, ..User::default() })] {
        let located = locate(
            &Asked::read(options("notes", "toolhive"), Path::new("/")).unwrap(),
            &home.environment,
            &|_| {},
        )
        .await
        .unwrap();
        let asking = Asking::User(user.as_ref().map(|user| user as &dyn Interaction));
        let error = supply(&located, &home.environment, &asking).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidOption);
        assert_eq!(error.message(), "the server needs a value for `NOTES_TOKEN` (Token)");
        // A plan says what would be asked for.
        let noted = supply(&located, &home.environment, &Asking::Note(Mutex::default())).await.unwrap();
        assert_eq!(noted.supplied.unwrap().questions, ["NOTES_TOKEN"]);
    }
}

#[tokio::test]
async fn names_that_lead_to_nothing_are_told_apart() {
    let home = home();
    let outcome = async |server: &str, registry: &str| {
        locate(&Asked::read(options(server, registry), Path::new("/")).unwrap(), &home.environment, &|_| {})
            .await
    };
    for (server, registry, kind, words) in [
        ("clock", "list", ErrorKind::InvalidOption, "names several servers"),
        ("gone", "list", ErrorKind::Registry, "was withdrawn"),
        ("nothing", "list", ErrorKind::Registry, "it comes as mcpb only"),
        ("registry:absent", "list", ErrorKind::NotFound, "has no server `absent`"),
        ("Not/An/Image", "list", ErrorKind::InvalidOption, "no server of the registry, and no image either"),
        ("absent", "absent", ErrorKind::Registry, "`image:absent` is an image"),
    ] {
        let error = outcome(server, registry).await.unwrap_err();
        assert_eq!(error.kind(), kind, "{server}: {error}");
        assert!(error.to_string().contains(words), "{server}: {error}");
    }
    let Source::Image(image) = outcome("absent", "list").await.unwrap().source else { panic!("an image") };
    assert_eq!(image.to_string(), "absent");
}

#[tokio::test]
async fn a_remote_entry_is_a_remote_server_and_its_headers_are_asked_for() {
    let home = home();
    let asked = Asked::read(options("calendar", "toolhive"), Path::new("/")).unwrap();
    let located = locate(&asked, &home.environment, &|_| {}).await.unwrap();
    let Source::Remote(url) = &located.source else { panic!("{located:?}") };
    let name: WorkloadName = "far".parse().unwrap();
    let resolved = |asked: &Asked| {
        crate::workload::remote::resolve(asked, url, name.clone(), &home.environment).unwrap()
    };
    for user in [None, Some(User { absent: true, ..User::default() })] {
        let user = user.as_ref().map(|user| user as &dyn Interaction);
        let error = supply(&located, &home.environment, &Asking::User(user)).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidOption);
        assert!(error.to_string().contains("set `secret` to `NAME,target=header:x-key`"), "{error}");
    }
    let user = User::default();
    let asked = supply(&located, &home.environment, &Asking::User(Some(&user))).await.unwrap();
    assert_eq!(user.asked.into_inner().unwrap(), [("X-Key".to_owned(), true)]);
    assert_eq!(asked.effective().transport, Some(Transport::Sse));
    let spec = resolved(&asked);
    assert_eq!(spec.secrets, [SecretRef::in_header("far/X-Key", "X-Key")]);
    assert_eq!(spec.typed_secrets(), ["far/X-Key"]);
    assert!(!serde_json::to_string(&resolved(&asked)).unwrap().contains("X-Key-1"));
    let noted = supply(&located, &home.environment, &Asking::Note(Mutex::default())).await.unwrap();
    assert_eq!(noted.supplied.unwrap().questions, ["X-Key"]);
    // One that is given is not asked for, however its name is written.
    let mut given = located.clone();
    given.options.secret = vec![SecretRef::in_header("kept", "x-KEY")];
    let asked = supply(&given, &home.environment, &Asking::User(None)).await.unwrap();
    let spec = resolved(&asked);
    assert_eq!((spec.typed_secrets(), spec.secrets), (Vec::new(), given.options.secret));
}

#[tokio::test]
async fn what_fills_a_template_is_no_template() {
    let variables = [("a", "{b}"), ("b", "secret")].map(|(name, text)| {
        (name.to_owned(), Input { name: name.to_owned(), default: Some(text.to_owned()), ..Input::default() })
    });
    let input =
        Input { value: Some("{a} {c} {".to_owned()), variables: variables.into(), ..Input::default() };
    let value = value_of(&input, &Asking::User(None)).await.unwrap().unwrap();
    assert_eq!(value.text, "{b} {c} {");
}

#[tokio::test]
async fn an_answer_must_be_one_of_the_choices() {
    let input =
        Input { name: "A".to_owned(), required: true, choices: vec!["x".to_owned()], ..Input::default() };
    let user = User::default();
    let error = value_of(&input, &Asking::User(Some(&user))).await.err().unwrap();
    assert_eq!(error.message(), "`A` is one of x");
}

#[tokio::test]
async fn a_part_of_a_secret_is_typed_unseen_and_ends_in_no_argument_or_mount() {
    let part = |name: &str, secret| {
        let input = Input { name: name.to_owned(), required: true, secret, ..Input::default() };
        (name.to_owned(), input)
    };
    let input = |secret, part: (String, Input)| Input {
        name: "KEY".to_owned(),
        value: Some(format!("--key={{{}}}", part.0)),
        secret,
        variables: [part].into(),
        ..Input::default()
    };
    for input in [input(true, part("key", false)), input(false, part("key", true))] {
        let user = User::default();
        let value = value_of(&input, &Asking::User(Some(&user))).await.unwrap().unwrap();
        assert_eq!((value.text.as_str(), value.secret), ("--key=key-1", true));
        assert_eq!(user.asked.into_inner().unwrap(), [("key".to_owned(), true)]);
        let user = User::default();
        let flag = "--key".to_owned();
        for argument in
            [Argument::Positional(input.clone()), Argument::Named { flag, input: Some(input.clone()) }]
        {
            let way = Way { args: vec![argument], ..Way::default() };
            let error = arguments(&way, &Asking::User(Some(&user))).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Unsupported);
            assert!(error.to_string().contains("the secret `KEY` as an argument"), "{error}");
        }
        let error = volume(&input, Path::new("/work"), &Asking::User(Some(&user))).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unsupported);
        assert_eq!(user.asked.into_inner().unwrap(), [], "it is refused before it is asked for");
    }
    let seen = input(false, part("level", false));
    let way = Way { args: vec![Argument::Positional(seen)], ..Way::default() };
    let user = User::default();
    assert_eq!(arguments(&way, &Asking::User(Some(&user))).await.unwrap(), ["--key=level-1"]);
}

#[test]
fn what_names_a_variable_of_a_secret_cannot_name_a_file_or_another_secret() {
    for name in ["KEY", "a.b-c_1"] {
        assert!(names_secret(name), "{name}");
    }
    for name in ["", "file:/etc/passwd", "A,target=B", "A B", "Ä", &"A".repeat(129)] {
        assert!(!names_secret(name), "{name}");
    }
}

#[tokio::test]
async fn an_entry_mounts_only_what_the_user_named() {
    let variable = |name: &str, default: Option<&str>| {
        let default = default.map(str::to_owned);
        (name.to_owned(), Input { name: name.to_owned(), default, required: true, ..Input::default() })
    };
    let input = |template: &str| Input {
        value: Some(template.to_owned()),
        variables: [variable("asked", None), variable("fixed", Some("/etc")), variable("more", Some(":/x"))]
            .into(),
        ..Input::default()
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
        let user = User::default();
        let error =
            volume(&input(template), Path::new("/work"), &Asking::User(Some(&user))).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Registry, "{template}: {error}");
        assert!(error.to_string().contains("set `volume`"), "{template}: {error}");
    }
    let fallback = Input { default: Some("/:/host".to_owned()), ..Input::default() };
    assert!(volume(&fallback, Path::new("/work"), &Asking::User(None)).await.is_err());
    let user = User::default();
    let mounted = volume(&input("{asked}:/data:ro"), Path::new("/work"), &Asking::User(Some(&user)))
        .await
        .unwrap()
        .unwrap();
    assert_eq!(mounted, VolumeSpec::new("asked-1", "/data").read_only());
}

#[tokio::test]
async fn the_permissions_of_an_entry_open_nothing_of_this_machine() {
    let home = home();
    let mut asked = locate(
        &Asked::read(options("weather", "server"), Path::new("/")).unwrap(),
        &home.environment,
        &|_| {},
    )
    .await
    .unwrap();
    let mut reach = |permissions: serde_json::Value| {
        asked.supplied.as_mut().unwrap().way.permissions = Some(permissions);
        crate::workload::reach::Reach::of(&asked, Path::new("/"))
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
        assert!(text.contains(&format!("it asks for {wanted}")), "{text}");
        assert!(text.contains("set `permission_profile`"), "{text}");
    }
    for mode in ["bridge", "none", ""] {
        let outbound = serde_json::json!({"insecure_allow_all": true});
        reach(serde_json::json!({"network": {"mode": mode, "outbound": outbound}})).unwrap();
    }
}

/// A user who gives the same answer to every question.
#[derive(Debug)]
struct Says(&'static str, Mutex<Vec<String>>);

#[async_trait]
impl Interaction for Says {
    async fn ask_secret(&self, question: &str) -> Result<Option<Secret>> {
        self.1.lock().unwrap().push(question.to_owned());
        Ok(Some(Secret::from(self.0)))
    }
}

#[tokio::test]
async fn what_an_entry_opens_of_this_machine_is_applied_once_the_user_confirms_it() {
    let home = home();
    let located = locate(
        &Asked::read(options("weather", "server"), Path::new("/")).unwrap(),
        &home.environment,
        &|_| {},
    )
    .await
    .unwrap();
    let network = serde_json::json!({"mode": "host", "outbound": {"insecure_allow_all": true}});
    let permissions = serde_json::json!({"read": ["/etc:/data"], "write": ["/tmp"], "network": network});
    for (answer, is_applied) in [("yes", true), ("no", false), ("", false)] {
        let mut asked = located.clone();
        asked.supplied.as_mut().unwrap().way.permissions = Some(permissions.clone());
        let user = Says(answer, Mutex::default());
        let asked = confirm(asked, Path::new("/"), &Asking::User(Some(&user))).await.unwrap();
        let questions = user.1.into_inner().unwrap();
        assert!(questions[0].contains("`/etc` of this machine as `/data`, to read "), "{questions:?}");
        let reach = crate::workload::reach::Reach::of(&asked, Path::new("/"));
        assert_eq!(reach.is_ok(), is_applied, "{answer}");
        if let Ok(reach) = reach {
            assert_eq!(questions.len(), 3, "{questions:?}");
            assert_eq!(reach.network, crate::runtime::Network::Host);
            assert_eq!(reach.profile.mounts.len(), 2);
        }
    }
    // A profile of the user's own is taken as it is, and nobody is asked.
    let mut asked = located;
    asked.supplied.as_mut().unwrap().way.permissions = Some(permissions);
    asked.options.permission_profile = Some("none".parse().unwrap());
    let user = Says("yes", Mutex::default());
    let asked = confirm(asked, Path::new("/"), &Asking::User(Some(&user))).await.unwrap();
    assert_eq!(user.1.into_inner().unwrap(), [""; 0]);
    assert!(crate::workload::reach::Reach::of(&asked, Path::new("/")).unwrap().profile.mounts.is_empty());
}

#[tokio::test]
async fn a_place_that_an_entry_mounts_is_mounted_once_the_user_confirms_it() {
    for (value, shown) in [
        ("/etc:/data:ro", "`/etc` of this machine as `/data`, to read "),
        ("../etc:/data", "`/work/../etc` of this machine as `/data`, to write "),
        ("/etc:/data:Z", "`/etc` of this machine as `/data`, to write, relabelled for this container alone "),
    ] {
        let input = Input { value: Some(value.to_owned()), ..Input::default() };
        let user = Says("yes", Mutex::default());
        let mounted = volume(&input, Path::new("/work"), &Asking::User(Some(&user))).await.unwrap().unwrap();
        assert_eq!(mounted, value.parse().unwrap());
        let questions = user.1.into_inner().unwrap();
        assert!(questions[0].contains(shown), "{questions:?}");
        let user = Says("no", Mutex::default());
        assert!(volume(&input, Path::new("/work"), &Asking::User(Some(&user))).await.is_err());
    }
}
