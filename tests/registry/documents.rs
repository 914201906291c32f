//! Tests the entries that are read from a document, and the errors for documents that cannot be read.

use mcpm::{ErrorKind, options::Transport, registry::Registry};
use serde_json::json;

use super::{RegistryFixture, sample};

#[tokio::test]
async fn a_server_json_is_read_whole() {
    let entry =
        RegistryFixture::new().find(&sample("valid/registry/server.json"), "weather").await.unwrap().unwrap();
    assert_eq!(entry.name, "com.example/weather");
    assert_eq!(entry.description, "Tells the weather of tomorrow", "on one line");
    assert_eq!(entry.unsupported_packages, ["nuget"]);
    let [package, image, remote] = entry.run_methods.as_slice() else { panic!("{entry:?}") };
    assert_eq!(package.server, "uvx://example-weather@1.2.0");
    assert_eq!((image.server.as_str(), image.is_image), ("registry.example.com/weather:1.2.0", true));
    assert_eq!((image.transport, image.target_port), (Some(Transport::StreamableHttp), Some(9000)));
    let names: Vec<_> =
        image.env.iter().map(|input| (input.name.as_str(), input.required, input.secret)).collect();
    assert_eq!(
        names,
        [
            ("WEATHER_REGION", false, false),
            ("WEATHER_KEY", true, true),
            ("WEATHER_OPTIONAL", false, false),
            ("WEATHER_TOKEN", true, false),
        ]
    );
    assert_eq!(image.volumes[0].value.as_deref(), Some("{folder}:/data:ro"));
    assert_eq!(image.ignored_engine_flags, ["--cpus"]);
    assert_eq!(image.args.len(), 3);
    assert_eq!(
        (remote.server.as_str(), remote.transport),
        ("https://weather.example.com/sse", Some(Transport::Sse))
    );
    assert_eq!(remote.headers[0].name, "Authorization");
}

#[tokio::test]
async fn the_form_of_july_2025_is_read_too() {
    let entry = RegistryFixture::new()
        .find(&sample("valid/registry/server-2025-07.json"), "old")
        .await
        .unwrap()
        .unwrap();
    let servers: Vec<_> = entry.run_methods.iter().map(|way| way.server.as_str()).collect();
    assert_eq!(servers, ["npx://@example/old@0.9.1", "example/old:0.9.1", "https://old.example.com/mcp"]);
    assert_eq!(entry.version.as_deref(), Some("0.9.1"));
}

#[tokio::test]
async fn a_list_keeps_the_latest_versions_and_reports_invalid_entries() {
    let asking = RegistryFixture::new();
    let list = sample("valid/registry/list.json");
    let entries = asking.list(&list).await.unwrap();
    let names: Vec<_> = entries.iter().map(|entry| entry.name.as_str()).collect();
    assert_eq!(names, ["com.example/clock", "com.example/gone", "com.example/nothing", "org.example/clock"]);
    assert_eq!(entries[0].version.as_deref(), Some("1.10.0"));
    let [notice] = &asking.notices()[..] else { panic!("one notice") };
    assert!(notice.starts_with("1 entry of the registry cannot be read"), "{notice}");

    let error = asking.find(&list, "clock").await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidOption);
    assert_eq!(
        error.message(),
        "`clock` matches several servers in the registry: `com.example/clock`, `org.example/clock`"
    );
    assert!(asking.find(&list, "com.example/clock").await.unwrap().is_some());
    assert_eq!(asking.find(&list, "example/clock").await.unwrap(), None);
    assert_eq!(asking.search(&list, "A SERVER org.").await.unwrap().len(), 1);
}

