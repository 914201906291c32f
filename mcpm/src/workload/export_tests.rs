use std::sync::LazyLock;

use proptest::{prelude::*, strategy::ValueTree as _};

use super::{super::*, *};
use crate::{
    Environment,
    image::ImageReference,
    options::{OptionSet, OptionSpec, ValueKind},
    runtime::{EngineInfo, EngineName, ImageInfo},
    workload::resolve::{self, ResolveContext, remote, request::WorkloadRequest, source::ServerSource},
};

fn sample(below: &str) -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/data").join(below)
}

fn environment() -> Environment {
    Environment::from_lookup(|_| None)
}

/// Resolves options on the engine and with the image that are described here.
fn resolved(options: WorkloadOptions) -> Result<WorkloadSpec> {
    let asked = WorkloadRequest::load(options, &environment())?;
    let name = asked.available_name(|_| false);
    resolve::check(&asked, &environment().working_dir)?;
    let reference = match &asked.source {
        ServerSource::Remote(url) => return remote::resolve(&asked, url, name, &environment()),
        ServerSource::Image(image) => image.clone(),
        _ => ImageReference::parse("example/named")?,
    };
    let engine = EngineInfo {
        name: EngineName::Docker,
        version: "1".to_owned(),
        api_version: "1.43".to_owned(),
        endpoint: "unix:///engine.sock".to_owned(),
        reaches_container_addresses: true,
        shares_sockets: true,
        architecture: std::env::consts::ARCH.to_owned(),
        connects_through_mcpm: false,
    };
    let image = ImageInfo {
        id: "sha256:1".to_owned(),
        digest: None,
        labels: std::collections::BTreeMap::new(),
        exposed_ports: vec![3000],
        entrypoint: vec!["/notes".to_owned()],
        command: Vec::new(),
    };
    let surroundings = ResolveContext {
        environment: &environment(),
        engine: &engine,
        reference: &reference,
        image: Some(&image),
        verified: None,
        package: None,
        target_address: std::net::Ipv4Addr::LOCALHOST.into(),
    };
    resolve::resolve(&asked, name, surroundings)
}

/// Exports a spec and resolves what was written.
fn round_trip(spec: &WorkloadSpec) -> WorkloadSpec {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("exported.json");
    let written = render(spec).unwrap();
    let document: Value = serde_json::from_str(&written).unwrap();
    validate(&export_schema(), &document).unwrap();
    fs::write(&path, written).unwrap();
    resolved(WorkloadOptions { from_config: Some(path), ..WorkloadOptions::default() }).unwrap()
}

/// Holds a document against the part of JSON Schema that ours uses.
fn validate(schema: &Value, document: &Value) -> Result<(), String> {
    let bad = |why: &str| Err(format!("{why}: {document} against {schema}"));
    for (word, rule) in schema.as_object().unwrap() {
        let good = match (word.as_str(), rule.as_str()) {
            ("$schema" | "title" | "description", _) => true,
            ("const", _) => document == rule,
            ("enum", _) => rule.as_array().unwrap().contains(document),
            ("type", Some("object")) => document.is_object(),
            ("type", Some("array")) => document.is_array(),
            ("type", Some("string")) => document.is_string(),
            ("type", Some("boolean")) => document.is_boolean(),
            ("type", Some("integer")) => document.is_u64(),
            ("type", Some("number")) => document.is_number(),
            ("minimum", _) => document.as_f64() >= rule.as_f64(),
            ("maximum", _) => document.as_f64() <= rule.as_f64(),
            ("required", _) => {
                rule.as_array().unwrap().iter().all(|key| document.get(key.as_str().unwrap()).is_some())
            }
            ("additionalProperties", _) => {
                document.as_object().unwrap().keys().all(|key| schema["properties"].get(key).is_some())
            }
            ("properties", _) => {
                for (key, value) in document.as_object().unwrap() {
                    rule.get(key).map_or(Ok(()), |rule| validate(rule, value))?;
                }
                true
            }
            ("items", _) => {
                document.as_array().unwrap().iter().try_for_each(|item| validate(rule, item))?;
                true
            }
            _ => false,
        };
        if !good {
            return bad(word);
        }
    }
    Ok(())
}

