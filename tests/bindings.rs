//! Programs in other languages use mcpm through what is kept below `bindings`.

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::{Command, Output},
};

fn workspace() -> PathBuf {
    PathBuf::from(env!("CARGO_TARGET_TMPDIR"))
}

fn text(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

#[test]
fn a_c_program_checks_options() {
    let root = mcpm_tests::root();
    let library = mcpm_tests::library();
    let program = workspace().join("check");
    let built = Command::new(env::var_os("CC").unwrap_or_else(|| "cc".into()))
        .args(["-std=c11", "-Wall", "-Wextra", "-Werror", "-pedantic", "-o"])
        .arg(&program)
        .arg(root.join("bindings/c/examples/check.c"))
        .arg("-I")
        .arg(root.join("bindings/c/include"))
        .arg(&library)
        .arg(format!("-Wl,-rpath,{}", Path::new(&library).parent().unwrap().display()))
        .output()
        .unwrap();
    assert!(built.status.success(), "{}", text(&built));
    let run = |arguments: &[&str]| {
        let output = Command::new(&program).args(arguments).output().unwrap();
        (output.status.code(), text(&output))
    };
    assert_eq!(run(&[]), (Some(0), "the options are fine\n".to_owned()));
    assert_eq!(
        run(&["oidc-issuer", "https://i"]),
        (Some(1), "3: `--oidc-issuer` is not supported yet\n".to_owned())
    );
    assert_eq!(run(&["port", "1"]), (Some(1), "2: `run` has no option `port`\n".to_owned()));
}

const PYTHON: &str = r#"
import datetime, mcpm
options = mcpm.WorkloadOptions(server="image", proxy_port=8080, env=[mcpm.EnvVar(name="A", value="b")],
    publish=[mcpm.PublishSpec(host_ip="::1", container_port=80, protocol=mcpm.Protocol.TCP)],
    permission_profile=mcpm.PermissionProfile.NETWORK(), remote_auth_timeout=datetime.timedelta(seconds=30))
mcpm.check_workload(options)
def refused(kind, check):
    try:
        check()
    except kind as error:
        print(error)
refused(mcpm.McpmError.Unsupported, lambda: mcpm.check_workload(
    mcpm.WorkloadOptions(server="image", remote_auth_bearer_token=mcpm.Secret("hidden"))))
refused(mcpm.McpmError.InvalidOption, lambda: mcpm.check_proxy(mcpm.ProxyOptions(server_name="s")))
refused(mcpm.McpmError.InvalidOption, lambda: mcpm.check_workload(mcpm.WorkloadOptions(
    publish=[mcpm.PublishSpec(host_ip="localhost", container_port=80, protocol=mcpm.Protocol.TCP)])))
print(mcpm.Header(name="A", value=mcpm.Secret("hidden")))
"#;

#[test]
fn a_python_program_checks_options() {
    let package = workspace().join("python/mcpm");
    let native = package.join("_native");
    fs::create_dir_all(&native).unwrap();
    let kept = mcpm_tests::root().join("bindings/python/src/mcpm");
    for folder in ["", "_native"] {
        for entry in fs::read_dir(kept.join(folder)).unwrap().map(Result::unwrap) {
            if entry.file_type().unwrap().is_file() {
                fs::copy(entry.path(), package.join(folder).join(entry.file_name())).unwrap();
            }
        }
    }
    let library = PathBuf::from(mcpm_tests::library());
    fs::copy(&library, native.join(library.file_name().unwrap())).unwrap();
    let output = Command::new("python3")
        .args(["-c", PYTHON])
        .env("PYTHONPATH", workspace().join("python"))
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", text(&output));
    let lines = "\
`--remote-auth-bearer-token` is not supported yet
`--target-uri` is required
`localhost` is no IP address: invalid IP address syntax
Header(name=A, value=Secret(..))
";
    assert_eq!(text(&output), lines);
}
