//! Checks that parsing unexpected documents returns entries or a one-line error, and never panics.

use mcpm::ErrorKind;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::{RegistryFixture, sample};

/// Any JSON, in which field names with a meaning are more frequent than others.
fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        "\\PC{0,12}".prop_map(Value::from),
        prop::sample::select(vec![
            "oci",
            "npm",
            "pypi",
            "stdio",
            "sse",
            "named",
            "positional",
            "{a}",
            "a/b:1"
        ])
        .prop_map(Value::from),
        Just(json!("https://example.com/mcp")),
    ];
    let key = prop::sample::select(vec![
        "name",
        "servers",
        "server",
        "packages",
        "remotes",
        "registryType",
        "identifier",
        "transport",
        "type",
        "url",
        "data",
        "_meta",
        "environmentVariables",
        "packageArguments",
        "runtimeArguments",
        "variables",
        "value",
        "default",
        "remote_servers",
        "image",
        "version",
        "metadata",
        "groups",
        "env_vars",
        "headers",
        "choices",
        "io.github.stacklok",
        "io.modelcontextprotocol.registry/publisher-provided",
        "registry_name",
        "version_detail",
    ]);
    leaf.prop_recursive(6, 64, 6, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
            prop::collection::vec((key.clone(), inner), 0..7).prop_map(|fields| {
                Value::Object(fields.into_iter().map(|(key, value)| (key.to_owned(), value)).collect())
            }),
        ]
    })
}

fn read(asking: &RegistryFixture, text: &str) {
    let path = asking.write("r.json", text);
    let executor = tokio::runtime::Builder::new_current_thread().build().unwrap();
    match executor.block_on(asking.list(path.to_str().unwrap())) {
        Ok(entries) => {
            for entry in entries {
                assert!(!entry.name.is_empty() && !entry.description.contains(char::is_control), "{entry:?}");
                for way in entry.run_methods {
                    assert!(!way.server.is_empty(), "{text}");
                }
            }
        }
        Err(error) => {
            assert_eq!(error.kind(), ErrorKind::Registry, "{error}");
            assert!(!error.message().contains(char::is_control), "{error:?}");
        }
    }
    asking.notices();
}

/// Replaces the value at the `nth` place of a document.
fn replace(value: &mut Value, nth: &mut usize, by: &Value) {
    if *nth == 0 {
        *value = by.clone();
    }
    *nth = nth.wrapping_sub(1);
    match value {
        Value::Array(all) => all.iter_mut().for_each(|value| replace(value, nth, by)),
        Value::Object(all) => all.values_mut().for_each(|value| replace(value, nth, by)),
        _ => {}
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_document_is_read_or_refused(document in any_json()) {
        read(&RegistryFixture::new(), &document.to_string());
    }

    #[test]
    fn a_good_document_with_one_odd_value_is_read_or_refused(
        name in prop::sample::select(vec![
            "server", "list", "wrapped", "toolhive", "server-2025-07", "published", "list-2025-09",
        ]),
        nth in 0..120_usize,
        odd in any_json(),
    ) {
        let text = std::fs::read_to_string(sample(&format!("valid/registry/{name}.json"))).unwrap();
        let mut document: Value = serde_json::from_str(&text).unwrap();
        replace(&mut document, &mut { nth }, &odd);
        read(&RegistryFixture::new(), &document.to_string());
    }

    #[test]
    fn any_bytes_are_read_or_refused(text in "\\PC{0,80}") {
        read(&RegistryFixture::new(), &text);
    }
}
