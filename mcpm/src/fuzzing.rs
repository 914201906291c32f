//! Properties that parsers of untrusted input must have: they return without a panic, and input that they accept keeps
//! its meaning when it is serialized and parsed again.
//!
//! With `--cfg fuzzing`, a fuzzer can call these functions. No test runs cargo-fuzz, which needs a nightly compiler
//! that the tests do not install. Random tests stand in for it: each test run tries sample inputs, such as those in
//! `fuzz/samples/`, some of which once made a parser fail, and random mutations of them.

#![expect(
    clippy::panic,
    clippy::expect_used,
    reason = "a property that does not hold causes a panic, which the fuzzer reports"
)]

use std::path::Path;

use bytes::BytesMut;
use http::Method;

#[cfg(all(feature = "builtin", target_os = "linux"))]
use crate::image::store;
use crate::{
    image::ImageReference,
    mcp::{
        message::{Message, replace_line_breaks, same_id},
        request_id::scan_request_id,
    },
    package::PackageReference,
    permission::Profile,
    registry, transport, workload,
};

/// A server's HTTP response, which is the same wherever it is cut in two, and which hyper reads in the same way.
pub fn answer(data: &[u8]) {
    let Some((at, text)) = data.split_first() else { return };
    let (begin, end) = text.split_at(usize::from(*at).min(text.len()));
    assert_eq!(transport::http::parse_response(&[text]), transport::http::parse_response(&[begin, end]));
    let method = if at.is_multiple_of(8) { Method::HEAD } else { Method::GET };
    assert_eq!(transport::http::disagreement(&method, text), None);
}

/// A file of variables.
pub fn env_file(data: &[u8]) {
    let Ok(text) = str::from_utf8(data) else { return };
    let Ok(variables) = workload::fuzzing::env_file(text) else { return };
    for (name, value) in &variables {
        assert!(!name.is_empty() && !name.contains(['=', '\0', '\n']), "{name:?}");
        assert!(!value.contains('\0'), "{value:?}");
    }
}

/// An ignore file, and the files that it is asked about.
pub fn ignore_file(data: &[u8]) {
    let Ok(text) = str::from_utf8(data) else { return };
    for path in ["a", ".env", "a/b.key", "deep/er/c", "[x", "a b"] {
        let _ = workload::fuzzing::ignores(text, Path::new("/project"), &Path::new("/project").join(path));
    }
}

/// The name of an image.
pub fn image(data: &[u8]) {
    let Ok(text) = str::from_utf8(data) else { return };
    let Ok(image) = ImageReference::parse(text) else { return };
    assert_eq!(image.to_string(), text);
    let name = image.familiar_name();
    let again = ImageReference::parse(&name).unwrap_or_else(|error| panic!("{name}: {error}"));
    assert!(again.same_repository(&image), "{name}");
    assert_eq!(again.familiar_name(), name);
    assert!(image.workload_name().len() <= 63);
    assert!(name.chars().all(|c| c.is_ascii_graphic()) && !name.starts_with('-'), "{name}");
}

/// A manifest or an index of an image.
#[cfg(all(feature = "builtin", target_os = "linux"))]
pub fn manifest(data: &[u8]) {
    store::fuzzing::manifest(data);
}

/// The configuration of an image.
#[cfg(all(feature = "builtin", target_os = "linux"))]
pub fn image_config(data: &[u8]) {
    store::fuzzing::config(data);
}

/// A message of a client or a server.
pub fn message(data: &[u8]) {
    let _ = scan_request_id(data);
    let Ok(message) = Message::parse(data.to_vec().into()) else { return };
    let mut line = BytesMut::from(&message.bytes()[..]);
    replace_line_breaks(&mut line);
    assert!(!line.contains(&b'\n') && !line.contains(&b'\r'), "{line:?}");
    let again = Message::parse(line.freeze()).expect("a message on one line is the same");
    assert_eq!((again.kind(), again.method()), (message.kind(), message.method()));
    assert!(message.id().is_empty() || same_id(&again.id(), &message.id()));
    assert_eq!((again.numeric_id(), again.error_code()), (message.numeric_id(), message.error_code()));
    assert_eq!(again.may_have_meta(), message.may_have_meta());
    assert_eq!(again.result().is_empty(), message.result().is_empty());
}

/// A package that is named by its scheme.
pub fn package(data: &[u8]) {
    let Ok(text) = str::from_utf8(data) else { return };
    let Some(Ok(package)) = PackageReference::parse(text) else { return };
    let written = package.to_string();
    let again = PackageReference::parse(&written).expect("it has a scheme").expect("it is a package again");
    assert_eq!(again, package);
    // These end in a build file and in arguments.
    for part in [package.name(), package.version()].into_iter().flatten() {
        assert!(!part.is_empty() && !part.starts_with('-'), "{part:?}");
        let good = |c: char| c.is_ascii_graphic() && !"\"'`$\\;&|<>(){}*?#".contains(c);
        assert!(part.chars().all(good), "{part:?}");
    }
}

/// A permission profile.
pub fn profile(data: &[u8]) {
    let Ok(text) = str::from_utf8(data) else { return };
    let Ok(profile) = Profile::from_json(text) else { return };
    let written = profile.to_json().expect("a profile can be written");
    let again = Profile::from_json(&written).unwrap_or_else(|error| panic!("{error}: {written}"));
    assert_eq!(again, profile, "{written}");
}

