//! Tests `mcpm image`: images without an engine, as root and as an ordinary user.

use std::{
    fs,
    os::unix::fs::{FileTypeExt as _, MetadataExt as _, PermissionsExt as _, chown},
    path::{Path, PathBuf},
    process::Command,
};

use mcpm_tests::harness::{certificate_authority::CertificateAuthority, tls_terminator::TlsTerminator};
use serde_json::{Value, json};

use super::support::{Home, PseudoTerminal, Session, docker, testbed_variable};

const STDIO: &str = "mcpm-test/everything:1";

/// The SHA-256 digest of a file.
fn digest(path: &Path) -> String {
    let hashed = Command::new("sha256sum").arg(path).output().unwrap();
    String::from_utf8(hashed.stdout).unwrap().split(' ').next().unwrap().to_owned()
}

/// An OCI layout that is being written.
struct Layout(PathBuf);

impl Layout {
    fn new(home: &Home) -> Self {
        let layout = Self(home.path("layout"));
        fs::create_dir_all(layout.0.join("blobs/sha256")).unwrap();
        layout
    }

    /// Adds a file as a blob, and returns its description.
    fn add(&self, media_type: &str, path: &Path) -> Value {
        let (digest, size) = (digest(path), fs::metadata(path).unwrap().len());
        fs::copy(path, self.0.join("blobs/sha256").join(&digest)).unwrap();
        json!({"mediaType": media_type, "digest": format!("sha256:{digest}"), "size": size})
    }

    fn add_json(&self, media_type: &str, content: &Value) -> Value {
        let path = self.0.join("blob");
        fs::write(&path, content.to_string()).unwrap();
        self.add(media_type, &path)
    }

    /// Writes an image whose layers have these files.
    fn write(home: &Home, name: &str, layers: &[&[&str]]) -> Self {
        let layout = Self::new(home);
        let root = home.path("layer");
        let mut layer_descriptions = Vec::new();
        for files in layers {
            let _ = fs::remove_dir_all(&root);
            for file in *files {
                home.write(&format!("layer/{file}"), file);
                fs::set_permissions(root.join(file), fs::Permissions::from_mode(0o4755)).unwrap();
            }
            let archive = home.path("layer.tar");
            let made = Command::new("tar").arg("-C").arg(&root).arg("-cf").arg(&archive).arg(".").status();
            assert!(made.unwrap().success());
            layer_descriptions.push(layout.add("application/vnd.oci.image.layer.v1.tar", &archive));
        }
        let architecture = if cfg!(target_arch = "x86_64") { "amd64" } else { "arm64" };
        let ids: Vec<&Value> = layer_descriptions.iter().map(|layer| &layer["digest"]).collect();
        let config = json!({
            "architecture": architecture, "os": "linux", "created": "2026-01-02T03:04:05Z",
            "rootfs": {"type": "layers", "diff_ids": ids},
        });
        let config = layout.add_json("application/vnd.oci.image.config.v1+json", &config);
        let manifest = json!({"schemaVersion": 2, "config": config, "layers": layer_descriptions});
        let mut manifest = layout.add_json("application/vnd.oci.image.manifest.v1+json", &manifest);
        manifest["annotations"] = json!({"io.containerd.image.name": name});
        let index = json!({"schemaVersion": 2, "manifests": [manifest]});
        fs::write(layout.0.join("index.json"), index.to_string()).unwrap();
        layout
    }

    fn path(&self) -> &str {
        self.0.to_str().unwrap()
    }
}

