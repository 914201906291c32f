use std::os::unix::fs::symlink;

use super::{
    super::{accept, is_empty_folder_overlay, is_ignore_file_overlay, tests::IgnoreFixture},
    *,
};

impl IgnoreFixture {
    /// Starts a server that may write to `data`. Returns the covered paths and the notices.
    fn start(&self) -> (Vec<String>, Vec<String>) {
        self.start_with(true)
    }

    fn start_with(&self, globally: bool) -> (Vec<String>, Vec<String>) {
        let covers = self.covers(&[self.mount("data", "/d")], globally).unwrap();
        covers.prepare(&self.environment).unwrap();
        let overlays = covers.overlays.iter().filter(|overlay| !is_ignore_file_overlay(overlay));
        let shown = |overlay: &crate::runtime::Mount| {
            overlay.target.clone() + if is_empty_folder_overlay(overlay) { "/" } else { "" }
        };
        (overlays.map(shown).collect(), covers.notices)
    }

    fn rename(&self, from: &str, to: &str) {
        fs::rename(self.path(from), self.path(to)).unwrap();
    }

    fn accept(&self, folder: &str) -> Vec<PathBuf> {
        accept(&self.path(folder), &self.environment).unwrap()
    }
}

/// A user's patterns, and the files that these are meant for.
fn project() -> IgnoreFixture {
    IgnoreFixture::new(&[
        ("config/mcpmignore", "*.pem\n/keys/id\n"),
        ("data/.mcpmignore", ".env*\n!.env.example\n/config/key\nprivate/\n"),
        ("data/.env", "hush"),
        ("data/.env.example", ""),
        ("data/config/key", "hush"),
        ("data/config/plain", ""),
        ("data/private/file", "hush"),
        ("data/keys/id", "hush"),
        ("data/sub/.mcpmignore", "!.env\n/notes\n"),
        ("data/sub/.env", "let in"),
        ("data/sub/notes", "hush"),
    ])
}

const ALL: [&str; 5] = ["/d/.env", "/d/config/key", "/d/keys/id", "/d/private/", "/d/sub/notes"];

#[test]
fn a_new_ignore_file_can_only_ignore_more() {
    let home = project();
    assert_eq!(home.start(), (ALL.map(str::to_owned).to_vec(), vec![]));
    // A file that a server may put there.
    home.write("data/config/.mcpmignore", "!key\n!*.env.local\n/plain\n");
    home.write("data/private2/.mcpmignore", "*\n!.env\n!*\n");
    home.write("data/private2/.env", "hush");
    let (covered, notices) = home.start();
    let expected = [
        "/d/.env",
        "/d/config/key",
        "/d/config/plain",
        "/d/keys/id",
        "/d/private/",
        "/d/private2/.env",
        "/d/sub/notes",
    ];
    assert_eq!(covered, expected);
    let [notice] = &notices[..] else { panic!("{notices:?}") };
    assert!(notice.contains("/data/config/key` and 1 more stay ignored"), "{notice}");
    let folder = home.path("data").canonicalize().unwrap();
    assert!(notice.ends_with(&format!("run `mcpm ignore accept {}`", folder.display())), "{notice}");
    // The result is the same at each later start, and for every workload that mounts a part of the folder.
    assert_eq!(home.start().0, expected);
    let part = home.covers(&[home.mount("data/config", "/c")], true).unwrap();
    assert!(part.overlays.iter().any(|overlay| overlay.target == "/c/key"), "{part:?}");
}

#[test]
fn covered_files_stay_covered_after_a_move() {
    let home = project();
    home.start();
    home.rename("data/config", "data/sub/settings");
    home.rename("data/sub", "data/other");
    home.rename("data/keys", "data/old-keys");
    symlink("other", home.path("data/config")).unwrap();
    // A new file at the old path is not the covered one.
    home.write("data/keys/other", "");
    // `.env` was let in at another place.
    let expected = [
        "/d/.env",
        "/d/old-keys/id",
        "/d/other/.env",
        "/d/other/notes",
        "/d/other/settings/key",
        "/d/private/",
    ];
    let (covered, notices) = home.start();
    assert_eq!(covered, expected);
    assert_eq!(notices.len(), 1, "{notices:?}");
    assert_eq!(home.start().0, expected);
    // For files that only the user's own ignore file ignored, the current text of that file decides.
    assert!(!home.start_with(false).0.contains(&"/d/old-keys/id".to_owned()));
    assert_eq!(home.start().0, expected);
    home.write("config/mcpmignore", "*.pem\n");
    assert!(!home.start().0.contains(&"/d/old-keys/id".to_owned()));
}

