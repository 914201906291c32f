use serde_json::json;

use super::*;

fn manifest(change: impl FnOnce(&mut Value)) -> Result<Manifest> {
    let mut value = json!({
        "manifest_version": "0.3", "name": "notes", "version": "1.2.3", "description": "Keeps notes",
        "author": {"name": "A"},
        "server": {"type": "node", "entry_point": "server/index.js", "mcp_config": {
            "command": "node",
            "args": ["${__dirname}/server/index.js", "--verbose", "${user_config.folders}", "--level=${user_config.level}"],
            "env": {"KEY": "${user_config.key}", "PLAIN": "${__dirname}${/}data", "OTHER": "${HOME}/x ${UNKNOWN} ${"},
        }},
        "user_config": {
            "folders": {"type": "directory", "title": "Folders", "description": "What may be read", "multiple": true,
                        "required": true, "default": ["${HOME}/Desktop"]},
            "level": {"type": "number", "title": "Level", "description": "Level", "default": 3, "min": 1, "max": 5},
            "key": {"type": "string", "title": "Key\u{1b}[2J", "description": "", "sensitive": true},
        },
    });
    change(&mut value);
    Manifest::parse(&serde_json::to_vec(&value).unwrap())
}

fn key(name: &str) -> TemplatePart {
    TemplatePart::Key(name.to_owned())
}

fn text(text: &str) -> TemplatePart {
    TemplatePart::Text(text.to_owned())
}

#[test]
fn what_is_the_same_for_all_users_is_separate() {
    let manifest = manifest(|_| {}).unwrap();
    assert_eq!(manifest.command, ["node", "/app/src/server/index.js", "--verbose"]);
    let args = [Template(vec![key("folders")]), Template(vec![text("--level="), key("level")])];
    assert_eq!(manifest.args, args);
    assert_eq!(manifest.env["KEY"], Template(vec![key("key")]));
    assert_eq!(manifest.env["PLAIN"], Template(vec![text("/app/src/data")]));
    assert_eq!(manifest.env["OTHER"], Template(vec![text("/home/mcpm/x ${UNKNOWN} ${")]));
    let folders = &manifest.config["folders"];
    assert_eq!((folders.description.as_str(), folders.required), ("Folders: What may be read", true));
    assert_eq!(manifest.config["level"].default, ["3"]);
    assert_eq!(manifest.config["key"].description, "Key [2J");
    assert_eq!((manifest.version.as_str(), manifest.is_for_others), ("1.2.3", false));
}

#[test]
fn overrides_of_linux_apply_and_no_others() {
    let changed = manifest(|value| {
        value["server"]["mcp_config"]["platform_overrides"] = json!({
            "win32": {"command": "node.exe"},
            "linux": {"args": ["${__dirname}/linux.js"], "env": {"A": "b"}},
        });
    });
    let changed = changed.unwrap();
    assert_eq!(changed.command, ["node", "/app/src/linux.js"]);
    assert!(changed.args.is_empty() && changed.env.len() == 1, "{changed:?}");
}

#[test]
fn a_program_needs_to_be_for_linux() {
    let binary = |platforms: Value, overrides: Value| {
        manifest(|value| {
            value["server"]["type"] = json!("binary");
            value["server"]["mcp_config"]["command"] = json!("server/run");
            value["server"]["mcp_config"]["platform_overrides"] = overrides;
            value["compatibility"] = json!({"platforms": platforms});
        })
    };
    assert!(binary(json!(["darwin", "linux"]), json!({})).is_ok());
    assert!(binary(json!(["darwin"]), json!({"linux": {"command": "server/linux"}})).is_ok());
    let error = binary(json!(["darwin", "win32"]), json!({})).unwrap_err();
    assert_eq!(error.message(), "the bundle has no program for Linux");
    let node = manifest(|value| value["compatibility"] = json!({"platforms": ["darwin"]})).unwrap();
    assert!(node.is_for_others);
}

#[test]
fn older_versions_and_servers_of_uv_are_read() {
    let old = manifest(|value| {
        value["dxt_version"] = json!("0.1");
        value.as_object_mut().unwrap().remove("manifest_version");
    });
    assert!(old.is_ok());
    let uv = |config: Value| {
        manifest(|value| {
            value["manifest_version"] = json!("0.4");
            value["server"] = json!({"type": "uv", "entry_point": "src/server.py", "mcp_config": config});
        })
    };
    let plain = uv(Value::Null).unwrap();
    assert_eq!((plain.entry_point.as_str(), plain.command.len(), plain.args.len()), ("src/server.py", 0, 0));
    let given =
        uv(json!({"command": "uv", "args": ["run", "--directory", "${__dirname}", "src/server.py", "--fast",
        "${user_config.level}"]}));
    let given = given.unwrap();
    assert!(given.command.is_empty() && !given.ignores_args && !plain.ignores_args);
    assert_eq!(given.args, [Template(vec![text("--fast")]), Template(vec![key("level")])]);
    for (entry, used) in [
        ("./src/server.py", true),
        ("${__dirname}/src/server.py", true),
        ("${__dirname}${/}./src/server.py", true),
        ("--with=src/server.py", false),
        ("other/src/server.py", false),
    ] {
        let args = uv(json!({"command": "uv", "args": ["run", entry, "--fast"]})).unwrap();
        assert_eq!((args.args.len(), args.ignores_args), (usize::from(used), !used), "{entry}");
    }
    let written_with_a_dot = manifest(|value| {
        value["manifest_version"] = json!("0.4");
        value["server"] = json!({"type": "uv", "entry_point": "./s.py",
            "mcp_config": {"command": "uv", "args": ["run", "s.py", "--db", "${user_config.level}"]}});
    });
    assert_eq!(written_with_a_dot.unwrap().args.len(), 2);
}

#[test]
fn a_broken_manifest_is_refused_with_what_is_wrong() {
    let refused = |change: &dyn Fn(&mut Value)| manifest(change).unwrap_err().to_string();
    for (change, expected) in [
        (
            &(|value: &mut Value| value["manifest_version"] = json!("9\n")) as &dyn Fn(&mut Value),
            "version `9`",
        ),
        (&|value| value["server"]["type"] = json!("java"), "the manifest of the bundle is invalid"),
        (&|value| value["server"]["mcp_config"] = json!(null), "has no `mcp_config`"),
        (
            &|value| value["server"]["entry_point"] = json!("../x"),
            "the entry point `../x` is not a valid path",
        ),
        (
            &|value| value["server"]["mcp_config"]["command"] = json!("${user_config.key}"),
            "`command` in the manifest is empty",
        ),
        (&|value| value["server"]["mcp_config"]["command"] = json!(""), "`command` in the manifest is empty"),
        (
            &|value| value["server"]["mcp_config"]["args"] = json!(["${user_config.none}"]),
            "uses the value `none`",
        ),
        (&|value| value["server"]["mcp_config"]["args"] = json!(vec!["x"; 101]), "more than 100"),
        (&|value| value["user_config"]["a b"] = json!({"type": "string"}), "`a b` is not a valid key"),
        (&|value| value["user_config"]["level"]["default"] = json!({}), "the default of `level`"),
    ] {
        let error = refused(change);
        assert!(error.contains(expected) && !error.contains('\n'), "{expected}: {error}");
    }
    assert!(Manifest::parse(b"{").is_err());
}
