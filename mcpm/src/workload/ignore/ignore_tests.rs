use std::os::unix::fs::{PermissionsExt as _, symlink};

use super::*;

/// A folder to be mounted, and the user's settings.
pub(super) struct IgnoreFixture {
    root: tempfile::TempDir,
    pub(super) environment: Environment,
}

impl IgnoreFixture {
    /// Creates files with their contents; a path that ends with `/` is a folder.
    pub(super) fn new(files: &[(&str, &str)]) -> Self {
        let root = tempfile::tempdir().unwrap();
        let mut environment = Environment::from_lookup(|_| None);
        environment.state_dir = root.path().join("state");
        environment.config_dir = root.path().join("config");
        let home = Self { root, environment };
        fs::create_dir_all(home.path("data")).unwrap();
        files.iter().for_each(|(path, text)| home.write(path, text));
        home
    }

    pub(super) fn path(&self, below: &str) -> PathBuf {
        self.root.path().join(below)
    }

    pub(super) fn write(&self, below: &str, text: &str) {
        let path = self.path(below);
        if below.ends_with('/') {
            return fs::create_dir_all(path).unwrap();
        }
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    pub(super) fn mount(&self, source: &str, target: &str) -> Mount {
        Mount { source: self.path(source), target: target.to_owned(), read_only: false, relabel: None }
    }

    pub(super) fn covers(&self, mounts: &[Mount], globally: bool) -> Result<Overlays> {
        compute_overlays(mounts, globally, &self.environment)
    }

    /// The paths that are covered when `data` is mounted at `/d`; folders end with a slash.
    fn covered(&self) -> Result<Vec<String>> {
        self.covered_in(&[self.mount("data", "/d")])
    }

    fn covered_in(&self, mounts: &[Mount]) -> Result<Vec<String>> {
        let overlays = self.covers(mounts, true)?.overlays;
        assert!(overlays.iter().all(|overlay| overlay.read_only));
        let overlays = overlays.into_iter().filter(|overlay| !is_ignore_file_overlay(overlay));
        let shown = |overlay: Mount| {
            overlay.target.clone() + if is_empty_folder_overlay(&overlay) { "/" } else { "" }
        };
        Ok(overlays.map(shown).collect())
    }
}

#[test]
fn patterns_mean_what_they_mean_to_git() {
    let home = IgnoreFixture::new(&[
        ("data/.mcpmignore", "# keys\n*.key\n!public.key\n/top\nbuild/\ndeep/**/x\n\\#hash\n\n"),
        ("data/a.key", ""),
        ("data/public.key", ""),
        ("data/sub/b.key", ""),
        ("data/top", ""),
        ("data/sub/top", ""),
        ("data/build/out/c.key", ""),
        ("data/sub/build", "a file"),
        ("data/deep/1/2/x", ""),
        ("data/#hash", ""),
        ("data/.key/inside", ""),
        ("data/plain", ""),
    ]);
    let expected =
        ["/d/#hash", "/d/.key/", "/d/a.key", "/d/build/", "/d/deep/1/2/x", "/d/sub/b.key", "/d/top"];
    assert_eq!(home.covered().unwrap(), expected);
}

#[test]
fn inner_files_go_before_outer_ones_and_the_global_one_stays_in_force() {
    let home = IgnoreFixture::new(&[
        ("config/mcpmignore", "*.env\n*.log\n"),
        ("data/.mcpmignore", "!a.env\n/sub/secret\n"),
        ("data/a.env", ""),
        ("data/b.env", ""),
        ("data/sub/.mcpmignore", "a.env\n!c.env\n!secret\n/only-here\n"),
        ("data/sub/a.env", ""),
        ("data/sub/c.env", ""),
        ("data/sub/secret", ""),
        ("data/sub/only-here", ""),
        ("data/sub/sub/only-here", ""),
        ("data/x.log", ""),
        // Below an ignored folder, nothing can be re-included.
        ("data/y.log/.mcpmignore", "!inside\n"),
        ("data/y.log/inside", ""),
    ]);
    let expected =
        ["/d/a.env", "/d/b.env", "/d/sub/a.env", "/d/sub/c.env", "/d/sub/only-here", "/d/x.log", "/d/y.log/"];
    assert_eq!(home.covered().unwrap(), expected);
    let mounts = [home.mount("data", "/d")];
    let mut local = home.covers(&mounts, false).unwrap().overlays;
    local.retain(|overlay| !is_ignore_file_overlay(overlay));
    assert_eq!(local.len(), 2, "{local:?}");
}

#[test]
fn an_ignore_file_that_could_be_written_is_mounted_over_itself() {
    let home = IgnoreFixture::new(&[
        ("data/.mcpmignore", "hidden/\n"),
        ("data/sub/.mcpmignore", ""),
        ("data/hidden/.mcpmignore", ""),
        ("safe/.mcpmignore", ""),
    ]);
    let read_only = |source: &str| Mount { read_only: true, ..home.mount(source, "/r") };
    let mounts = [home.mount("data", "/d"), read_only("safe")];
    let found = home.covers(&mounts, true).unwrap().overlays;
    let itself: Vec<_> = found.iter().filter(|overlay| is_ignore_file_overlay(overlay)).collect();
    assert!(itself.iter().all(|overlay| overlay.read_only), "{itself:?}");
    let places: Vec<_> =
        itself.iter().map(|overlay| (overlay.source.clone(), overlay.target.as_str())).collect();
    let real = |path: &str| home.path(path).canonicalize().unwrap();
    assert_eq!(
        places,
        [(real("data/.mcpmignore"), "/d/.mcpmignore"), (real("data/sub/.mcpmignore"), "/d/sub/.mcpmignore")]
    );
    // A link could be replaced, whatever it leads to.
    fs::remove_file(home.path("safe/.mcpmignore")).unwrap();
    symlink("../data/.mcpmignore", home.path("safe/.mcpmignore")).unwrap();
    assert_eq!(home.covers(&[read_only("safe")], true).unwrap().overlays, []);
    let error = home.covers(&[home.mount("safe", "/d")], true).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidOption);
    assert!(error.message().contains("is a link"), "{error}");
}

