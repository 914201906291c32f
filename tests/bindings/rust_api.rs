//! Compares the public API of the crate `mcpm` with the snapshot in the repository.

use std::{collections::BTreeSet, env, fs, process::Command};

#[test]
#[ignore = "nightly: documenting the library takes minutes"]
fn the_rust_api_is_the_kept_one() {
    let root = mcpm_tests::root();
    let target = root.join("target/api");
    let mut cargo = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    mcpm_tests::without_package_variables(&mut cargo)
        .args(["rustdoc", "--quiet", "--package", "mcpm", "--all-features", "--lib", "--target-dir"])
        .arg(&target)
        .args(["--", "-Z", "unstable-options", "--output-format", "json"])
        // Only nightly rustdoc writes JSON, unless this variable is set.
        .env("RUSTC_BOOTSTRAP", "mcpm")
        .env_remove("RUSTC_WORKSPACE_WRAPPER")
        .env_remove("RUSTFLAGS")
        .current_dir(&root);
    let documented = cargo.output().unwrap();
    assert!(documented.status.success(), "{}", String::from_utf8_lossy(&documented.stderr));
    let api = public_api::Builder::from_rustdoc_json(target.join("doc/mcpm.json"))
        .omit_blanket_impls(true)
        .omit_auto_trait_impls(true)
        .omit_auto_derived_impls(true)
        .build()
        .unwrap()
        .to_string();
    let path = root.join("mcpm/api.txt");
    if env::var_os("MCPM_UPDATE").is_some() {
        return fs::write(path, api).unwrap();
    }
    let kept = fs::read_to_string(path).unwrap();
    let [kept, api] = [&kept, &api].map(|api| api.lines().collect::<BTreeSet<_>>());
    let (removed, added): (Vec<_>, Vec<_>) =
        (kept.difference(&api).collect(), api.difference(&kept).collect());
    assert!(
        removed.is_empty() && added.is_empty(),
        "other than in `mcpm/api.txt`, which MCPM_UPDATE=1 rewrites:\nremoved: {removed:#?}\nadded: {added:#?}"
    );
}