/// Files and folders that options name, for as long as the tests run.
fn place(below: &str) -> String {
    static FOLDER: LazyLock<tempfile::TempDir> = LazyLock::new(|| {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("envs")).unwrap();
        for (name, text) in [
            ("a.env", "FROM_FILE=1\n"),
            ("token", "of-nobody\n"),
            ("envs/b.env", "FROM_FOLDER=2\n"),
            (
                "profile.json",
                r#"{"network": {"outbound": {"allow_host": ["example.com"], "allow_port": [443]}}}"#,
            ),
            ("ca.pem", crate::package::certificates::tests::AUTHORITY),
            ("overrides.json", r#"{"toolsOverride": {"Own": {"name": "New", "description": "other"}}}"#),
            ("audit.yaml", "failClosed: true\n"),
            (
                "authz.yaml",
                "version: '1.0'\ntype: cedarv1\ncedar:\n  policies: ['permit(principal, action, resource);']\n",
            ),
        ] {
            fs::write(folder.path().join(name), text).unwrap();
        }
        let manifest = r#"{"manifest_version": "0.3", "name": "notes", "version": "1.0.0",
            "server": {"type": "node", "entry_point": "index.js",
                "mcp_config": {"command": "node", "args": ["index.js", "${user_config.level}"]}},
            "user_config": {"level": {"type": "string", "default": "low"}}}"#;
        let mut bundle = zip::ZipWriter::new(fs::File::create(folder.path().join("notes.mcpb")).unwrap());
        bundle.start_file("manifest.json", zip::write::SimpleFileOptions::default()).unwrap();
        std::io::Write::write_all(&mut bundle, manifest.as_bytes()).unwrap();
        bundle.finish().unwrap();
        folder
    });
    FOLDER.path().join(below).to_str().unwrap().to_owned()
}