#[test]
fn a_retargeted_symlink_uncovers_nothing() {
    let home = IgnoreFixture::new(&[
        ("data/.mcpmignore", "current\n"),
        ("data/releases/5/file", ""),
        ("data/releases/6/file", ""),
    ]);
    symlink("releases/5", home.path("data/current")).unwrap();
    assert_eq!(home.start().0, ["/d/releases/5/"]);
    fs::remove_file(home.path("data/current")).unwrap();
    symlink("releases/6", home.path("data/current")).unwrap();
    assert_eq!(home.start().0, ["/d/releases/5/", "/d/releases/6/"]);
}

#[test]
fn a_changed_or_removed_file_counts_as_it_was_until_it_is_accepted() {
    let home = project();
    home.start();
    home.write("data/.mcpmignore", ".env*\n!.env\nnew\n");
    home.write("data/new", "");
    home.write("data/sub/later/notes", "");
    fs::remove_file(home.path("data/sub/.mcpmignore")).unwrap();
    let (covered, notices) = home.start();
    let expected = [
        "/d/.env",
        "/d/.env.example",
        "/d/config/key",
        "/d/keys/id",
        "/d/new",
        "/d/private/",
        "/d/sub/notes",
    ];
    assert_eq!(covered, expected);
    assert_eq!(notices.len(), 1, "{notices:?}");
    // A new file of an old rule is covered, too.
    home.write("data/config/key2", "");
    home.rename("data/config/key2", "data/config/key");
    assert_eq!(home.start().0, expected);
    let real = |path: &str| home.path(path).canonicalize().unwrap();
    assert_eq!(home.accept("data"), [real("data/.mcpmignore"), real("data/sub").join(".mcpmignore")]);
    assert_eq!(
        home.start(),
        (["/d/.env.example", "/d/keys/id", "/d/new"].map(str::to_owned).to_vec(), vec![])
    );
    assert!(home.accept("data/sub").is_empty());
}

#[test]
fn the_first_start_takes_files_as_they_are_and_later_roots_do_not() {
    let home = project();
    let read_only = |source| crate::runtime::Mount { read_only: true, ..home.mount(source, "/r") };
    // No server can write there, so there is no baseline.
    let covers = home.covers(&[read_only("data")], true).unwrap();
    covers.prepare(&home.environment).unwrap();
    assert!(!home.path("state/ignore.json").exists());
    let error = accept(&home.path("data"), &home.environment).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound);
    // A part is written to first, then the whole is mounted.
    let covers = home.covers(&[home.mount("data/sub", "/s")], true).unwrap();
    covers.prepare(&home.environment).unwrap();
    home.write("data/sub/deep/.mcpmignore", "!.env.deep\n");
    home.write("data/sub/deep/.env.deep", "");
    let (covered, _) = home.start();
    assert!(covered.contains(&"/d/sub/deep/.env.deep".to_owned()), "{covered:?}");
    assert!(!covered.contains(&"/d/sub/.env".to_owned()), "{covered:?}");
    // A file that was moved out of the part is still recognized when the whole folder is examined.
    home.rename("data/sub/notes", "data/moved");
    home.covers(&[home.mount("data/sub", "/s")], true).unwrap().prepare(&home.environment).unwrap();
    assert!(home.start().0.contains(&"/d/moved".to_owned()));
}

#[test]
fn the_baseline_is_private_and_a_corrupt_one_stops_the_start() {
    use std::os::unix::fs::PermissionsExt as _;

    let home = project();
    home.start();
    let path = home.path("state/ignore.json");
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    for text in ["{", "{\"version\": 2}", "{\"version\": 1, \"other\": 1}"] {
        fs::write(&path, text).unwrap();
        let error = home.covers(&[home.mount("data", "/d")], true).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::CorruptState, "{text}");
    }
    let kept = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/state/samples/ignore.v1.json");
    fs::copy(kept, &path).unwrap();
    let known = Baseline::read(&home.environment).unwrap();
    assert_eq!(known.baseline_of(Path::new("/project/.mcpmignore")), BaselineText::Text(".env*\nprivate/\n"));
    assert_eq!(known.baseline_of(Path::new("/project/sub/.mcpmignore")), BaselineText::Absent);
    assert_eq!(known.baseline_of(Path::new("/projects/.mcpmignore")), BaselineText::Untracked);
}
