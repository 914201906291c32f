//! Parses the Dockerfiles that mcpm itself writes: the instructions and forms that they use, and no others.

use std::collections::BTreeMap;

use crate::{Error, ErrorKind, Result, printable::Printable as _};

/// An instruction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Instruction {
    /// Begins a stage from an image, from an earlier stage, or from nothing (`scratch`).
    From { base: String, name: Option<String> },
    /// Copies files of the context, or of an earlier stage.
    Copy { stage: Option<String>, sources: Vec<String>, target: String },
    /// Runs a program.
    Run(Vec<String>),
    /// Sets variables of the image.
    Env(Vec<(String, String)>),
    /// Declares an argument of the build, which is a variable of the programs that are run.
    Arg(String),
    /// Sets a label of the image.
    Label(String, String),
    /// Sets the user of the programs that are run, and of the image.
    User(String),
    /// Sets the working folder of the image.
    WorkingDir(String),
    /// Sets the entry point of the image.
    Entrypoint(Vec<String>),
    /// Sets the default arguments of the image.
    Command(Vec<String>),
    /// Has no effect here: containers have no health check.
    Healthcheck,
}

/// Parses a Dockerfile; returns each instruction with its line.
///
/// # Errors
/// `Unsupported` for an instruction, or a form of it, that mcpm does not write.
pub(super) fn parse(text: &str) -> Result<Vec<(Instruction, &str)>> {
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
    lines
        .map(|line| {
            let unknown = || {
                let message = format!(
                    "the built-in runtime does not support the Dockerfile line `{}`",
                    line.printable()
                );
                Error::new(ErrorKind::Unsupported, message).hint("use a container engine")
            };
            parse_line(line).map(|instruction| (instruction, line)).ok_or_else(unknown)
        })
        .collect()
}

fn parse_line(line: &str) -> Option<Instruction> {
    let (keyword, rest) = line.split_once(' ')?;
    let rest = rest.trim();
    let words: Vec<&str> = rest.split_ascii_whitespace().collect();
    Some(match keyword {
        "FROM" => match words[..] {
            [base] => Instruction::From { base: base.to_owned(), name: None },
            [base, "AS", name] => Instruction::From { base: base.to_owned(), name: Some(name.to_owned()) },
            _ => return None,
        },
        "COPY" => {
            let stage = words.first().and_then(|word| word.strip_prefix("--from=")).map(str::to_owned);
            let (target, sources) = words.get(usize::from(stage.is_some())..)?.split_last()?;
            if sources.is_empty() {
                return None;
            }
            let sources = sources.iter().map(|source| (*source).to_owned()).collect();
            Instruction::Copy { stage, sources, target: (*target).to_owned() }
        }
        "RUN" => Instruction::Run(serde_json::from_str(rest).ok()?),
        "ENTRYPOINT" => Instruction::Entrypoint(serde_json::from_str(rest).ok()?),
        "CMD" => Instruction::Command(serde_json::from_str(rest).ok()?),
        "ENV" => {
            let pair =
                |word: &&str| word.split_once('=').map(|(name, value)| (name.to_owned(), value.to_owned()));
            Instruction::Env(words.iter().map(pair).collect::<Option<_>>()?)
        }
        "LABEL" => {
            let (name, value) = rest.split_once('=')?;
            Instruction::Label(name.to_owned(), value.trim_matches('"').to_owned())
        }
        "ARG" if words.len() == 1 => Instruction::Arg(rest.to_owned()),
        "USER" => Instruction::User(rest.to_owned()),
        "WORKDIR" => Instruction::WorkingDir(rest.to_owned()),
        "HEALTHCHECK" => Instruction::Healthcheck,
        _ => return None,
    })
}

/// Replaces `$NAME` by the value of a variable; one that is not set is empty.
pub(super) fn expand(text: &str, variables: &BTreeMap<String, String>) -> String {
    let mut expanded = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('$') {
        expanded.push_str(before);
        let end = after.find(|c: char| c != '_' && !c.is_ascii_alphanumeric()).unwrap_or(after.len());
        let (name, remaining) = after.split_at(end);
        expanded.push_str(variables.get(name).map_or("", String::as_str));
        rest = remaining;
    }
    expanded + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_form_that_is_written_is_parsed() {
        let text = "FROM a:1 AS ready\nUSER 0:0\nCOPY x.sh y.py /mcpm/\nRUN [\"/bin/sh\", \"a b\"]\n\nENV A=1 B=/x:$PATH\n\
            ARG WORD\nLABEL l=\"$WORD\"\nFROM ready\nCOPY --from=builder /app /app\nHEALTHCHECK NONE\nWORKDIR /home\n\
            ENTRYPOINT [\"/app\"]\nCMD []\n";
        let parsed: Vec<_> = parse(text).unwrap().into_iter().map(|(instruction, _)| instruction).collect();
        let words = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
        let expected = [
            Instruction::From { base: "a:1".to_owned(), name: Some("ready".to_owned()) },
            Instruction::User("0:0".to_owned()),
            Instruction::Copy { stage: None, sources: words(&["x.sh", "y.py"]), target: "/mcpm/".to_owned() },
            Instruction::Run(words(&["/bin/sh", "a b"])),
            Instruction::Env(vec![("A".to_owned(), "1".to_owned()), ("B".to_owned(), "/x:$PATH".to_owned())]),
            Instruction::Arg("WORD".to_owned()),
            Instruction::Label("l".to_owned(), "$WORD".to_owned()),
            Instruction::From { base: "ready".to_owned(), name: None },
            Instruction::Copy {
                stage: Some("builder".to_owned()),
                sources: words(&["/app"]),
                target: "/app".to_owned(),
            },
            Instruction::Healthcheck,
            Instruction::WorkingDir("/home".to_owned()),
            Instruction::Entrypoint(words(&["/app"])),
            Instruction::Command(Vec::new()),
        ];
        assert_eq!(parsed, expected);
    }

    #[test]
    fn other_forms_are_errors() {
        for text in [
            "RUN ls",
            "ADD a b",
            "FROM",
            "FROM a b c",
            "COPY a",
            "ENV A",
            "ARG A B",
            "ONBUILD RUN [\"x\"]",
            "x",
        ] {
            let error = parse(text).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Unsupported, "{text}");
            assert!(error.message().contains(&text.printable()), "{error}");
        }
    }

    #[test]
    fn variables_are_expanded() {
        let variables =
            BTreeMap::from([("A".to_owned(), "1".to_owned()), ("B_2".to_owned(), "$A".to_owned())]);
        for (text, expected) in
            [("", ""), ("a", "a"), ("$A", "1"), ("x$A/$B_2:$C.", "x1/$A:."), ("$", ""), ("$$A", "1")]
        {
            assert_eq!(expand(text, &variables), expected, "{text}");
        }
    }
}