#[test]
fn what_an_ignored_link_leads_to_is_covered() {
    let home = IgnoreFixture::new(&[
        ("data/.mcpmignore", "current\nkeys/\nnowhere\nloop\nself\noutside\n"),
        ("data/releases/5/file", ""),
        ("data/real/key", ""),
        ("data/plain", ""),
        ("elsewhere/file", ""),
    ]);
    symlink("releases/5", home.path("data/current")).unwrap();
    symlink("real", home.path("data/keys")).unwrap();
    symlink("no/such", home.path("data/nowhere")).unwrap();
    symlink("loop", home.path("data/loop")).unwrap();
    symlink(".", home.path("data/self")).unwrap();
    symlink("../elsewhere", home.path("data/outside")).unwrap();
    symlink("plain", home.path("data/other")).unwrap();
    assert_eq!(home.covered().unwrap(), ["/d/real/", "/d/releases/5/"]);
    let both = [home.mount("data", "/d"), home.mount("elsewhere", "/e"), home.mount(".", "/all")];
    let covered = home.covered_in(&both).unwrap();
    assert_eq!(
        covered,
        ["/all/data/real/", "/all/data/releases/5/", "/all/elsewhere/", "/d/real/", "/d/releases/5/"]
    );
}

#[test]
fn a_folder_that_is_mounted_twice_is_covered_twice() {
    let home = IgnoreFixture::new(&[
        ("data/.mcpmignore", "secret\nhidden/\n"),
        ("data/sub/secret", ""),
        ("data/hidden/x", ""),
    ]);
    symlink("data", home.path("link")).unwrap();
    let mounts = [home.mount("data", "/d"), home.mount("data/sub", "/s/"), home.mount("link", "/l")];
    assert_eq!(
        home.covered_in(&mounts).unwrap(),
        ["/d/hidden/", "/d/sub/secret", "/l/hidden/", "/l/sub/secret", "/s/secret"]
    );
    // A path that is mounted explicitly stays visible at the target of that mount.
    let mounts =
        [home.mount("data", "/d"), home.mount("data/hidden", "/h"), home.mount("data/sub/secret", "/f")];
    assert_eq!(home.covered_in(&mounts).unwrap(), ["/d/hidden/", "/d/sub/secret"]);
}