#[tokio::test]
async fn both_toolhive_layouts_parse_to_the_same_entries() {
    let asking = RegistryFixture::new();
    let wrapped = asking.find(&sample("valid/registry/wrapped.json"), "notes").await.unwrap().unwrap();
    let plain = asking.find(&sample("valid/registry/toolhive.json"), "notes").await.unwrap().unwrap();
    for entry in [&wrapped, &plain] {
        let way = &entry.run_methods[0];
        assert_eq!(
            (way.server.as_str(), way.transport),
            ("registry.example.com/notes:0.3.0", Some(Transport::Stdio))
        );
        assert_eq!(
            (way.env[0].name.as_str(), way.env[0].required, way.env[0].secret),
            ("NOTES_TOKEN", true, true)
        );
        let host = &way.permissions.as_ref().unwrap()["network"]["outbound"]["allow_host"];
        assert_eq!(host, &json!(["notes.example.com"]));
        assert_eq!(
            (entry.tools.as_slice(), entry.tags.as_slice()),
            (&["add_note".to_owned()][..], &["text".to_owned()][..])
        );
        assert_eq!(way.args.len(), 1);
    }
    assert_eq!(wrapped.run_methods[0].proxy_port, Some(18080));
    assert!(wrapped.run_methods[0].provenance.is_some());
    let entries = asking.list(&sample("valid/registry/toolhive.json")).await.unwrap();
    let names: Vec<_> = entries.iter().map(|entry| entry.name.as_str()).collect();
    assert_eq!(names, ["calendar", "inner", "notes", "web"]);
    assert_eq!(entries[3].run_methods[0].target_port, Some(9000));
}

/// The fields and forms of ToolHive's published documents, with other values.
#[tokio::test]
async fn a_published_registry_is_read_with_all_that_stands_in_it() {
    let asking = RegistryFixture::new();
    let entries = asking.list(&sample("valid/registry/published.json")).await.unwrap();
    assert_eq!(asking.notices(), [""; 0]);
    let [graphs, mail, tides] = entries.as_slice() else { panic!("{entries:?}") };
    assert_eq!((tides.title.as_deref(), tides.tier.as_deref()), (Some("Tides"), Some("Official")));
    assert_eq!((tides.status.as_deref(), graphs.status.as_deref()), (Some("active"), Some("deprecated")));
    let way = &tides.run_methods[0];
    assert_eq!((way.args.len(), way.env.len(), way.provenance.is_some()), (2, 3, true));
    assert_eq!(way.env[1].default.as_deref(), Some("/tables"));
    let outbound = &way.permissions.as_ref().unwrap()["network"]["outbound"];
    assert_eq!(outbound["allow_port"], json!([443, 80]));
    assert_eq!(
        (graphs.run_methods[0].target_port, graphs.run_methods[0].transport),
        (Some(5000), Some(Transport::StreamableHttp))
    );
    assert_eq!(mail.run_methods[0].server, "https://mail.example.com/mcp");
    assert_eq!((mail.run_methods[0].permissions.is_some(), mail.tools.len()), (false, 1));
}

/// The fields and forms of the MCP registry's examples of 2025, with other values.
#[tokio::test]
async fn a_list_of_2025_is_read_with_all_that_stands_in_it() {
    let asking = RegistryFixture::new();
    let entries = asking.list(&sample("valid/registry/list-2025-09.json")).await.unwrap();
    let [notice] = &asking.notices()[..] else { panic!("one notice") };
    assert!(notice.starts_with("1 entry of the registry cannot be read"), "{notice}");
    let [hybrid, database, files] = entries.as_slice() else { panic!("{entries:?}") };
    let servers = |entry: &mcpm::registry::RegistryEntry| {
        entry.run_methods.iter().map(|way| way.server.clone()).collect::<Vec<_>>()
    };
    assert_eq!(servers(files), ["npx://@example/files@1.0.2", "docker.io/example/files:1.0.2"]);
    assert_eq!(files.run_methods[1].volumes[0].value.as_deref(), Some("{source_path}:{target_path}"));
    let kind = &database.run_methods[0].env.iter().find(|input| input.name == "DB_TYPE").unwrap();
    assert_eq!(kind.variables["db_type"].choices, ["postgres", "mysql"]);
    assert_eq!(
        (database.run_methods[0].ignored_engine_flags.as_slice(), database.run_methods[0].args.len()),
        (&["--network".to_owned()][..], 3)
    );
    assert_eq!(servers(hybrid), ["https://hybrid.example.com/sse"]);
    let names: Vec<_> = hybrid.run_methods[0].headers.iter().map(|header| header.name.as_str()).collect();
    assert_eq!(names, ["X-API-Key", "X-Region"]);
    assert_eq!(
        hybrid.unsupported_packages,
        ["nuget", "mcpb", "a remote server whose URL contains variables"]
    );
}

