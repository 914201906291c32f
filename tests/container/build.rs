//! Tests image builds: their events, results and errors.

use std::{collections::BTreeMap, process::Command, sync::Mutex};

use mcpm::{
    ErrorKind,
    image::ImageReference,
    runtime::{BuildProgress, BuildRequest},
};

use super::support::{Engine, docker, unique};

/// A build context with a file beside its Dockerfile.
fn context(dockerfile: &str) -> Vec<u8> {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("Dockerfile"), dockerfile).unwrap();
    std::fs::write(folder.path().join("word"), "from the context\n").unwrap();
    let output =
        Command::new("tar").arg("-C").arg(folder.path()).args(["-c", "Dockerfile", "word"]).output().unwrap();
    assert!(output.status.success());
    output.stdout
}

fn request(dockerfile: &str) -> BuildRequest {
    BuildRequest { context: context(dockerfile).into(), ..BuildRequest::default() }
}

pub(crate) async fn a_build_tells_its_steps_and_gives_an_image_with_labels(engine: &Engine) {
    let tag = format!("localhost/{}:1", unique("built"));
    let dockerfile = "FROM mcpm-rt/shell:1\nARG WORD\nCOPY word /word\n\
                      RUN [\"/busybox\", \"sh\", \"-c\", \"echo said $WORD; /busybox cat /word >&2\"]\n";
    let request = BuildRequest {
        tag: Some(tag.clone()),
        args: BTreeMap::from([("WORD".to_owned(), unique("by an argument"))]),
        labels: BTreeMap::from([("mcpm-package-test".to_owned(), "a $b \"c\"".to_owned())]),
        ..request(dockerfile)
    };
    let word = request.args["WORD"].clone();
    let told = Mutex::new(Vec::new());
    let id = engine.build(request, &|progress| told.lock().unwrap().push(progress)).await.unwrap();
    let image = engine.image(&ImageReference::parse(&tag).unwrap()).await.unwrap().unwrap();
    if !engine.is_builtin() {
        docker(&["rmi", &tag]);
    }
    assert!(image.id.trim_start_matches("sha256:").starts_with(id.trim_start_matches("sha256:")), "{id}");
    assert_eq!(image.labels["mcpm-package-test"], "a $b \"c\"");
    let told = told.into_inner().unwrap();
    let steps = told.iter().filter_map(|progress| match progress {
        BuildProgress::Step { number, instruction, .. } => Some((*number, instruction.split(' ').next()?)),
        BuildProgress::Line(_) => None,
    });
    let steps: Vec<_> = steps.take(4).collect();
    assert_eq!(steps, [(1, "FROM"), (2, "ARG"), (3, "COPY"), (4, "RUN")]);
    for line in [format!("said {word}"), "from the context".to_owned()] {
        assert!(told.contains(&BuildProgress::Line(line.clone())), "{line}: {told:?}");
    }
}

pub(crate) async fn a_failed_step_is_named_with_its_exit_code_and_its_last_words(engine: &Engine) {
    let script = "echo what is wrong >&2; exit 7";
    let dockerfile = format!("FROM mcpm-rt/shell:1\nRUN [\"/busybox\", \"sh\", \"-c\", \"{script}\"]\n");
    let error = engine.build(request(&dockerfile), &|_| {}).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ImageUnavailable);
    let text = error.to_string();
    assert!(text.starts_with("step 2/2 `RUN "), "{text}");
    assert!(text.contains("failed with exit code 7: last output: what is wrong"), "{text}");
}

pub(crate) async fn a_dockerfile_that_is_none_is_refused_in_the_engines_words(engine: &Engine) {
    let error = engine.build(request("FROM mcpm-rt/shell:1\nNONSENSE\n"), &|_| {}).await.unwrap_err();
    assert!(error.to_string().to_ascii_lowercase().contains("nonsense"), "{error}");
}
