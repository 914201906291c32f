use super::*;

fn groups() -> (tempfile::TempDir, Groups) {
    let root = tempfile::tempdir().unwrap();
    let groups = Groups::new(&root.path().join("state"));
    (root, groups)
}

#[test]
fn the_format_sample_of_version_1_is_read() {
    let root = tempfile::tempdir().unwrap();
    let groups = Groups::new(root.path());
    groups.create("team").unwrap();
    let path = root.path().join("groups/team.json");
    let sample = include_str!("samples/group.v1.json");
    assert_eq!(fs::read_to_string(&path).unwrap(), sample);
    fs::write(&path, sample).unwrap();
    assert!(groups.exists("team").unwrap());
}

#[test]
fn the_default_group_is_always_there() {
    let (_root, groups) = groups();
    assert_eq!(groups.list().unwrap(), [DEFAULT_GROUP]);
    assert!(groups.exists(DEFAULT_GROUP).unwrap());
    assert_eq!(groups.create(DEFAULT_GROUP).unwrap_err().kind(), ErrorKind::NameTaken);
    assert_eq!(groups.remove(DEFAULT_GROUP).unwrap_err().kind(), ErrorKind::InvalidOption);
    assert!(!groups.folder.exists());
}

#[test]
fn groups_come_and_go() {
    let (_root, groups) = groups();
    for name in ["web tools", "a_1-b"] {
        assert!(!groups.exists(name).unwrap());
        groups.create(name).unwrap();
        assert!(groups.exists(name).unwrap());
        let error = groups.create(name).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NameTaken);
        assert_eq!(error.message(), format!("a group named `{name}` exists already"));
    }
    assert_eq!(groups.list().unwrap(), ["a_1-b", "default", "web tools"]);
    groups.remove("a_1-b").unwrap();
    assert_eq!(groups.remove("a_1-b").unwrap_err().kind(), ErrorKind::NotFound);
    assert_eq!(groups.list().unwrap(), ["default", "web tools"]);
    assert_eq!(fs::read_dir(&groups.folder).unwrap().count(), 1);
}

#[test]
fn a_bad_name_is_refused_everywhere() {
    let (_root, groups) = groups();
    let long = "a".repeat(64);
    for name in ["", "Web", "a.b", "../a", "a/b", " a", "a ", "a  b", "a\tb", "\u{fc}", long.as_str()] {
        for refused in [groups.create(name).err(), groups.exists(name).err(), groups.remove(name).err()] {
            assert_eq!(refused.unwrap().kind(), ErrorKind::InvalidOption, "{name:?}");
        }
    }
}

#[test]
fn a_damaged_group_is_listed_refused_and_removable() {
    let (_root, groups) = groups();
    groups.create("web").unwrap();
    for text in ["", "{\"version\":2,\"name\":\"web\"}", "{\"version\":1,\"name\":\"other\"}"] {
        fs::write(groups.path("web"), text).unwrap();
        let error = groups.exists("web").unwrap_err();
        assert_eq!(error.kind(), ErrorKind::CorruptState);
        assert!(error.to_string().contains("web.json"), "{error}");
        assert_eq!(groups.list().unwrap(), ["default", "web"]);
    }
    groups.remove("web").unwrap();
    assert!(!groups.exists("web").unwrap());
}