/// Valid values of an option, as they are typed.
fn values(spec: &'static OptionSpec) -> BoxedStrategy<String> {
    let word = "[a-zA-Z0-9_.=/ -]{0,12}";
    let of = |words: &'static [&'static str]| prop::sample::select(words).prop_map(str::to_owned).boxed();
    match spec.name {
        "args" => word.boxed(),
        "name" => "[a-z][a-z0-9]{1,8}".boxed(),
        "group" | "package_command" | "runtime_add_package" => "[a-z]{1,8}".boxed(),
        "label" => ("[a-z]{1,4}", word).prop_map(|(key, value)| format!("{key}={value}")).boxed(),
        "host" | "target_host" => of(&["127.0.0.1", "localhost", "::1"]),
        "publish" => prop_oneof![
            (1..=65535_u16).prop_map(|port| format!("{port}:80")),
            (1..=65535_u16).prop_map(|port| port.to_string()),
            Just("[::1]:53:53/udp".to_owned()),
        ]
        .boxed(),
        "network" => of(&["host", "none", "bridge", "default", "mine", "container:other"]),
        "env" => ("[A-Z]{1,4}", "\\PC{0,9}").prop_map(|(name, value)| format!("{name}={value}")).boxed(),
        "env_file" => Just(place("a.env")).boxed(),
        "env_file_dir" => Just(place("envs")).boxed(),
        "secret" => prop_oneof![
            ("[a-z/]{1,6}", "[A-Z]{1,4}").prop_map(|(name, target)| format!("{name},target={target}")),
            "[a-z]{1,6}".prop_map(|name| format!("{name},target=file:/run/{name}")),
        ]
        .boxed(),
        "volume" => ("/[a-z]{1,3}", prop::sample::select(&["", ":ro", ":ro,z"][..]))
            .prop_map(|(target, mode)| format!("{}:{target}{mode}", place("envs")))
            .boxed(),
        "permission_profile" => prop_oneof![of(&["none", "network"]), Just(place("profile.json"))].boxed(),
        "oidc_issuer"
        | "oidc_jwks_url"
        | "oidc_introspection_url"
        | "resource_url"
        | "token_exchange_url"
        | "otel_endpoint"
        | "certificate_oidc_issuer" => "https://[a-z]{2,8}\\.example(/[a-z]{1,4})?".boxed(),
        "remote_auth_issuer"
        | "remote_auth_authorize_url"
        | "remote_auth_token_url"
        | "remote_auth_client_metadata_url"
        | "remote_auth_resource" => "https://[a-z]{2,8}\\.example(/[a-z]{1,4})?".boxed(),
        "remote_auth_client_id" | "remote_auth_scopes" => "[a-z]{1,8}".boxed(),
        "remote_auth_client_secret_file" | "remote_auth_bearer_token_file" => Just(place("token")).boxed(),
        "remote_auth_timeout" | "start_timeout" => of(&["1s", "1m 30s"]),
        "remote_forward_headers_secret" => "X-[a-z]{1,8}=[a-z]{1,8}".boxed(),
        "image_verification_key" => Just(place("cosign.pub")).boxed(),
        "certificate_identity" => "[a-z]{1,8}@[a-z]{1,8}\\.example".boxed(),
        "sigstore_trusted_root" => Just(place("trusted_root.json")).boxed(),
        "oidc_audience" | "oidc_client_id" | "oidc_scopes" | "oidc_required_scopes" => "[a-z]{1,8}".boxed(),
        "token_exchange_audience" | "token_exchange_client_id" | "token_exchange_scopes" => {
            "[a-z]{1,8}".boxed()
        }
        "token_exchange_subject_token_type" => of(&["access_token", "id_token"]).boxed(),
        "token_exchange_header_name" => "X-[a-z]{1,8}".boxed(),
        "jwks_auth_token_file" | "token_exchange_client_secret_file" => Just(place("token")).boxed(),
        "mcpm_ca_bundle" => Just(place("ca.pem")).boxed(),
        "tools" => "!?[a-z_*?]{1,6}(,[a-z]{1,4})?".boxed(),
        "tools_override" => Just(place("overrides.json")).boxed(),
        "authz_config" => Just(place("authz.yaml")).boxed(),
        "audit_config" => Just(place("audit.yaml")).boxed(),
        "otel_service_name" => "[a-z]{1,8}".boxed(),
        "otel_custom_attributes" => "[a-z]{1,4}=[a-z]{1,4}".boxed(),
        "otel_env_vars" => "[A-L]{1,6}".boxed(),
        "otel_sampling_rate" => of(&["0", "0.25", "1"]),
        "learn" => Just(place("learnt.json")).boxed(),
        "ca_cert" => Just(place("ca.pem")).boxed(),
        "config" => "level=[a-z]{1,4}".boxed(),
        "with_package" => "[a-z]{1,6}".boxed(),
        "runtime_image" => of(&["debian:13", "registry.example.com/base:1"]),
        "endpoint_prefix" => "/[a-z]{1,6}".boxed(),
        "allowed_hosts" => "[a-z]{1,8}\\.example".boxed(),
        "allowed_origins" => "https://[a-z]{1,8}\\.example".boxed(),
        "registry" => of(&["embedded", "https://registry.example.com/v0.1", "/etc/servers.json"]),
        _ => match spec.kind {
            ValueKind::Bool => of(&["true", "false"]),
            ValueKind::Port => (1..=65535_u16).prop_map(|port| port.to_string()).boxed(),
            ValueKind::Choice(words) => {
                prop::sample::select(words).prop_map(|word| word.text.to_owned()).boxed()
            }
            kind => panic!("`{}` is a new {kind:?}: say here what can be given for it", spec.name),
        },
    }
}