#[test]
fn an_image_is_loaded_listed_and_removed() {
    let home = Home::without_engine();
    let empty = home.run(&["image", "list"]).succeeded();
    assert_eq!(empty.stdout, "NAME  ID  SIZE  CREATED\n");
    assert!(empty.stderr.contains("mcpm image pull IMAGE"), "{empty:?}");
    let name = "registry.example.com/team/server:1";
    let layout = Layout::write(&home, name, &[&["bin/server"]]);
    assert_eq!(home.run(&["image", "load", layout.path()]).succeeded().stdout, format!("{name}\n"));
    let listed = home.run(&["image", "ls"]).succeeded().stdout;
    let row: Vec<&str> = listed.lines().nth(1).unwrap().split_whitespace().collect();
    assert_eq!((row[0], row[2], row[3], row[4]), (name, "10", "B", "2026-01-02T03:04:05Z"));
    let shown = home.run(&["image", "list", "-o", "json"]).json();
    assert_eq!((&shown[0]["references"], shown[0]["size"].as_u64()), (&json!([name]), Some(10)));
    assert!(shown[0]["id"].as_str().unwrap().starts_with(&format!("sha256:{}", row[1])));
    let removed = home.run(&["image", "rm", name, "missing:1"]);
    assert_eq!((removed.code, removed.stdout.as_str()), (Some(4), &*format!("{name}\n")));
    assert!(removed.stderr.contains("there is no image `missing:1`"), "{removed:?}");
    // Standard input can be an archive, too.
    let archive = home.path("archive.tar.gz");
    let made = Command::new("tar").arg("-C").arg(&layout.0).arg("-czf").arg(&archive).arg(".").status();
    assert!(made.unwrap().success());
    let loaded = home.mcpm(&["image", "load"]).stdin(fs::File::open(&archive).unwrap()).output().unwrap();
    assert_eq!(String::from_utf8(loaded.stdout).unwrap(), format!("{name}\n"));
    let pruned = home.run(&["image", "prune", "--all", "-o", "json"]).json();
    assert_eq!((&pruned["references"], &pruned["images"][0]), (&json!([name]), &shown[0]["id"]));
    assert!(home.run(&["image", "prune"]).succeeded().stderr.contains("freed 0 B"));
}

/// Pushes the image of a server to the registry that its new name begins with.
fn push_server(name: &str) {
    docker(&["tag", "mcpm-test/everything:1", name]);
    docker(&["push", "--quiet", name]);
    docker(&["rmi", name]);
}

#[test]
fn an_image_is_pulled_with_a_progress_bar_on_terminals_only() {
    let home = Home::without_engine();
    // The engine only fills the registry.
    let name = format!("{}/{}:1", testbed_variable("MCPM_TEST_REGISTRY"), home.name("pulled"));
    push_server(&name);
    let pulled = home.run(&["image", "pull", &name, "--output", "json"]).succeeded();
    assert_eq!((pulled.json(), pulled.stderr.as_str()), (json!({"name": name}), ""));
    let listed = home.run(&["image", "list", "--output", "json"]).succeeded().json();
    assert_eq!(listed[0]["references"], json!([name]), "{listed}");
    let layer = Path::new(listed[0]["layers"][0].as_str().unwrap());
    assert!(layer.join("everything-server").is_file(), "{listed}");
    // Without the image, all layers are downloaded again.
    home.run(&["image", "rm", &name]).succeeded();
    let mut script = home.command("script");
    script.env("TERM", "xterm");
    let line = format!("{} image pull {name}", home.program());
    let (code, shown) = PseudoTerminal::spawn(script, &line).wait();
    assert_eq!(code, Some(0), "{shown:?}");
    assert!(shown.contains(&format!("pulling {name}")), "{shown:?}");
    // The bar is removed at the end: only the text after the last erased line stays visible.
    let stays = shown.rsplit("\u{1b}[2K").next().unwrap();
    assert!(!stays.contains("pulling") && stays.contains(&name), "{shown:?}");
    let listed = home.run(&["image", "list", "--output", "json"]).succeeded().json();
    assert_eq!(listed[0]["references"], json!([name]), "{listed}");
}

#[test]
fn a_server_runs_from_a_registry_whose_authority_is_in_a_bundle() {
    let home = Home::without_engine();
    // The engine only fills the registry.
    let (registry, repository) = (testbed_variable("MCPM_TEST_REGISTRY"), home.name("private"));
    push_server(&format!("{registry}/{repository}:1"));
    let authority = CertificateAuthority::new();
    let terminator = TlsTerminator::start(&authority, &registry);
    let image = format!("{}/{repository}:1", terminator.address());
    let name = home.name("w");
    let run = ["run", &image, "--runtime", "builtin", "--name", &name];
    let rejected = home.run(&run);
    assert_eq!(rejected.code, Some(7), "{rejected:?}");
    let url = home.run(&[&run[..], &["--mcpm-ca-bundle", &authority.certificate]].concat()).succeeded().url();
    assert!(!Session::open(&url).tools().is_empty());
    home.run(&["rm", &name]).succeeded();
}

