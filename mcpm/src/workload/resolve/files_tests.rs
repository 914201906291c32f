use std::fs;

use super::super::{
    check, image_source::ImageSource, permissions::EffectivePermissions, request::WorkloadRequest,
    variables::requested_variables, verification::Verification,
};
use crate::{
    Environment, ErrorKind,
    options::{PermissionProfile, WorkloadOptions},
    package::certificates::tests::AUTHORITY,
};

const KEY: &str = "-----BEGIN PUBLIC KEY-----
MCowBQYDK2VwAyEAGb9ECWmEzf6FQbrBZ9w7lshQhqowtrbLDFw4rXAxZuE=
-----END PUBLIC KEY-----
";

fn environment(folder: &tempfile::TempDir) -> Environment {
    Environment { working_dir: folder.path().to_owned(), ..Environment::from_lookup(|_| None) }
}

fn options() -> WorkloadOptions {
    WorkloadOptions {
        server: Some("image:example".to_owned()),
        env_file: Some("variables.env".into()),
        env_file_dir: Some("variables".into()),
        permission_profile: Some(PermissionProfile::File("profile.json".into())),
        tools_override: Some("tools.json".into()),
        audit_config: Some("audit.json".into()),
        ca_cert: Some("ca.pem".into()),
        mcpm_ca_bundle: Some("bundle.pem".into()),
        image_verification_key: Some("key.pub".into()),
        ..WorkloadOptions::default()
    }
}

#[tokio::test]
async fn files_are_used_as_they_were_when_the_workload_was_built() {
    let folder = tempfile::tempdir().unwrap();
    let working_dir = folder.path().to_owned();
    let write = |name: &str, text: &str| fs::write(working_dir.join(name), text).unwrap();
    fs::create_dir(working_dir.join("variables")).unwrap();
    write("variables/1.env", "B=folder\n");
    write("profile.json", r#"{"name": "first", "network": {"outbound": {"insecure_allow_all": true}}}"#);
    write("tools.json", r#"{"toolsOverride": {"read": {"name": "see"}}}"#);
    write("audit.json", r#"{"enabled": true}"#);
    write("ca.pem", AUTHORITY);
    write("bundle.pem", AUTHORITY);
    write("key.pub", KEY);
    // A pipe can be read only once, as with `<(...)` in a shell.
    let pipe = working_dir.join("variables.env");
    crate::testing::make_pipe(&pipe);
    let writer = std::thread::spawn(move || fs::write(pipe, "A=pipe\nB=pipe\n").unwrap());

    let environment = environment(&folder);
    let request = WorkloadRequest::load(options(), &environment).unwrap();
    writer.join().unwrap();
    folder.close().unwrap();

    for _ in 0..2 {
        check(&request, &working_dir).unwrap();
    }
    let variables = requested_variables(&request).unwrap();
    let variables: Vec<_> =
        variables.iter().map(|(name, (value, _))| (name.as_str(), value.as_str())).collect();
    assert_eq!(variables, [("A", "pipe"), ("B", "folder")]);
    let permissions = EffectivePermissions::resolve(&request, &working_dir).unwrap();
    assert_eq!(permissions.profile.name.as_deref(), Some("first"));
    let proxy = request.files.proxy().unwrap();
    assert!(proxy.policy.overrides.contains_key("read") && proxy.audit.is_some(), "{proxy:?}");
    Verification::from_request(&request).unwrap();
    ImageSource::from_request(&request, &environment).await.unwrap();
}

#[test]
fn a_missing_file_is_an_error_of_the_step_that_needs_it() {
    let folder = tempfile::tempdir().unwrap();
    let environment = environment(&folder);
    let outcome = |options: WorkloadOptions| {
        let request = WorkloadRequest::load(options, &environment).unwrap();
        check(&request, folder.path()).map_err(|error| error.kind())
    };
    let of_container = WorkloadOptions {
        server: Some("image:example".to_owned()),
        env_file: Some("absent.env".into()),
        ..WorkloadOptions::default()
    };
    assert_eq!(outcome(of_container.clone()), Err(ErrorKind::NotFound));
    let of_remote = WorkloadOptions { server: Some("https://example.com/mcp".to_owned()), ..of_container };
    assert_eq!(outcome(of_remote), Err(ErrorKind::InvalidOption), "it has no environment");
    let of_verification = WorkloadOptions {
        server: Some("image:example".to_owned()),
        image_verification_key: Some("absent.pub".into()),
        ..WorkloadOptions::default()
    };
    assert_eq!(outcome(of_verification), Ok(()), "the image is verified later");
}
