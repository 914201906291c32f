//! Builds the packages for Linux, installs them in a bare Debian with the commands in the README, and runs the image of
//! mcpm. Packages for arm64 are only built and inspected.

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::Command,
};

use serde_json::Value;

use mcpm_tests::harness::testbed;

use super::{FileServer, TARGETS, packaging, run};

/// The beginning of the URLs in the README.
const RELEASES: &str = "https://github.com/OWNER/mcpm/releases/latest/download";
const VERSION: &str = concat!("mcpm ", env!("CARGO_PKG_VERSION"), "\n");
/// Mounts a copy of the root file system for one script, and discards its changes afterwards.
const IN_ROOT: &str = r#"
root=$1 work=$2
mount -t tmpfs tmpfs "$work"
mkdir "$work/upper" "$work/work" "$work/root"
mount -t overlay -o "lowerdir=$root,upperdir=$work/upper,workdir=$work/work" overlay "$work/root"
mount -t proc proc "$work/root/proc"
set -- "MCPM_RELEASE_URL=$3" sh -euc "$4"
exec chroot "$work/root" env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root "$@"
"#;

/// The target of the packages that run on this machine.
fn target() -> String {
    format!("{}-unknown-linux-musl", env::consts::ARCH)
}

/// The architecture of this machine in the terms of Debian and of container engines.
fn architecture() -> &'static str {
    if cfg!(target_arch = "aarch64") { "arm64" } else { "amd64" }
}

/// Builds the packages for this machine, and returns their folder and their files.
pub(super) fn build() -> (PathBuf, Vec<PathBuf>) {
    build_for(&target())
}

/// Builds the packages for a target, and returns their folder and their files.
fn build_for(target: &str) -> (PathBuf, Vec<PathBuf>) {
    let mut command = Command::new(packaging().join("build"));
    // With the environment variables for lints, cargo would compile the program with other settings than a release.
    mcpm_tests::without_package_variables(&mut command);
    for name in ["RUSTC_WORKSPACE_WRAPPER", "CLIPPY_ARGS", "RUSTFLAGS"] {
        command.env_remove(name);
    }
    let zig = testbed::path("MCPM_TESTBED").join("zig/bin");
    command.env("PATH", format!("{}:{}", zig.display(), env::var("PATH").unwrap()));
    let printed = run(command.args([target, "quick"]));
    let files: Vec<PathBuf> = printed.lines().map(PathBuf::from).filter(|path| path.is_absolute()).collect();
    (files[0].parent().unwrap().to_owned(), files)
}

/// Runs a script in the bare root file system, and returns its standard output.
#[track_caller]
fn in_root(server: &FileServer, script: &str) -> String {
    let work = tempfile::tempdir().unwrap();
    let mut command = Command::new("unshare");
    command.args(["--mount", "--propagation", "private", "sh", "-euc", IN_ROOT, "sh"]);
    run(command.arg(testbed::path("MCPM_TEST_DEBIAN_ROOT")).arg(work.path()).arg(&server.url).arg(script))
}

/// The lines of the README that download a file of the release, changed for this machine, this server and this root.
fn readme_lines(file: &str, server: &FileServer) -> Vec<String> {
    let readme = fs::read_to_string(mcpm_tests::root().join("README.md")).unwrap();
    let mut blocks = readme.split("\n```").skip(1).step_by(2);
    let block = blocks.find(|block| block.contains(&format!("{RELEASES}/{file}"))).unwrap();
    let block = block.replace(RELEASES, &server.url).replace("sudo ", "").replace("amd64", architecture());
    block.lines().skip(1).map(str::to_owned).collect()
}

fn checksums_match(folder: &Path, files: &[PathBuf]) {
    for file in files {
        let sums = format!("{}.sha256", file.display());
        run(Command::new("sha256sum").current_dir(folder).args(["--check", "--strict", &sums]));
    }
}

fn sbom_lists_what_is_linked(folder: &Path, target: &str) {
    let text = fs::read_to_string(folder.join(format!("mcpm-{target}.cdx.json"))).unwrap();
    let sbom: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(sbom["bomFormat"], "CycloneDX");
    assert_eq!(sbom["metadata"]["component"]["version"], env!("CARGO_PKG_VERSION"));
    let components = sbom["components"].as_array().unwrap();
    let has = |name: &str| components.iter().any(|component| component["name"] == name);
    assert!(["mcpm", "rustls", "cedar-policy", "tokio"].into_iter().all(has), "{text}");
    // Packages that only tests use, or only macOS.
    assert!(!["proptest", "tokio-test", "security-framework"].into_iter().any(has), "{text}");
    assert!(!text.contains(mcpm_tests::root().to_str().unwrap()), "{text}");
}

/// The program in the archive for a target.
fn archived_program(folder: &Path, target: &str) -> Vec<u8> {
    let unpacked = tempfile::tempdir().unwrap();
    let archive = folder.join(format!("mcpm-{target}.tar.gz"));
    run(Command::new("tar").arg("-xzf").arg(archive).arg("-C").arg(unpacked.path()));
    fs::read(unpacked.path().join(format!("mcpm-{target}/bin/mcpm"))).unwrap()
}

fn program_does_not_name_the_machine_that_built_it(folder: &Path) {
    let program = archived_program(folder, &target());
    let root = mcpm_tests::root().display().to_string();
    assert!(!program.windows(root.len()).any(|part| part == root.as_bytes()));
}

