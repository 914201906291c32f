#![cfg(feature = "containers")]

use std::{
    fs::File,
    io::Write as _,
    sync::{Mutex, PoisonError},
};

use async_trait::async_trait;
use serde_json::{Value, json};
use zip::{ZipWriter, write::SimpleFileOptions};

use super::{super::image_source::ImageSource, *};
use crate::user_prompt::UserPrompt;

const NOBODY: InputMode<'_> = InputMode::Interactive(None);

/// A user who answers by key.
#[derive(Debug)]
struct Answers(&'static [(&'static str, &'static str)], Mutex<Vec<String>>);

#[async_trait]
impl UserPrompt for Answers {
    async fn ask_secret(&self, question: &str) -> Result<Option<Secret>> {
        Ok(self.ask_text(&format!("secret {question}")).await?.map(Secret::from))
    }

    async fn ask_text(&self, question: &str) -> Result<Option<String>> {
        self.1.lock().unwrap_or_else(PoisonError::into_inner).push(question.to_owned());
        let answer = self.0.iter().find(|(key, _)| question.trim_start_matches("secret ").starts_with(key));
        Ok(answer.map(|(_, answer)| (*answer).to_owned()))
    }
}

/// A folder with two folders, and a bundle that needs a secret, folders and a number.
fn home() -> (tempfile::TempDir, Environment) {
    home_with(|_| {})
}

fn home_with(change: impl FnOnce(&mut Value)) -> (tempfile::TempDir, Environment) {
    let folder = tempfile::tempdir().unwrap();
    for name in ["a", "b"] {
        std::fs::create_dir(folder.path().join(name)).unwrap();
    }
    let mut manifest = json!({
        "manifest_version": "0.3", "name": "notes", "version": "1.0.0",
        "server": {"type": "node", "entry_point": "index.js", "mcp_config": {
            "command": "node", "args": ["index.js", "${user_config.folders}", "--level", "${user_config.level}"],
            "env": {"KEY": "Bearer ${user_config.key}", "LEVEL": "${user_config.level}", "NAME": "${user_config.name}"},
        }},
        "user_config": {
            "folders": {"type": "directory", "title": "Folders", "multiple": true, "required": true, "default": ["/home"]},
            "level": {"type": "number", "default": 3, "min": 1, "max": 5},
            "key": {"type": "string", "title": "Key", "sensitive": true, "required": true},
            "name": {"type": "string"},
        },
    });
    change(&mut manifest);
    let mut zip = ZipWriter::new(File::create(folder.path().join("notes.mcpb")).unwrap());
    zip.start_file("manifest.json", SimpleFileOptions::default()).unwrap();
    zip.write_all(manifest.to_string().as_bytes()).unwrap();
    zip.finish().unwrap();
    let environment = Environment {
        config_dir: folder.path().to_owned(),
        working_dir: folder.path().to_owned(),
        ..Environment::from_lookup(|_| None)
    };
    (folder, environment)
}

async fn resolved(
    home: &(tempfile::TempDir, Environment),
    options: &[(&str, &str)],
    input_mode: &InputMode<'_>,
) -> Result<WorkloadRequest> {
    let mut all = WorkloadOptions { server: Some("./notes.mcpb".to_owned()), ..WorkloadOptions::default() };
    for (name, text) in options {
        crate::options::OptionSet::set(&mut all, name, text)?;
    }
    let request = WorkloadRequest::load(all, &home.1)?;
    resolve(&request, &home.0.path().join("notes.mcpb"), &home.1, input_mode).await
}

/// What a variable contains when its secret has a value.
fn delivered(request: &WorkloadRequest, name: &str, secret: &str) -> String {
    let format = &request.registry_values.as_ref().unwrap().secret_formats[name];
    format.apply(&Secret::from(secret)).expose().to_owned()
}

fn text(home: &(tempfile::TempDir, Environment), name: &str) -> String {
    home.0.path().join(name).to_string_lossy().into_owned()
}

#[tokio::test]
async fn given_values_become_arguments_variables_and_mounts() {
    let home = home();
    let given = [
        ("config", "folders=./a"),
        ("config", "folders=b"),
        ("config", "level=4"),
        ("secret", "stored,target=KEY"),
    ];
    let request = resolved(&home, &given, &NOBODY).await.unwrap();
    let values = request.registry_values.as_ref().unwrap();
    assert_eq!(values.options.args, [&text(&home, "a"), &text(&home, "b"), "--level", "4"]);
    assert_eq!(values.env["LEVEL"], ("4".to_owned(), ValueOrigin::Bundle));
    assert_eq!(delivered(&request, "KEY", "token"), "Bearer token");
    assert!(values.secrets.is_empty() && !values.env.contains_key("KEY") && !values.env.contains_key("NAME"));
    let mounts: Vec<String> = request.options.volume.iter().map(ToString::to_string).collect();
    assert_eq!(mounts, ["a", "b"].map(|name| format!("{0}:{0}", text(&home, name))));
    // An export contains the absolute paths, and resolves to the same values.
    let exported: Vec<String> = request.options.config.iter().map(ToString::to_string).collect();
    assert_eq!(
        exported,
        [
            format!("folders={}", text(&home, "a")),
            format!("folders={}", text(&home, "b")),
            "level=4".to_owned()
        ]
    );
    let again = resolve(&request, &home.0.path().join("notes.mcpb"), &home.1, &NOBODY).await.unwrap();
    assert_eq!(again.options, request.options);
}

#[tokio::test]
async fn missing_values_are_asked_for_and_secrets_are_no_options() {
    let home = home();
    let user = Answers(&[("folders", "/usr:/etc"), ("key", "hush")], Mutex::default());
    let request = resolved(&home, &[], &InputMode::Interactive(Some(&user))).await.unwrap();
    let asked = user.1.into_inner().unwrap();
    assert_eq!(asked, ["folders - Folders (one or more paths, separated by `:`)", "secret key - Key"]);
    let values = request.registry_values.as_ref().unwrap();
    assert_eq!(values.options.args, ["/usr", "/etc", "--level", "3"]);
    assert_eq!(delivered(&request, "KEY", "hush"), "Bearer hush");
    assert_eq!(values.secrets["KEY"].expose(), "hush");
    assert!(!format!("{request:?}").contains("hush"));
    assert_eq!(request.options.volume.len(), 2);
}

#[tokio::test]
async fn values_that_nobody_supplies_are_named_in_one_message() {
    let home = home();
    let error = resolved(&home, &[], &NOBODY).await.unwrap_err();
    let text = "the bundle needs values for `folders` (Folders), `key` (Key); set `config` to `KEY=VALUE`, or set `secret` \
                to `NAME,target=KEY`, or run in a terminal to be prompted";
    assert_eq!(error.to_string(), text);
    let planned = InputMode::DryRun(Mutex::default());
    let request = resolved(&home, &[], &planned).await.unwrap();
    assert_eq!(request.registry_values.unwrap().prompts, ["folders", "key"]);
    // Arguments and variables of the user take the place of the bundle's.
    let own = [("args", "/data"), ("env", "KEY=k")];
    let request = resolved(&home, &own, &NOBODY).await.unwrap();
    assert!(request.registry_values.unwrap().env.contains_key("LEVEL"));
}

#[tokio::test]
async fn bad_values_are_refused() {
    let home = home();
    for (option, expected) in [
        ("level=six", "`level` is not a number"),
        ("level=9", "`level` must be from 1 to 5"),
        ("level=NaN", "not a number"),
        ("folders=", "`folders` is empty"),
        ("folders=/", "cannot be mounted"),
        ("folders=/absent", "cannot mount `/absent`, the value of `folders`"),
        ("folders=./notes.mcpb", "`folders` is not a folder"),
        ("folders=../x", "cannot be mounted"),
        ("none=1", "has no value `none`; it has `folders`, `key`, `level`, `name`"),
        ("key=hush", "`key` is a secret"),
    ] {
        let given = [("config", option), ("secret", "stored,target=KEY")];
        let error = resolved(&home, &given, &NOBODY).await.unwrap_err().to_string();
        assert!(error.contains(expected) && !error.contains("hush"), "{option}: {error}");
    }
    let twice = [("config", "level=1"), ("config", "level=2")];
    assert!(resolved(&home, &twice, &NOBODY).await.unwrap_err().message().contains("at most 1"));
}

#[tokio::test]
async fn the_root_folder_is_refused_in_every_spelling() {
    let (folder, environment) = home();
    let home = (folder, Environment { working_dir: "/".into(), ..environment });
    for config in ["folders=.", "folders=/.", "folders=//"] {
        let given = [("config", config), ("secret", "stored,target=KEY")];
        let mut all =
            WorkloadOptions { server: Some(text(&home, "notes.mcpb")), ..WorkloadOptions::default() };
        for (name, text) in given {
            crate::options::OptionSet::set(&mut all, name, text).unwrap();
        }
        let request = WorkloadRequest::load(all, &home.1).unwrap();
        let error = resolve(&request, &home.0.path().join("notes.mcpb"), &home.1, &NOBODY).await.unwrap_err();
        assert!(error.message().contains("must not be `/`"), "{config}: {error}");
    }
}

#[tokio::test]
async fn a_given_folder_is_mounted_whatever_the_arguments_are() {
    let home = home();
    let given = [("config", "folders=a"), ("secret", "stored,target=KEY"), ("args", "/data")];
    let request = resolved(&home, &given, &NOBODY).await.unwrap();
    assert_eq!(request.options.volume, [VolumeSpec::new(text(&home, "a"), text(&home, "a"))]);
    assert_eq!(request.options.config.len(), 1);
}

#[tokio::test]
async fn a_volume_decides_how_a_folder_is_mounted() {
    let home = home();
    let folder = text(&home, "a");
    let volume = format!("{folder}:{folder}/:ro");
    let given = [
        ("config", "folders=a"),
        ("config", "folders=b"),
        ("volume", &volume),
        ("secret", "stored,target=KEY"),
    ];
    let request = resolved(&home, &given, &NOBODY).await.unwrap();
    let mounts: Vec<String> = request.options.volume.iter().map(ToString::to_string).collect();
    assert_eq!(mounts, [volume.clone(), format!("{0}:{0}", text(&home, "b"))]);
    // A mount of the permission profile stays as it is.
    let profile = text(&home, "profile.json");
    std::fs::write(&profile, json!({"read": [folder]}).to_string()).unwrap();
    let given = [("config", "folders=a"), ("permission_profile", &profile), ("secret", "stored,target=KEY")];
    assert_eq!(resolved(&home, &given, &NOBODY).await.unwrap().options.volume, []);
    // It may be another folder of this machine.
    let given = [("config", "folders=/absent"), ("volume", "a:/absent"), ("secret", "stored,target=KEY")];
    assert_eq!(resolved(&home, &given, &NOBODY).await.unwrap().options.volume.len(), 1);
}

#[tokio::test]
async fn a_secret_that_several_variables_contain_is_given_to_each() {
    let home = home_with(|manifest| {
        manifest["server"]["mcp_config"]["env"]["KEY2"] = json!("${user_config.key}");
    });
    let hint = async |options: &[(&str, &str)]| {
        let all = [&[("config", "folders=a")], options].concat();
        resolved(&home, &all, &NOBODY).await.unwrap_err().to_string()
    };
    let both = hint(&[]).await;
    assert!(
        both.contains("set `secret` to `NAME,target=KEY` and set `secret` to `NAME,target=KEY2`, or"),
        "{both}"
    );
    let other = hint(&[("secret", "stored,target=KEY")]).await;
    assert!(
        other.ends_with("; set `secret` to `NAME,target=KEY2`, or run in a terminal to be prompted"),
        "{other}"
    );
    let given = [("config", "folders=a"), ("secret", "stored,target=KEY"), ("secret", "stored,target=KEY2")];
    let request = resolved(&home, &given, &NOBODY).await.unwrap();
    // A secret that is the whole value needs no format.
    let formats = &request.registry_values.as_ref().unwrap().secret_formats;
    assert_eq!(formats.keys().collect::<Vec<_>>(), ["KEY"]);
}

#[tokio::test]
async fn a_secret_is_combined_with_the_other_values_of_its_variable() {
    let home = home_with(|manifest| {
        manifest["user_config"]["user"] = json!({"type": "string", "required": true});
        manifest["user_config"]["pin"] = json!({"type": "string", "sensitive": true, "required": true});
        let env = &mut manifest["server"]["mcp_config"]["env"];
        env["AUTH"] = json!("${user_config.user}:${user_config.key}!");
        env["BOTH"] = json!("${user_config.key}+${user_config.pin}");
    });
    // The secret takes the place of the key, so the rest of the variable is still needed.
    let secrets = [("config", "folders=a"), ("secret", "k,target=KEY"), ("secret", "k,target=AUTH")];
    let error = resolved(&home, &secrets, &NOBODY).await.unwrap_err().to_string();
    let expected = "the bundle needs values for `key` (Key), `pin`, `user`; set `config` to `KEY=VALUE`, or set `secret` to \
                    `NAME,target=BOTH` (the whole value of the variable), or run in a terminal to be prompted";
    assert_eq!(error, expected);
    let all = [&secrets[..], &[("config", "user=me"), ("secret", "both,target=BOTH")]].concat();
    let request = resolved(&home, &all, &NOBODY).await.unwrap();
    assert_eq!(delivered(&request, "AUTH", "hush"), "me:hush!");
    assert!(!request.registry_values.as_ref().unwrap().secret_formats.contains_key("BOTH"));
    // What is typed is what has to be typed again, except for several secrets in one variable.
    let user =
        Answers(&[("folders", "/usr"), ("key", "hush"), ("pin", "123"), ("user", "me")], Mutex::default());
    let request = resolved(&home, &[], &InputMode::Interactive(Some(&user))).await.unwrap();
    let values = request.registry_values.as_ref().unwrap();
    assert_eq!(values.secrets["AUTH"].expose(), "hush");
    assert_eq!(delivered(&request, "AUTH", "hush"), "me:hush!");
    assert_eq!(values.secrets["BOTH"].expose(), "hush+123");
    assert_eq!(values.secret_formats["BOTH"], SecretFormat::Whole);
}

#[tokio::test]
async fn an_optional_value_that_is_absent_is_empty_in_the_text_around_it() {
    let home = home_with(|manifest| {
        let config = &mut manifest["server"]["mcp_config"];
        config["args"] = json!(["index.js", "--name=${user_config.name}", "${user_config.name}"]);
        config["env"]["AUTH"] = json!("Basic ${user_config.name}:${user_config.key}");
        config["env"]["PLACE"] = json!("${user_config.folders}/${user_config.name}");
        // A variable without any value of the user stays unset.
        config["env"]["LABEL"] = json!("name=${user_config.name}");
        config["env"]["BOTH"] = json!("${user_config.level}/${user_config.name}");
    });
    let secrets = [("config", "folders=a"), ("secret", "k,target=KEY"), ("secret", "k,target=AUTH")];
    let request = resolved(&home, &secrets, &NOBODY).await.unwrap();
    assert_eq!(delivered(&request, "AUTH", "hush"), "Basic :hush");
    let values = request.registry_values.as_ref().unwrap();
    assert_eq!(values.options.args, ["--name="]);
    assert_eq!(values.env["PLACE"].0, format!("{}/", text(&home, "a")));
    assert!(!values.env.contains_key("LABEL") && !values.env.contains_key("BOTH"));
    let user = Answers(&[("folders", "/usr"), ("key", "hush")], Mutex::default());
    let request = resolved(&home, &[], &InputMode::Interactive(Some(&user))).await.unwrap();
    assert_eq!(request.registry_values.as_ref().unwrap().secrets["AUTH"].expose(), "hush");
    assert_eq!(delivered(&request, "AUTH", "hush"), "Basic :hush");
}

#[tokio::test]
async fn a_variable_whose_secret_is_only_in_another_one_is_not_set() {
    let home = home_with(|manifest| {
        manifest["user_config"]["key"]["required"] = json!(false);
        let env = &mut manifest["server"]["mcp_config"]["env"];
        env["AUTH"] = json!("Basic ${user_config.name}:${user_config.key}");
    });
    let common = [("config", "folders=a"), ("config", "name=bob")];
    for (supplied, expected) in
        [(None, Some("Basic bob:")), (Some(("secret", "k,target=KEY")), None), (Some(("env", "KEY=k")), None)]
    {
        let given: Vec<_> = common.into_iter().chain(supplied).collect();
        let request = resolved(&home, &given, &NOBODY).await.unwrap();
        let values = request.registry_values.as_ref().unwrap();
        assert_eq!(values.env["NAME"].0, "bob");
        assert_eq!(values.env.get("AUTH").map(|(text, _)| text.as_str()), expected, "{supplied:?}");
        assert!(!values.secret_formats.contains_key("AUTH"), "{supplied:?}");
    }
}

#[tokio::test]
async fn a_default_is_not_a_secret() {
    let home = home_with(|manifest| manifest["user_config"]["key"]["default"] = json!("def"));
    let request = resolved(&home, &[("config", "folders=a")], &NOBODY).await.unwrap();
    let values = request.registry_values.as_ref().unwrap();
    assert_eq!(values.env["KEY"], ("Bearer def".to_owned(), ValueOrigin::Bundle));
    assert!(values.secrets.is_empty() && values.secret_formats.is_empty());
    // A stored secret takes its place.
    let given = [("config", "folders=a"), ("secret", "stored,target=KEY")];
    let request = resolved(&home, &given, &NOBODY).await.unwrap();
    assert_eq!(delivered(&request, "KEY", "hush"), "Bearer hush");
}

#[tokio::test]
async fn the_image_is_built_from_the_file_that_was_read() {
    let home = home();
    let given = [("config", "folders=a"), ("secret", "stored,target=KEY")];
    let request = resolved(&home, &given, &NOBODY).await.unwrap();
    let built = async |request: &WorkloadRequest| {
        let source = ImageSource::from_request(request, &home.1).await.unwrap().unwrap();
        source.reference().to_string()
    };
    let before = built(&request).await;
    let other = home_with(|manifest| manifest["version"] = json!("2.0.0"));
    std::fs::rename(other.0.path().join("notes.mcpb"), home.0.path().join("notes.mcpb")).unwrap();
    assert_eq!(built(&request).await, before);
    assert_ne!(built(&resolved(&home, &given, &NOBODY).await.unwrap()).await, before);
}

#[tokio::test]
async fn arguments_that_are_not_used_are_warned_about() {
    let home = home_with(|manifest| {
        manifest["manifest_version"] = json!("0.4");
        manifest["server"]["type"] = json!("uv");
        manifest["server"]["mcp_config"]["args"] = json!(["run", "other.py", "--fast"]);
    });
    let given = [("config", "folders=a"), ("secret", "stored,target=KEY")];
    let request = resolved(&home, &given, &NOBODY).await.unwrap();
    let source = ImageSource::from_request(&request, &home.1).await.unwrap().unwrap();
    let warning = "the arguments in the bundle's manifest are ignored: none of them is the entry point";
    assert_eq!(source.recipe().unwrap().warnings, [warning]);
}
