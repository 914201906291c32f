//! Tests the build steps that depend on the operating system: the XCFramework, the C library with the file names of
//! macOS, and the rejection of targets that this system cannot build.
//!
//! Scripts that record their arguments replace the tools of macOS.

use std::{
    env, fs,
    os::unix::fs::PermissionsExt as _,
    path::Path,
    process::{Command, Output},
};

use super::{
    packages::{bindings, files},
    programs::text,
};

/// A folder of programs that replace those of macOS and record how they are called.
struct MacOs {
    folder: tempfile::TempDir,
}

/// Records the name and the arguments of the call. The rest of the script is the replaced program's behavior.
const RECORD: &str = "#!/bin/sh\nset -eu\necho \"${0##*/} $*\" >>\"$RECORD\"\n";

impl MacOs {
    fn new() -> Self {
        let macos = Self { folder: tempfile::tempdir().unwrap() };
        fs::create_dir(macos.folder.path().join("bin")).unwrap();
        macos.program("uname", "#!/bin/sh\necho Darwin\n".to_owned());
        macos.program(
            "cargo",
            RECORD.to_owned()
                + r#"echo "for macOS $MACOSX_DEPLOYMENT_TARGET" >>"$RECORD"
                while [ "$1" != --target ]; do shift; done
                mkdir -p "$CARGO_TARGET_DIR/$2/dist"
                echo "$2" >"$CARGO_TARGET_DIR/$2/dist/libmcpm_ffi.a""#,
        );
        macos
            .program("lipo", RECORD.to_owned() + r#"[ "$1 $4" = "-create -output" ] && cat "$2" "$3" >"$5""#);
        macos.program(
            "xcodebuild",
            RECORD.to_owned()
                + r#"[ "$1 $2 $4 $6" = "-create-xcframework -library -headers -output" ]
                mkdir "$7"
                cp -R "$3" "$5" "$7""#,
        );
        macos
    }

    fn program(&self, name: &str, script: String) {
        let file = self.folder.path().join("bin").join(name);
        fs::write(&file, script).unwrap();
        fs::set_permissions(file, fs::Permissions::from_mode(0o755)).unwrap();
    }

    /// Runs a script of the bindings.
    fn run(&self, script: &str, arguments: &[&Path]) -> Output {
        let programs = self.folder.path().join("bin");
        Command::new(bindings().join(script))
            .args(arguments)
            .env("PATH", format!("{}:{}", programs.display(), env::var("PATH").unwrap()))
            .env("RECORD", self.folder.path().join("record"))
            .env("CARGO_TARGET_DIR", self.folder.path().join("target"))
            .env_remove("MACOSX_DEPLOYMENT_TARGET")
            .output()
            .unwrap()
    }

    /// The recorded calls, without the folder and the names of temporary files.
    fn record(&self) -> Vec<String> {
        let record = fs::read_to_string(self.folder.path().join("record")).unwrap();
        let folder = self.folder.path().display().to_string();
        let shortened = |word: &str| match word.strip_prefix(&folder) {
            Some(below) => below.to_owned(),
            None if word.starts_with('/') => format!("…/{}", word.rsplit('/').next().unwrap()),
            None => word.to_owned(),
        };
        record.lines().map(|line| line.split(' ').map(shortened).collect::<Vec<_>>().join(" ")).collect()
    }
}

#[test]
fn the_xcframework_contains_the_library_for_both_processors() {
    let macos = MacOs::new();
    let out = macos.folder.path().join("out");
    fs::create_dir_all(out.join("Mcpm.xcframework/old")).unwrap();
    let made = macos.run("swift/make-xcframework", &[&out]);
    assert!(made.status.success(), "{}", text(&made));
    let cargo = |target: &str| {
        format!(
            "cargo rustc --locked --profile dist --package mcpm-ffi --lib --target {target} --crate-type staticlib"
        )
    };
    let expected = [
        &cargo("aarch64-apple-darwin"),
        "for macOS 13.0",
        &cargo("x86_64-apple-darwin"),
        "for macOS 13.0",
        "lipo -create /target/aarch64-apple-darwin/dist/libmcpm_ffi.a \
         /target/x86_64-apple-darwin/dist/libmcpm_ffi.a -output …/libmcpm_ffi.a",
        "xcodebuild -create-xcframework -library …/libmcpm_ffi.a -headers …/include -output …/Mcpm.xcframework",
    ];
    assert_eq!(macos.record(), expected);
    let framework = out.join("Mcpm.xcframework");
    assert_eq!(files(&out), ["Mcpm.xcframework"]);
    assert_eq!(files(&framework), ["include", "libmcpm_ffi.a"]);
    let library = fs::read_to_string(framework.join("libmcpm_ffi.a")).unwrap();
    assert_eq!(library, "aarch64-apple-darwin\nx86_64-apple-darwin\n");
    for header in ["mcpmFFI.h", "module.modulemap"] {
        let [kept, copied] = [bindings().join("swift/Sources/mcpmFFI"), framework.join("include")]
            .map(|folder| fs::read(folder.join(header)).unwrap());
        assert!(kept == copied, "{header}");
    }
}

#[test]
fn a_failed_xcframework_replaces_nothing() {
    let macos = MacOs::new();
    macos.program("xcodebuild", "#!/bin/sh\nexit 65\n".to_owned());
    let out = macos.folder.path().join("out");
    fs::create_dir_all(out.join("Mcpm.xcframework/old")).unwrap();
    let made = macos.run("swift/make-xcframework", &[&out]);
    assert_eq!(made.status.code(), Some(65), "{}", text(&made));
    assert_eq!(files(&out.join("Mcpm.xcframework")), ["old"]);
}

#[test]
fn the_xcframework_is_made_on_macos_only() {
    let macos = MacOs::new();
    macos.program("uname", "#!/bin/sh\necho Linux\n".to_owned());
    let made = macos.run("swift/make-xcframework", &[]);
    let said = "make-xcframework: needs macOS and Xcode; on Linux, the package uses pkg-config\n";
    assert_eq!((made.status.code(), text(&made).as_str()), (Some(1), said));
}

#[test]
fn packages_are_built_only_on_the_system_of_the_target() {
    let macos = MacOs::new();
    let out = macos.folder.path().join("out");
    let build = |target: &str| {
        let made = macos.run("build", &[&out, Path::new("--target"), Path::new(target), Path::new("c")]);
        (made.status.code(), text(&made))
    };
    let rejected = |reason: &str| (Some(1), format!("packaging: {reason}\n"));
    let built_on_linux = rejected("packages for aarch64-unknown-linux-gnu are built on Linux");
    assert_eq!(build("aarch64-unknown-linux-gnu"), built_on_linux);
    macos.program("uname", "#!/bin/sh\necho Linux\n".to_owned());
    assert_eq!(
        build("aarch64-apple-darwin"),
        rejected("packages for aarch64-apple-darwin are built on macOS")
    );
    assert_eq!(
        build("riscv64gc-unknown-linux-gnu"),
        rejected("no packages are built for riscv64gc-unknown-linux-gnu")
    );
}

#[test]
fn the_c_library_is_installed_under_the_names_of_macos() {
    let macos = MacOs::new();
    let built = macos.folder.path().join("built");
    fs::create_dir(&built).unwrap();
    for library in ["libmcpm_ffi.dylib", "libmcpm_ffi.a"] {
        fs::write(built.join(library), library).unwrap();
    }
    let prefix = macos.folder.path().join("usr");
    let installed = macos.run("c/install", &[&prefix, Path::new("--from"), &built]);
    assert!(installed.status.success(), "{}", text(&installed));
    let version = env!("CARGO_PKG_VERSION");
    let abi = format!("libmcpm.{}.dylib", version.rsplit_once('.').unwrap().0);
    let library = format!("libmcpm.{version}.dylib");
    let links = [("libmcpm.dylib", &abi), (&abi, &library)];
    for (link, leads_to) in links {
        assert_eq!(fs::read_link(prefix.join("lib").join(link)).unwrap(), Path::new(leads_to));
    }
    assert_eq!(fs::read_to_string(prefix.join("lib").join(library)).unwrap(), "libmcpm_ffi.dylib");
    assert_eq!(fs::read_to_string(prefix.join("lib/libmcpm.a")).unwrap(), "libmcpm_ffi.a");
    // The same frameworks as those that Package.swift links.
    let private = fs::read_to_string(prefix.join("lib/pkgconfig/mcpm.pc")).unwrap();
    let package = fs::read_to_string(bindings().join("swift/Package.swift")).unwrap();
    for framework in ["Security", "CoreFoundation", "SystemConfiguration"] {
        assert!(private.contains(&format!("-framework {framework}")), "{private}");
        assert!(package.contains(&format!("\"{framework}\"")), "{package}");
    }
}