/// The options that can be given, apart from those that only concern the command they are given to, and from secrets.
fn exported() -> Vec<&'static OptionSpec> {
    let passing = ["server", "from_config", "foreground", "debug", "rebuild", "offline"];
    let lasting = |spec: &&OptionSpec| !passing.contains(&spec.name);
    WorkloadOptions::SPECS
        .iter()
        .filter(lasting)
        .filter(|spec| !matches!(spec.kind, ValueKind::Secret | ValueKind::Header))
        .collect()
}

/// The other options without which an option has no effect.
fn required_options(name: &str) -> Vec<(&'static str, String)> {
    let of_callers = ["oidc_", "jwks_", "resource_url"];
    let all = [
        ("oidc_issuer", "https://issuer.example"),
        ("oidc_client_id", "me"),
        ("token_exchange_url", "https://issuer.example/token"),
        ("token_exchange_client_id", "me"),
    ];
    let of_login = [
        ("remote_auth_authorize_url", "https://issuer.example/authorize"),
        ("remote_auth_token_url", "https://issuer.example/token"),
        ("remote_auth_client_id", "me"),
    ];
    let of_telemetry = [("otel_endpoint", "https://collector.example")];
    let needed = match name {
        _ if of_callers.iter().any(|begin| name.starts_with(begin)) => &all[..2],
        _ if name.starts_with("token_exchange_") => &all[..],
        _ if name.starts_with("otel_") => &of_telemetry,
        "remote_auth_authorize_url" | "remote_auth_token_url" => &of_login[..],
        "remote_auth_client_secret_file" => &of_login[2..],
        _ => &[],
    };
    let others = needed.iter().filter(|(other, _)| *other != name);
    others.map(|(other, text)| (*other, (*text).to_owned())).collect()
}

const SERVERS: &[&str] = &[
    "registry.example.com/notes:1",
    "image:notes",
    "https://mcp.example.com/v1/mcp?k=v",
    "uvx://example-notes@1.2",
    "go:///project",
    "registry:com.example/notes",
];

fn options() -> impl Strategy<Value = Vec<(&'static str, String)>> {
    let one = prop::sample::select(exported())
        .prop_flat_map(|spec| values(spec).prop_map(move |text| (spec.name, text)));
    let server = prop_oneof![
        prop::sample::select(SERVERS).prop_map(str::to_owned),
        "https://[a-z]{2,8}\\.example\\.com/[a-z]{0,5}(\\?k=[a-z]{1,4})?",
    ];
    (server, prop::collection::vec(one, 0..5)).prop_map(|(server, mut all)| {
        all.push(("server", server));
        all
    })
}

/// Resolves options, exports the result and resolves the export; `None` for options that are rejected, since they
/// cannot be exported.
fn export_and_import(chosen: &[(&str, String)]) -> Option<(WorkloadSpec, WorkloadSpec)> {
    let mut options = WorkloadOptions::default();
    for (name, text) in chosen {
        options.set(name, text).unwrap();
    }
    let spec = resolved(options).ok()?;
    let again = round_trip(&spec);
    assert_eq!(render(&again).unwrap(), render(&spec).unwrap(), "{chosen:?}");
    let same = WorkloadSpec { origins: spec.origins.clone(), asked: spec.asked.clone(), ..again };
    Some((spec, same))
}