#[test]
fn invalid_images_are_rejected() {
    let home = Home::without_engine();
    for (code, args) in [
        (2, &["image", "pull", "Not/An/Image"][..]),
        (7, &["image", "pull", "127.0.0.1:1/server:1"]),
        (7, &["image", "load", "."]),
        (1, &["image", "load", "missing.tar"]),
        (2, &["image"]),
    ] {
        let outcome = home.run(args);
        assert_eq!((outcome.code, outcome.stdout.as_str()), (Some(code), ""), "{args:?}: {outcome:?}");
    }
    let layout = Layout::write(&home, "a:1", &[&[".wh..wh..opq", "ok"], &["bad/.wh..."]]);
    let outcome = home.run(&["image", "load", layout.path()]);
    assert_eq!(outcome.code, Some(7), "{outcome:?}");
    assert!(outcome.stderr.contains("bad/.wh..."), "{outcome:?}");
}

#[test]
fn an_image_of_a_recorded_workload_stays() {
    let home = Home::without_engine();
    let recorded = mcpm_tests::root().join("tests/data/recorded/state/mcpm/workloads/notes/spec.json");
    home.write("state/mcpm/workloads/notes/spec.json", &fs::read_to_string(recorded).unwrap());
    let layout = Layout::write(&home, "registry.example.com/notes:1", &[&["server"]]);
    let name = home.run(&["image", "load", layout.path()]).succeeded().stdout;
    let refused = home.run(&["image", "rm", name.trim()]);
    assert_eq!((refused.code, refused.stdout.as_str()), (Some(5), ""));
    assert!(refused.stderr.contains("in use by a workload"), "{refused:?}");
    home.run(&["image", "prune", "--all"]).succeeded();
    assert!(home.run(&["image", "list"]).succeeded().stdout.contains(name.trim()));
    home.write("state/mcpm/workloads/notes/spec.json", "damaged");
    // It is unknown which image the workload uses.
    assert_eq!(home.run(&["image", "prune", "--all"]).code, Some(1));
    assert!(home.run(&["image", "list"]).succeeded().stdout.contains(name.trim()));
}

#[test]
fn an_image_with_a_container_stays_when_its_name_moves() {
    let home = Home::new();
    home.copy_images(&[STDIO]);
    let images = || home.run(&["image", "list", "--output", "json"]).json();
    let old = images()[0]["id"].as_str().unwrap().to_owned();
    let name = home.name("moved");
    let run = ["run", STDIO, "--runtime", "builtin", "--offline", "--name", &name];
    let url = home.run(&run).succeeded().url();
    let newer = Layout::write(&home, STDIO, &[&["server"]]);
    home.run(&["image", "load", newer.path()]).succeeded();
    home.run(&["image", "prune"]).succeeded();
    home.run(&["image", "prune", "--all"]).succeeded();
    assert_eq!(home.run(&["image", "rm", &old]).code, Some(5));
    assert!(!Session::open(&url).tools().is_empty());
    home.run(&["rm", &name]).succeeded();
    let removed = home.run(&["image", "prune"]).succeeded().stdout;
    assert!(removed.contains(&old), "{removed}");
    home.assert_nothing_left();
}

#[test]
fn ordinary_users_load_and_remove_images() {
    let home = Home::without_engine();
    let folder = home.path("home");
    if fs::metadata(&folder).unwrap().uid() == 0 {
        chown(&folder, Some(65534), Some(65534)).unwrap();
    }
    let files: [&[&str]; 2] = [&["etc/old", "bin/su"], &["etc/.wh.old", "opaque/.wh..wh..opq", "opaque/new"]];
    let layout = Layout::write(&home, "a:1", &files);
    let outcome = home.run_unprivileged(&["image", "load", layout.path()]).succeeded();
    assert_eq!(outcome.stdout, "a:1\n");
    let shown = home.run_unprivileged(&["image", "list", "-o", "json"]).json();
    let layers: Vec<&str> = shown[0]["layers"].as_array().unwrap().iter().filter_map(Value::as_str).collect();
    let found = |layer: &str, name: &str| fs::symlink_metadata(Path::new(layer).join(name)).unwrap();
    let whiteout = found(layers[1], "etc/old");
    assert!(whiteout.file_type().is_char_device() && whiteout.rdev() == 0);
    let owner = fs::metadata(&folder).unwrap().uid();
    assert_eq!(
        (found(layers[0], "bin/su").mode() & 0o7777, found(layers[0], "bin/su").uid()),
        (0o755, owner)
    );
    home.run_unprivileged(&["image", "rm", "a"]).code.filter(|code| *code == 4).unwrap();
    home.run_unprivileged(&["image", "rm", "a:1"]).succeeded();
    assert!(layers.iter().all(|layer| !Path::new(layer).exists()));
}
