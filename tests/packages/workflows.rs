//! Checks that the GitHub workflows, which no test can execute, are valid YAML, that they name actions by commit, and
//! that the jobs, scripts, features and targets that they name exist.

use std::{collections::BTreeSet, env, fs, os::unix::fs::PermissionsExt as _, process::Command};

use serde_json::Value;

use super::{TARGETS, run};

/// The workflows by their file names.
fn workflows() -> Vec<(String, Value)> {
    let folder = fs::read_dir(mcpm_tests::root().join(".github/workflows")).unwrap();
    let mut workflows = Vec::new();
    for file in folder.map(|entry| entry.unwrap().path()) {
        let name = file.file_name().unwrap().to_str().unwrap().to_owned();
        let text = fs::read_to_string(file).unwrap();
        let workflow = serde_saphyr::from_str(&text).unwrap_or_else(|error| panic!("{name}: {error}"));
        workflows.push((name, workflow));
    }
    assert!(workflows.len() >= 2, "{workflows:?}");
    workflows
}

/// The jobs of a workflow by their names.
fn jobs(workflow: &Value) -> impl Iterator<Item = (&String, &Value)> {
    workflow["jobs"].as_object().unwrap().iter()
}

/// The values of a field of the steps of a job.
fn steps<'a>(job: &'a Value, field: &'a str) -> impl Iterator<Item = &'a str> {
    // A job that calls another workflow has no steps.
    job["steps"].as_array().into_iter().flatten().filter_map(move |step| step[field].as_str())
}

/// The words of a script, without quotation marks.
fn words(script: &str) -> impl Iterator<Item = &str> {
    script.split(|c: char| c.is_whitespace() || "\"'`()=".contains(c)).filter(|word| !word.is_empty())
}

/// The values of a field in the matrix of a job, without repetition.
fn matrix<'a>(job: &'a Value, field: &str) -> BTreeSet<&'a str> {
    let included = job["strategy"]["matrix"]["include"].as_array();
    included.into_iter().flatten().filter_map(|row| row[field].as_str()).collect()
}

#[test]
fn actions_are_pinned_and_jobs_need_jobs_that_exist() {
    for (name, workflow) in workflows() {
        let names: Vec<&str> = jobs(&workflow).map(|(job, _)| job.as_str()).collect();
        for (_, job) in jobs(&workflow) {
            for action in steps(job, "uses") {
                let commit = action.split_once('@').unwrap().1;
                assert!(
                    commit.len() == 40 && commit.chars().all(|c| c.is_ascii_hexdigit()),
                    "{name}: {action}"
                );
            }
            if let Some(called) = job["uses"].as_str() {
                assert!(mcpm_tests::root().join(called).is_file(), "{name}: {called}");
            }
            let needs = match &job["needs"] {
                Value::Array(needs) => needs.iter().map(|need| need.as_str().unwrap()).collect(),
                needs => needs.as_str().into_iter().collect::<Vec<_>>(),
            };
            assert!(needs.iter().all(|need| names.contains(need)), "{name}: {needs:?}");
        }
    }
}

#[test]
fn scripts_and_features_that_workflows_name_exist() {
    let root = mcpm_tests::root();
    let cargo = env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut metadata = Command::new(cargo);
    metadata.args(["metadata", "--no-deps", "--offline", "--format-version", "1"]).current_dir(&root);
    let metadata: Value = serde_json::from_str(&run(&mut metadata)).unwrap();
    let packages = metadata["packages"].as_array().unwrap().iter();
    let features: BTreeSet<&String> =
        packages.flat_map(|package| package["features"].as_object().unwrap().keys()).collect();

    let mut scripts = BTreeSet::new();
    for (name, workflow) in workflows() {
        for script in jobs(&workflow).flat_map(|(_, job)| steps(job, "run")) {
            // A path is a script if a line begins with it, or if it leads into a folder of the repository.
            let commands = script.lines().filter_map(|line| line.split_whitespace().next());
            let commands: BTreeSet<&str> = commands.collect();
            for path in words(script).filter(|word| !word.starts_with(['/', '$'])) {
                let Some((folder, _)) = path.split_once('/') else { continue };
                // Build results do not exist yet.
                if commands.contains(path) || (folder != "target" && root.join(folder).is_dir()) {
                    let mode = fs::metadata(root.join(path)).map(|file| file.permissions().mode());
                    assert!(mode.is_ok_and(|mode| mode & 0o111 != 0), "{name}: {path}");
                    scripts.insert(path.to_owned());
                }
            }
            let mut words = words(script);
            while words.by_ref().any(|word| word == "--features") {
                for feature in words.next().unwrap().split(',') {
                    assert!(features.iter().any(|known| **known == feature), "{name}: {feature}");
                }
            }
        }
    }
    let found: Vec<&str> = scripts.iter().map(String::as_str).collect();
    for script in [".ci/run", "bindings/build", "mcpm-cli/packaging/build", "mcpm-cli/packaging/release"] {
        assert!(found.contains(&script), "{found:?}");
    }
}

#[test]
fn release_is_built_for_all_targets_that_its_scripts_know() {
    let root = mcpm_tests::root();
    let read = |path: &str| fs::read_to_string(root.join(path)).unwrap();
    let known = run(Command::new("rustc").args(["--print", "target-list"]));
    let known: BTreeSet<&str> = known.lines().collect();
    let release = workflows().into_iter().find(|(name, _)| name == "release.yml").unwrap().1;
    for (job, script) in [("build", "mcpm-cli/packaging/build"), ("bindings", "bindings/build")] {
        let (job, text) = (&release["jobs"][job], read(script));
        let targets = matrix(job, "target");
        assert!(targets.is_subset(&known), "{targets:?}");
        // The cases of the script.
        let cases =
            text.lines().filter(|line| !line.starts_with('#')).flat_map(|line| line.split([' ', ')']));
        let cases: BTreeSet<&str> = cases.filter(|word| known.contains(word)).collect();
        assert_eq!(targets, cases, "{script}");
        assert!(steps(job, "run").any(|run| run.contains(script)));
        for part in matrix(job, "parts").into_iter().flat_map(str::split_whitespace) {
            assert!(text.contains(&format!("\nbuild_{part}() {{")), "{part}");
        }
    }
    assert_eq!(matrix(&release["jobs"]["build"], "target"), TARGETS.into());
    let all = matrix(&release["jobs"]["bindings"], "parts");
    let all: BTreeSet<&str> = all.into_iter().flat_map(str::split_whitespace).collect();
    assert_eq!(all, ["c", "cli", "python", "sdist", "swift"].into());
}