#[tokio::test]
async fn the_catalogue_that_comes_with_mcpm_can_be_read_whole() {
    let asking = RegistryFixture::new();
    let entries = asking.list("embedded").await.unwrap();
    assert_eq!(asking.notices(), [""; 0]);
    assert!(
        entries.iter().all(|entry| entry.run_methods.len() == 1 && !entry.description.is_empty()),
        "{entries:?}"
    );
    assert!(asking.find("embedded", "everything").await.unwrap().is_some());
}

#[tokio::test]
async fn metadata_of_another_form_hides_no_server() {
    let asking = RegistryFixture::new();
    for (metadata, stars) in [
        (json!({ "stars": 7 }), Some(7_u64)),
        (json!({ "stars": "many" }), None),
        (json!(["stars"]), None),
        (json!("stars"), None),
        (json!(null), None),
    ] {
        let server = json!({ "image": "registry.example.com/notes:1", "metadata": metadata });
        let path = asking.write("r.json", &json!({ "servers": { "notes": server } }).to_string());
        let entries = asking.list(path.to_str().unwrap()).await.unwrap();
        let found: Vec<_> = entries.iter().map(|entry| (entry.name.as_str(), entry.stars)).collect();
        assert_eq!(found, [("notes", stars)], "{metadata}");
    }
    assert_eq!(asking.notices(), [""; 0]);
}

#[tokio::test]
async fn what_is_no_registry_is_refused_with_one_message() {
    let asking = RegistryFixture::new();
    let mut said = String::new();
    let mut files: Vec<_> =
        std::fs::read_dir(sample("invalid/registry")).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.retain(|path| path.extension().is_some_and(|extension| extension == "json"));
    files.sort();
    for path in files {
        let error = asking.list(path.to_str().unwrap()).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Registry, "{path:?}: {error}");
        let message = error.to_string().replace(path.to_str().unwrap(), "FILE");
        assert!(!message.contains(char::is_control), "{message:?}");
        said += &format!("{}: {message}\n", path.file_stem().unwrap().to_str().unwrap());
    }
    let kept = sample("invalid/registry/messages.txt");
    if std::env::var_os("MCPM_UPDATE").is_some() {
        std::fs::write(&kept, &said).unwrap();
    }
    assert_eq!(said, std::fs::read_to_string(kept).unwrap());
}

#[test]
fn the_settings_select_the_registry() {
    let asking = RegistryFixture::new();
    let source = || Registry::open(&asking.environment(), None).map(|registry| registry.source().to_string());
    assert_eq!(source().unwrap(), "embedded");
    for (settings, expected) in [
        (r#"{"version": 1}"#, Ok("embedded")),
        (r#"{"version": 1, "registry_api_url": "https://r.example.com"}"#, Ok("https://r.example.com/")),
        (
            r#"{"version": 1, "registry_api_url": "https://r.example.com/a", "registry_url": "https://d.example.com/b"}"#,
            Ok("https://r.example.com/a"),
        ),
        (r#"{"version": 1, "registry_url": "https://d.example.com/b?k=1"}"#, Ok("https://d.example.com/b")),
        (r#"{"version": 1, "local_registry_path": "/r.json"}"#, Ok("/r.json")),
        (r#"{"version": 2}"#, Err("has version 2")),
        (r#"{"version": 1, "registry_uri": "x"}"#, Err("unknown field `registry_uri`")),
        (
            r#"{"version": 1, "registry_url": "http://d.example.com"}"#,
            Err("it must be `https`, except on this machine"),
        ),
        (r#"{"version": 1, "registry_url": "https://u:p4ss@d.example.com"}"#, Err("contains credentials")),
        ("{", Err("are not valid")),
    ] {
        asking.write("config/config.json", settings);
        match (source(), expected) {
            (Ok(source), Ok(expected)) => assert_eq!(source, expected, "{settings}"),
            (Err(error), Err(words)) => {
                assert_eq!(error.kind(), ErrorKind::InvalidOption, "{settings}");
                assert!(error.to_string().contains(words) && !error.to_string().contains("p4ss"), "{error}");
            }
            (source, _) => panic!("{settings}: {source:?}"),
        }
    }
    // A registry given in the call takes precedence over the settings.
    let named = Registry::open(&asking.environment(), Some("http://127.0.0.1:1/r.json")).unwrap();
    assert_eq!(named.source().to_string(), "http://127.0.0.1:1/r.json");
}