/// With a generator that always begins the same.
#[test]
fn each_option_survives_an_export() {
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    for spec in exported() {
        let mut survived = 0;
        // For each server.
        for _ in 0..4 {
            let value = values(spec).new_tree(&mut runner).unwrap().current();
            let bundle = format!("mcpb://{}", place("notes.mcpb"));
            for server in SERVERS.iter().copied().chain([bundle.as_str()]) {
                let mut chosen = vec![(spec.name, value.clone()), ("server", server.to_owned())];
                chosen.extend(required_options(spec.name));
                if let Some((before, after)) = export_and_import(&chosen) {
                    assert_eq!(after, before, "{chosen:?}");
                    let written: Value = serde_json::from_str(&render(&before).unwrap()).unwrap();
                    assert!(written["run"].get(spec.name).is_some(), "{chosen:?}: {written}");
                    survived += 1;
                }
            }
        }
        assert!(survived > 0, "`{}` was never let through", spec.name);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn what_was_exported_is_the_same_workload(chosen in options()) {
        if let Some((before, after)) = export_and_import(&chosen) {
            prop_assert_eq!(after, before);
        }
    }
}

#[test]
fn the_version_1_sample_round_trips() {
    let path = sample("valid/export/export.v1.json");
    let sample = fs::read_to_string(&path).unwrap();
    validate(&export_schema(), &serde_json::from_str(&sample).unwrap()).unwrap();
    let spec = resolved(WorkloadOptions { from_config: Some(path), ..WorkloadOptions::default() }).unwrap();
    assert_eq!(render(&spec).unwrap(), sample);
}

#[test]
fn the_schema_knows_each_option_that_is_exported_and_no_secret() {
    let schema = export_schema();
    let properties = schema["properties"]["run"]["properties"].as_object().unwrap();
    for spec in WorkloadOptions::SPECS {
        let hidden = spec.kind == ValueKind::Secret || spec.name == "from_config";
        assert_eq!(properties.contains_key(spec.name), !hidden, "{}", spec.name);
    }
    let secret = serde_json::json!({"version": 1, "run": {"server": "a:1", "oidc_client_secret": "x"}});
    assert!(validate(&schema, &secret).is_err());
}

#[test]
fn a_configuration_of_toolhive_is_taken_over_as_far_as_it_can_be() {
    let image = read(&sample("valid/export/toolhive-image.json")).unwrap();
    let expected: WorkloadOptions = serde_json::from_value(serde_json::json!({
        "server": "image:registry.example.com/notes:1", "name": "notes", "group": null, "args": ["--level", "info"],
        "label": ["team=x"], "transport": "streamable-http", "proxy_port": 41999, "target_port": 19000,
        "publish": ["127.0.0.1:9100:90"], "env": ["LEVEL=info"], "permission_profile": "network",
        "trust_proxy_headers": true,
    }))
    .unwrap();
    assert_eq!(image.options, expected);
    assert_eq!(image.notices, ["not imported from ToolHive's configuration: `scaling.min`"]);
    resolved(image.options).unwrap();

    let remote = read(&sample("valid/export/toolhive-remote.json")).unwrap();
    assert_eq!(remote.options.server.as_deref(), Some("https://calendar.example.com/mcp?team=1"));
    assert_eq!(remote.options.proxy_port, Some(42001));
    assert_eq!(remote.notices, ["not imported from ToolHive's configuration: `isolate_network`"]);
    assert!(resolved(remote.options).unwrap().container().is_none());
}

#[test]
fn what_is_no_exported_configuration_is_refused_with_one_message() {
    let mut files: Vec<_> =
        fs::read_dir(sample("invalid/export")).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.retain(|path| path.extension().is_some_and(|extension| extension == "json"));
    files.sort();
    let mut said = String::new();
    for path in files {
        let options = WorkloadOptions { from_config: Some(path.clone()), ..WorkloadOptions::default() };
        let error = WorkloadRequest::load(options, &environment()).unwrap_err();
        assert!(
            matches!(error.kind(), ErrorKind::InvalidOption | ErrorKind::Unsupported),
            "{path:?}: {error}"
        );
        let message = error.to_string().replace(path.to_str().unwrap(), "FILE");
        assert!(!message.contains('\n'), "{message:?}");
        said += &format!("{}: {message}\n", path.file_stem().unwrap().to_str().unwrap());
    }
    let kept = sample("invalid/export/messages.txt");
    if std::env::var_os("MCPM_UPDATE").is_some() {
        fs::write(&kept, &said).unwrap();
    }
    assert_eq!(said, fs::read_to_string(kept).unwrap());
}
