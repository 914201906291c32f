use std::os::unix::fs::MetadataExt as _;

use super::*;
use crate::options::VolumeSpec;

fn check_error(change: impl FnOnce(&mut WorkloadOptions)) -> String {
    let mut options =
        WorkloadOptions { secret: vec![SecretRef::from(("a", "A"))], ..WorkloadOptions::default() };
    assert!(check(&options).is_ok());
    change(&mut options);
    check(&options).unwrap_err().message().to_owned()
}

#[test]
fn a_target_takes_one_secret() {
    let twice = check_error(|options| options.secret.push(SecretRef::from(("b", "A"))));
    assert_eq!(twice, "two secrets have the target `A`");
    let variable = check_error(|options| options.env.push(("A", "x").into()));
    assert_eq!(variable, "`A` is given with `env` and with `secret`");
    let file = check_error(|options| {
        options.secret.push(SecretRef::from(("b", "file:/run/b")));
        options.volume.push(VolumeSpec::new("/tmp", "/run/b"));
    });
    let ours = check_error(|options| options.secret.push(SecretRef::from(("b", "file:/.mcpm/b"))));
    assert_eq!(ours, "`/.mcpm/b` is reserved for mcpm in containers");
    assert_eq!(file, "a volume and a secret are both mounted at `/run/b`");
}

fn delivery(secrets: &[(&str, &str)], environment: &Environment) -> Result<SecretDelivery> {
    let references: Vec<SecretRef> = secrets.iter().map(|pair| SecretRef::from(*pair)).collect();
    let formats = BTreeMap::from([(
        "TOKEN".to_owned(),
        SecretFormat::Part { before: "Bearer ".to_owned(), after: "!".to_owned() },
    )]);
    SecretDelivery::new(&"weather".parse().unwrap(), &references, &formats, &values(), environment)
}

fn container() -> ContainerSpec {
    ContainerSpec {
        name: "w".to_owned(),
        image: "image".to_owned(),
        args: Vec::new(),
        env: BTreeMap::new(),
        labels: BTreeMap::new(),
        mounts: Vec::new(),
        overlays: Vec::new(),
        network: crate::runtime::Network::Bridge,
        ports: Vec::new(),
        stdin: true,
        unlogged: false,
        pids_limit: 1,
        confinement: crate::runtime::Confinement::default(),
        entry: None,
    }
}

fn values() -> SecretValues {
    [("a".to_owned(), Secret::from("hush-a")), ("b".to_owned(), Secret::from("hush-b"))].into_iter().collect()
}

fn environment(folder: &Path) -> Environment {
    let mut environment = Environment::from_lookup(|_| None);
    environment.state_dir = folder.join("state");
    environment.engine.runtime_dir = Some(folder.join("run"));
    environment
}

#[test]
fn values_appear_only_in_the_create_request() {
    let folder = tempfile::tempdir().unwrap();
    let environment = environment(folder.path());
    let delivery = delivery(&[("a", "A"), ("b", "file:/run/b")], &environment).unwrap();
    assert!(!format!("{delivery:?}").contains("hush"));
    let request = delivery.apply_to(container());
    assert_eq!(request.env["A"], "hush-a");
    let mount = request.mounts.last().unwrap().clone();
    assert_eq!((mount.target.as_str(), mount.read_only), ("/run/b", true));
    assert_eq!(fs::read_to_string(&mount.source).unwrap(), "hush-b");
    let mode = |path: &Path| fs::metadata(path).unwrap().mode() & 0o777;
    assert_eq!((mode(&mount.source), mode(mount.source.parent().unwrap())), (0o444, 0o700));
    drop(delivery);
    assert!(!mount.source.parent().unwrap().exists());
}

#[test]
fn a_secret_that_is_a_part_of_a_variable_is_completed() {
    let folder = tempfile::tempdir().unwrap();
    let delivery = delivery(&[("a", "TOKEN"), ("b", "B")], &environment(folder.path())).unwrap();
    let variables = delivery.with_variables(&BTreeMap::new());
    assert_eq!((variables["TOKEN"].as_str(), variables["B"].as_str()), ("Bearer hush-a!", "hush-b"));
}

#[test]
fn a_scheme_is_not_added_twice() {
    let applied = |before: &str, secret: &str| {
        let format = SecretFormat::Part { before: before.to_owned(), after: String::new() };
        format.apply(&Secret::from(secret)).expose().to_owned()
    };
    assert_eq!(applied("Bearer ", "token"), "Bearer token");
    assert_eq!(applied("Bearer ", "Bearer token"), "Bearer token");
    assert_eq!(applied("Bearer ", "bearer token"), "bearer token");
    assert_eq!(applied("Bearer ", "Bearertoken"), "Bearer Bearertoken");
    assert_eq!(applied("Bearer ", "ünïcödé"), "Bearer ünïcödé");
    // The first letter of this secret is a part of it.
    assert_eq!(applied("a", "abc"), "aabc");
}

#[test]
fn a_prompt_says_when_the_whole_value_is_needed() {
    let secrets = [("w/A", "A"), ("w/B", "B"), ("w/X-Key", "header:X-Key")].map(SecretRef::from);
    let formats = BTreeMap::from([
        ("A".to_owned(), SecretFormat::Part { before: "Bearer ".to_owned(), after: String::new() }),
        ("B".to_owned(), SecretFormat::Whole),
    ]);
    let prompts = secrets.each_ref().map(|secret| prompt_for(&secrets, &formats, &secret.name));
    let expected =
        ["w/A", "w/B - the whole value of the variable", "w/X-Key - the whole value of the header"];
    assert_eq!(prompts, expected);
}

#[test]
fn files_that_a_killed_launch_left_are_removed() {
    let folder = tempfile::tempdir().unwrap();
    let environment = environment(folder.path());
    let two = [("a", "file:/run/a"), ("b", "file:/run/b")];
    std::mem::forget(delivery(&two, &environment).unwrap());
    let next = delivery(&two, &environment).unwrap();
    let left = next.mounts[0].source.parent().unwrap().to_owned();
    std::mem::forget(next);
    assert_eq!(fs::read_dir(&left).unwrap().count(), 2);
    remove_leftover_files(&"weather".parse().unwrap(), &environment);
    assert!(!left.exists());
}

#[test]
fn each_launch_with_secrets_has_its_own_id() {
    let folder = tempfile::tempdir().unwrap();
    let environment = environment(folder.path());
    let mark = |secrets: &[_]| delivery(secrets, &environment).unwrap().launch_id().to_owned();
    assert_ne!(mark(&[("a", "A")]), mark(&[("a", "A")]));
    assert_eq!(mark(&[]), "");
}

#[test]
fn a_missing_value_and_a_missing_place_are_errors() {
    let folder = tempfile::tempdir().unwrap();
    let mut environment = environment(folder.path());
    let missing = delivery(&[("c", "C")], &environment).unwrap_err();
    assert_eq!(missing.kind(), ErrorKind::NotFound);
    environment.engine.runtime_dir = None;
    let homeless = delivery(&[("a", "file:/a")], &environment).unwrap_err();
    assert!(homeless.message().contains("XDG_RUNTIME_DIR"), "{homeless}");
}