#[test]
fn nested_volumes_are_distinguished() {
    let home = IgnoreFixture::new(&[
        ("data/.mcpmignore", "secret\nhidden/\n"),
        ("data/sub/secret", ""),
        ("data/hidden/x", ""),
        ("other/secret", ""),
    ]);
    let mounts = [home.mount("data", "/d"), home.mount("other", "/d/sub")];
    assert_eq!(home.covered_in(&mounts).unwrap(), ["/d/hidden/"]);
    let mounts = [home.mount("data", "/d"), home.mount("other", "/d/hidden")];
    assert_eq!(home.covered_in(&mounts).unwrap(), ["/d/sub/secret"]);
    let mounts = [home.mount("data", "/d"), home.mount("other", "/d/hidden/x")];
    let error = home.covered_in(&mounts).unwrap_err();
    assert_eq!(error.message(), "`/d/hidden/x` is mounted below `/d/hidden`, which is ignored");
}

#[test]
fn invalid_patterns_stop_the_start() {
    for (file, text) in [
        ("data/.mcpmignore", "ok\nbroken[\n"),
        ("data/sub/.mcpmignore", "a{b\n"),
        ("config/mcpmignore", "[z-a]\n"),
    ] {
        let home = IgnoreFixture::new(&[(file, text)]);
        let error = home.covered().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidOption, "{file}: {error}");
        assert!(error.message().contains(file) && error.message().starts_with("line "), "{error}");
    }
    for make in [
        |path: &Path| fs::create_dir(path),
        |path: &Path| fs::write(path, b"\xff\xfe"),
        |path: &Path| symlink("no-such", path),
        |path: &Path| fs::write(path, "a\n".repeat(1 << 20)),
    ] {
        for file in ["data/.mcpmignore", "config/mcpmignore"] {
            let home = IgnoreFixture::new(&[("config/", "")]);
            make(&home.path(file)).unwrap();
            assert_eq!(home.covered().unwrap_err().kind(), ErrorKind::Io, "{file}");
        }
    }
}

#[test]
fn too_many_and_unwritable_names_are_refused() {
    let home = IgnoreFixture::new(&[("data/.mcpmignore", "*.tmp\n")]);
    for number in 0..=MAX_OVERLAYS {
        home.write(&format!("data/{number}.tmp"), "");
    }
    let error = home.covered().unwrap_err();
    assert!(error.message().contains("need 502 mounts"), "{error}");
    let home = IgnoreFixture::new(&[("data/.mcpmignore", "*.tmp\n")]);
    let name = std::os::unix::ffi::OsStrExt::as_bytes(home.path("data/").as_os_str()).to_vec();
    let name = [&name[..], b"\xff.tmp"].concat();
    fs::write(Path::new(<std::ffi::OsStr as std::os::unix::ffi::OsStrExt>::from_bytes(&name)), "").unwrap();
    assert!(home.covered().unwrap_err().message().ends_with("its name is not UTF-8"));
}

#[test]
fn nothing_is_covered_without_patterns_or_folders() {
    let home = IgnoreFixture::new(&[("data/a", ""), ("one.env", ""), ("config/mcpmignore", "")]);
    assert_eq!(home.covered().unwrap(), [""; 0]);
    home.write("config/mcpmignore", "*.env\n");
    assert_eq!(home.covered_in(&[home.mount("one.env", "/one.env")]).unwrap(), [""; 0]);
    // Files that mcpm itself mounts may not exist until the start.
    home.write("link/shim.env", "");
    let own = [home.mount("link", MOUNT_POINT), home.mount("absent", MOUNT_POINT)];
    assert_eq!(home.covered_in(&own).unwrap(), [""; 0]);
}

#[test]
fn overlay_sources_must_be_empty() {
    let home = IgnoreFixture::new(&[]);
    prepare(&home.environment).unwrap();
    prepare(&home.environment).unwrap();
    let EmptySources { folder, file } = EmptySources::below_state_dir(&home.environment);
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode(&folder), mode(&file)), (0o555, 0o444));
    fs::set_permissions(&file, fs::Permissions::from_mode(0o644)).unwrap();
    fs::write(&file, "x").unwrap();
    assert_eq!(prepare(&home.environment).unwrap_err().kind(), ErrorKind::CorruptState);
}