fn installer_gives_a_working_program(server: &FileServer) {
    let lines = readme_lines("install.sh", server);
    let [install, start] = &lines[..] else { panic!("{lines:?}") };
    let program = start.split(' ').next().unwrap();
    let said = in_root(server, &format!("{install}\n{program} --version\n{program} list"));
    assert!(said.contains(&format!("is not in PATH\n{VERSION}")), "{said}");
}

fn debian_package_gives_a_working_program(server: &FileServer) {
    let lines = readme_lines("mcpm_amd64.deb", server).join("\n");
    let script = format!(
        "cd /root
        {lines}
        echo checked:
        mcpm --version
        dpkg --verify mcpm
        dpkg-query --show --showformat '${{Package}} ${{Version}} ${{Architecture}} ${{Status}}\n' mcpm
        for page in mcpm mcpm-run mcpm-proxy-stdio; do
          gzip -dc /usr/share/man/man1/$page.1.gz | grep -q '^.TH'
        done
        bash -c '. /usr/share/bash-completion/completions/mcpm && complete -p mcpm' | grep -q -- '-F _clap_complete_mcpm'
        grep -q '#compdef mcpm' /usr/share/zsh/vendor-completions/_mcpm
        grep -q 'complete --keep-order --exclusive --command mcpm' /usr/share/fish/vendor_completions.d/mcpm.fish
        grep -q 'Apache License' /usr/share/doc/mcpm/copyright
        dpkg --remove mcpm >/dev/null
        find / -xdev -name '*mcpm*' -not -path '/root/*' -not -path '/proc/*' -not -path '/var/cache/*'
        "
    );
    let said = in_root(server, &script);
    let version = env!("CARGO_PKG_VERSION");
    let expected = format!("{VERSION}mcpm {version}-1 {} install ok installed\n", architecture());
    assert_eq!(said.split_once("checked:\n").unwrap().1, expected);
}

fn image_contains_a_working_program(folder: &Path) {
    let tag = format!("mcpm-test/mcpm:{}", std::process::id());
    let architecture = format!("TARGETARCH={}", architecture());
    let mut build = Command::new(packaging().join("image"));
    run(build.arg(folder).args(["--quiet", "--build-arg", &architecture, "--tag", &tag]));
    let socket = "/var/run/docker.sock";
    let group = run(Command::new("stat").args(["--dereference", "--format", "%g", socket]));
    let mount = format!("{socket}:{socket}");
    let docker = |arguments: &[&str]| Command::new("docker").args(arguments).output().unwrap();
    let version = docker(&["run", "--rm", &tag, "--version"]);
    let with_engine = ["run", "--rm", "--group-add", group.trim(), "--volume", &mount, &tag];
    let plan = docker(&[&with_engine[..], &["run", "--plan", "mcpm-test/everything:1"]].concat());
    docker(&["image", "rm", "--force", &tag]);
    assert_eq!(String::from_utf8(version.stdout).unwrap(), VERSION);
    assert!(String::from_utf8_lossy(&plan.stdout).contains("\nengine        docker "), "{plan:?}");
}

#[test]
#[ignore = "nightly: compiles the program of the packages"]
fn packages_give_a_working_program_on_a_bare_debian() {
    let (folder, files) = build();
    let names: Vec<_> = files.iter().map(|file| file.file_name().unwrap().to_str().unwrap()).collect();
    let (archive, deb) = (format!("mcpm-{}.tar.gz", target()), format!("mcpm_{}.deb", architecture()));
    assert_eq!(names, [&archive, &deb, &format!("mcpm-{}.cdx.json", target())]);
    checksums_match(&folder, &files);
    sbom_lists_what_is_linked(&folder, &target());
    program_does_not_name_the_machine_that_built_it(&folder);

    // A release has archives for all targets. The archives of other targets are not used here.
    let served = tempfile::tempdir().unwrap();
    for target in TARGETS {
        fs::write(served.path().join(format!("mcpm-{target}.tar.gz")), "").unwrap();
    }
    for name in [archive.clone(), archive + ".sha256", deb] {
        fs::copy(folder.join(&name), served.path().join(&name)).unwrap();
    }
    run(Command::new(packaging().join("release")).arg(served.path()).arg("https://git.example/owner/mcpm"));
    let server = FileServer::start(served.path());
    installer_gives_a_working_program(&server);
    debian_package_gives_a_working_program(&server);
    image_contains_a_working_program(&folder);
}

#[test]
#[ignore = "nightly: compiles the program for arm64"]
fn packages_for_arm64_contain_a_program_for_arm64() {
    let target = "aarch64-unknown-linux-musl";
    let (folder, files) = build_for(target);
    let names: Vec<_> = files.iter().map(|file| file.file_name().unwrap().to_str().unwrap()).collect();
    let (archive, sbom) = (format!("mcpm-{target}.tar.gz"), format!("mcpm-{target}.cdx.json"));
    assert_eq!(names, [archive.as_str(), "mcpm_arm64.deb", sbom.as_str()]);
    checksums_match(&folder, &files);
    sbom_lists_what_is_linked(&folder, target);
    let program = archived_program(&folder, target);
    // The field e_machine of the ELF header: EM_AARCH64.
    assert_eq!(program[18..20], 183_u16.to_le_bytes());

    let deb = folder.join("mcpm_arm64.deb");
    let field = run(Command::new("dpkg-deb").arg("--field").arg(&deb).arg("Architecture"));
    assert_eq!(field, "arm64\n");
    let unpacked = tempfile::tempdir().unwrap();
    run(Command::new("dpkg-deb").arg("--extract").arg(&deb).arg(unpacked.path()));
    assert!(fs::read(unpacked.path().join("usr/bin/mcpm")).unwrap() == program, "not the archived program");
}