/// A document of a registry: `server.json`, a list of them, or ToolHive's layout.
pub fn registry(data: &[u8]) {
    let Ok(entries) = registry::fuzzing_entries(data) else { return };
    for entry in entries {
        let shown = [Some(&entry.name), Some(&entry.description), entry.title.as_ref()];
        for text in shown.into_iter().flatten() {
            assert!(!text.contains(char::is_control), "{text:?}");
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{fs, path::PathBuf};

    use super::*;

    type Target = fn(&[u8]);

    const TARGETS: &[(&str, Target, &[&str])] = &[
        ("answer", answer, &[]),
        ("env_file", env_file, &[]),
        ("ignore_file", ignore_file, &[]),
        ("image", image, &[]),
        #[cfg(all(feature = "builtin", target_os = "linux"))]
        ("image_config", image_config, &[]),
        #[cfg(all(feature = "builtin", target_os = "linux"))]
        ("manifest", manifest, &[]),
        ("message", message, &[]),
        ("package", package, &[]),
        ("profile", profile, &["src/permission/samples/valid", "src/permission/samples/invalid"]),
        ("registry", registry, &["../tests/data/valid/registry", "../tests/data/invalid/registry"]),
    ];

    fn samples(name: &str, more: &[&str]) -> Vec<Vec<u8>> {
        let root = Path::new(env!("CARGO_MANIFEST_DIR"));
        let folders =
            more.iter().map(|folder| root.join(folder)).chain([root.join("fuzz/samples").join(name)]);
        let mut files: Vec<PathBuf> = folders
            .flat_map(|folder| fs::read_dir(folder).unwrap())
            .map(|file| file.unwrap().path())
            .collect();
        files.sort();
        assert!(!files.is_empty(), "{name} has samples");
        files.iter().map(|file| fs::read(file).unwrap()).collect()
    }

    #[test]
    fn regression_samples_pass() {
        for &(name, target, more) in TARGETS {
            samples(name, more).iter().for_each(|sample| target(sample));
        }
    }

    /// Numbers that are the same in each run (xorshift64*).
    struct TestRng(u64);

    impl TestRng {
        fn below(&mut self, end: usize) -> usize {
            self.0 ^= self.0 >> 12;
            self.0 ^= self.0 << 25;
            self.0 ^= self.0 >> 27;
            let number = self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33;
            usize::try_from(number).unwrap() % end.max(1)
        }
    }

    /// Pieces of text that have a meaning to one of the parsers.
    const MUTATION_FRAGMENTS: &[&str] = &[
        "\"",
        "\\",
        "{",
        "}",
        "[",
        "]",
        ",",
        ":",
        "/",
        "//",
        "@",
        "..",
        "*",
        "**",
        "!",
        "#",
        "=",
        "\n",
        "\r\n",
        "\0",
        "\u{1b}[2J",
        "\u{feff}",
        "\u{2028}",
        "ä",
        " ",
        "-",
        "0",
        "-1",
        "1e999",
        "99999999999999999999",
        "null",
        "true",
        "\\u0000",
        "\\ud800",
        "%2f",
        "export ",
        "file:",
        "latest",
        "sha256:",
        "::1",
        "0.0.0.0/0",
        "*.",
    ];

    fn mutated(dice: &mut TestRng, samples: &[Vec<u8>]) -> Vec<u8> {
        let mut data = samples[dice.below(samples.len())].clone();
        for _ in 0..=dice.below(4) {
            let at = dice.below(data.len() + 1);
            let length = dice.below(9).min(data.len() - at);
            let other = &samples[dice.below(samples.len())];
            let from = dice.below(other.len() + 1);
            let piece: Vec<u8> = match dice.below(6) {
                0 => Vec::new(),
                1 => vec![u8::try_from(dice.below(256)).unwrap()],
                2 => other[from..(from + dice.below(40)).min(other.len())].to_vec(),
                3 => data[at..at + length].repeat(2),
                _ => MUTATION_FRAGMENTS[dice.below(MUTATION_FRAGMENTS.len())].as_bytes().to_vec(),
            };
            data.splice(at..at + length, piece);
        }
        data
    }

    /// Finds errors that random mutations find quickly; unlike a fuzzer, the test does not observe which code runs.
    #[test]
    fn mutated_samples_pass() {
        let nightly = std::env::var_os("MCPM_NIGHTLY").is_some_and(|value| !value.is_empty());
        for &(name, target, more) in TARGETS {
            // Ignore files are compiled, which takes a hundred times as long as anything else here.
            let rounds = match (nightly, name) {
                (true, "ignore_file") => 5_000,
                (true, _) => 100_000,
                (false, "ignore_file") => 500,
                (false, _) => 2_000,
            };
            let samples = samples(name, more);
            let mut dice = TestRng(0x9e37_79b9_7f4a_7c15);
            for round in 0..rounds {
                let data = mutated(&mut dice, &samples);
                let outcome = std::panic::catch_unwind(|| target(&data));
                assert!(outcome.is_ok(), "{name}, round {round}: {:?}", String::from_utf8_lossy(&data));
            }
        }
    }
}
