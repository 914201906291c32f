use proptest::prelude::*;

use super::{super::*, *};
use crate::{
    image::ImageReference,
    options::OptionSet,
    runtime::{EngineInfo, EngineName, ImageInfo},
    workload::resolve::{Asked, Surroundings},
};

fn sample(below: &str) -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/data").join(below)
}

fn environment() -> Environment {
    Environment::from_lookup(|_| None)
}

/// What would be done for options, on an engine and with an image that are as here written.
fn resolved(options: WorkloadOptions) -> Result<WorkloadSpec> {
    let asked = Asked::read(options, Path::new("/"))?;
    let name = asked.free_name(|_| false);
    resolve::check(&asked, &environment())?;
    let reference = match &asked.source {
        Source::Remote(url) => return remote::resolve(&asked, url, name, &environment()),
        Source::Image(image) => image.clone(),
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
    };
    let image = ImageInfo {
        id: "sha256:1".to_owned(),
        digest: None,
        labels: std::collections::BTreeMap::new(),
        exposed_ports: vec![3000],
        entrypoint: Vec::new(),
        command: Vec::new(),
    };
    let surroundings = Surroundings {
        environment: &environment(),
        engine: &engine,
        reference: &reference,
        image: Some(&image),
        package: None,
    };
    resolve::resolve(&asked, name, surroundings)
}

/// Exports a spec and resolves what was written.
fn round_trip(spec: &WorkloadSpec) -> WorkloadSpec {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("exported.json");
    let written = text(spec).unwrap();
    let document: Value = serde_json::from_str(&written).unwrap();
    holds(&export_schema(), &document).unwrap();
    fs::write(&path, written).unwrap();
    resolved(WorkloadOptions { from_config: Some(path), ..WorkloadOptions::default() }).unwrap()
}

/// Holds a document against the part of JSON Schema that ours uses.
fn holds(schema: &Value, document: &Value) -> Result<(), String> {
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
                    rule.get(key).map_or(Ok(()), |rule| holds(rule, value))?;
                }
                true
            }
            ("items", _) => {
                document.as_array().unwrap().iter().try_for_each(|item| holds(rule, item))?;
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

fn options() -> impl Strategy<Value = Vec<(&'static str, String)>> {
    let word = "[a-zA-Z0-9_.=/ -]{0,12}";
    let one = prop_oneof![
        Just(("transport", "stdio".to_owned())),
        Just(("transport", "sse".to_owned())),
        Just(("proxy_mode", "sse".to_owned())),
        Just(("trust_proxy_headers", "true".to_owned())),
        Just(("network", "host".to_owned())),
        "[a-z][a-z0-9]{1,8}".prop_map(|name| ("name", name)),
        (1..=65535_u16).prop_map(|port| ("proxy_port", port.to_string())),
        (1..=65535_u16).prop_map(|port| ("target_port", port.to_string())),
        (1..=65535_u16).prop_map(|port| ("publish", format!("{port}:80"))),
        word.prop_map(|text| ("args", text)),
        ("[A-Z]{1,4}", "\\PC{0,9}").prop_map(|(name, value)| ("env", format!("{name}={value}"))),
        ("[a-z]{1,4}", word).prop_map(|(key, value)| ("label", format!("{key}={value}"))),
        "/[a-z]{1,6}".prop_map(|prefix| ("endpoint_prefix", prefix)),
        "https://[a-z]{1,8}\\.example".prop_map(|origin| ("allowed_origins", origin)),
    ];
    let server = prop_oneof![
        Just("registry.example.com/notes:1".to_owned()),
        Just("image:notes".to_owned()),
        "https://[a-z]{2,8}\\.example\\.com/[a-z]{0,5}(\\?k=[a-z]{1,4})?",
    ];
    (server, prop::collection::vec(one, 0..8)).prop_map(|(server, mut all)| {
        all.push(("server", server));
        all
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 128, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn what_was_exported_is_the_same_workload(chosen in options()) {
        let mut options = WorkloadOptions::default();
        for (name, text) in &chosen {
            options.set(name, text).unwrap();
        }
        // What is refused is exported by nobody.
        let Ok(spec) = resolved(options) else { return Ok(()) };
        let again = round_trip(&spec);
        let same = WorkloadSpec { origins: spec.origins.clone(), asked: spec.asked.clone(), ..again.clone() };
        prop_assert_eq!(&same, &spec);
        prop_assert_eq!(text(&again).unwrap(), text(&spec).unwrap());
    }
}

#[test]
fn the_kept_sample_of_version_1_is_read_and_written_back() {
    let path = sample("valid/export/export.v1.json");
    let sample = fs::read_to_string(&path).unwrap();
    holds(&export_schema(), &serde_json::from_str(&sample).unwrap()).unwrap();
    let spec = resolved(WorkloadOptions { from_config: Some(path), ..WorkloadOptions::default() }).unwrap();
    assert_eq!(text(&spec).unwrap(), sample);
}

#[test]
fn the_schema_knows_each_option_that_is_exported_and_no_secret() {
    let schema = export_schema();
    let properties = schema["properties"]["run"]["properties"].as_object().unwrap();
    for spec in WorkloadOptions::SPECS {
        let hidden = spec.kind == crate::options::Kind::Secret || spec.name == "from_config";
        assert_eq!(properties.contains_key(spec.name), !hidden, "{}", spec.name);
    }
    let secret = serde_json::json!({"version": 1, "run": {"server": "a:1", "oidc_client_secret": "x"}});
    assert!(holds(&schema, &secret).is_err());
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
    assert_eq!(image.notices, ["of ToolHive's configuration is not taken over: `scaling.min`"]);
    resolved(image.options).unwrap();

    let remote = read(&sample("valid/export/toolhive-remote.json")).unwrap();
    assert_eq!(remote.options.server.as_deref(), Some("https://calendar.example.com/mcp?team=1"));
    assert_eq!(remote.options.proxy_port, Some(42001));
    assert_eq!(remote.notices, ["of ToolHive's configuration is not taken over: `isolate_network`"]);
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
        let error = Asked::read(options, Path::new("/")).unwrap_err();
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
