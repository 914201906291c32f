//! Parses the output of a build into steps and lines, and creates the error for a step that failed.

use crate::{Error, ErrorKind, runtime::BuildProgress};

/// Most lines that explain a failed step, and most bytes of them.
const MAX_EXCERPT_LINES: usize = 8;
const MAX_EXCERPT_BYTES: usize = 1000;
/// Longest line that is kept.
const MAX_LINE_BYTES: usize = 4096;

/// The output of a build, in lines.
pub(super) struct BuildLog {
    /// An incomplete line.
    partial: String,
    /// The current step.
    step: Option<String>,
    /// The last lines of the step's output.
    recent_lines: Vec<String>,
    /// Secrets, which must not be shown.
    secrets: Vec<String>,
}

impl BuildLog {
    pub(super) fn new<'a>(args: impl Iterator<Item = &'a String>) -> Self {
        let hidden = args.flat_map(|value| url_credentials(value)).collect();
        Self { partial: String::new(), step: None, recent_lines: Vec::new(), secrets: hidden }
    }

    /// Parses a chunk of output, which may be a part of a line or many lines.
    pub(super) fn push(&mut self, piece: &str, progress: &(dyn Fn(BuildProgress) + Send + Sync)) {
        for part in piece.split_inclusive(['\n', '\r']) {
            self.partial.push_str(part);
            if part.ends_with(['\n', '\r']) || self.partial.len() > MAX_LINE_BYTES {
                let line = std::mem::take(&mut self.partial);
                self.line(&line, progress);
            }
        }
    }

    fn line(&mut self, line: &str, progress: &(dyn Fn(BuildProgress) + Send + Sync)) {
        let mut line = strip_ansi(line).trim().to_owned();
        for hidden in &self.secrets {
            line = line.replace(hidden.as_str(), "***");
        }
        if line.is_empty() {
            return;
        }
        if let Some(step) = step(&line) {
            if let BuildProgress::Step { number, total, instruction } = &step {
                self.step = Some(format!("step {number}/{total} `{instruction}`"));
            }
            self.recent_lines.clear();
            progress(step);
            return;
        }
        // Messages of the builder itself explain nothing.
        if line.starts_with("---> ") || line.starts_with("Removing intermediate container ") {
            return;
        }
        if self.recent_lines.len() == MAX_EXCERPT_LINES {
            self.recent_lines.remove(0);
        }
        self.recent_lines.push(line.clone());
        progress(BuildProgress::Line(line));
    }

    /// Creates the error of a failed build from the message of the engine or the built-in builder.
    pub(super) fn build_error(&mut self, said: &str) -> Error {
        let rest = std::mem::take(&mut self.partial);
        self.line(&rest, &|_| {});
        let what = self.step.as_deref().unwrap_or("the build");
        let message = match exit_code(said) {
            Some(code) => format!("{what} failed with exit code {code}"),
            None => format!("{what} failed"),
        };
        let error = Error::new(ErrorKind::ImageUnavailable, message);
        let mut words = self.recent_lines.join(" | ");
        let is_untrusted = [words.as_str(), said].iter().any(|text| is_untrusted_certificate(text));
        if words.len() > MAX_EXCERPT_BYTES {
            let cut = words.len() - MAX_EXCERPT_BYTES;
            let start = (cut..words.len()).find(|at| words.is_char_boundary(*at)).unwrap_or(cut);
            words.drain(..start);
        }
        let error = match is_untrusted {
            true => error.hint(
                "if a proxy in this network replaces the certificates of servers, set `ca_cert` to a file with the \
                 certificate of its certificate authority",
            ),
            false => error,
        };
        if exit_code(said).is_none() || words.is_empty() {
            let mut said = strip_ansi(said);
            for hidden in &self.secrets {
                said = said.replace(hidden.as_str(), "***");
            }
            return error.source(said);
        }
        error.source(format!("last output: {words}"))
    }
}

/// Whether an installer says that a certificate is signed by an unknown authority: pip and uv, npm, Go, or curl.
fn is_untrusted_certificate(output: &str) -> bool {
    const SIGNS: [&str; 8] = [
        "UnknownIssuer",
        "CERTIFICATE_VERIFY_FAILED",
        "unable to get local issuer certificate",
        "SELF_SIGNED_CERT_IN_CHAIN",
        "self-signed certificate",
        "x509: certificate signed by unknown authority",
        "certificate verify failed",
        "server certificate not trusted",
    ];
    SIGNS.iter().any(|sign| output.contains(sign))
}

/// Parses `Step 3/12 : RUN …` of Docker, and `STEP 3/12: RUN …` or `[1/2] STEP 3/12: RUN …` of Podman.
fn step(line: &str) -> Option<BuildProgress> {
    let rest = match line.strip_prefix('[') {
        Some(rest) => rest.split_once("] ")?.1,
        None => line,
    };
    let rest = rest.strip_prefix("Step ").or_else(|| rest.strip_prefix("STEP "))?;
    let (count, instruction) = rest.split_once(':')?;
    let (number, total) = count.trim().split_once('/')?;
    Some(BuildProgress::Step {
        number: number.parse().ok()?,
        total: total.parse().ok()?,
        instruction: instruction.trim().to_owned(),
    })
}

/// Returns the exit code in `… returned a non-zero code: 2` of Docker and `… exit status 2` of Podman.
fn exit_code(said: &str) -> Option<i64> {
    let after = ["non-zero code: ", "exit status "].iter().find_map(|words| said.rsplit_once(words))?.1;
    let digits = after.find(|c: char| !c.is_ascii_digit()).map_or(after, |end| &after[..end]);
    digits.parse().ok()
}

/// Removes the colour codes of builders and tools.
fn strip_ansi(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('\x1b') {
        plain.push_str(&rest[..at]);
        let sequence = &rest[at + 1..];
        rest = match sequence.strip_prefix('[') {
            Some(sequence) => match sequence.find(|c: char| ('@'..='~').contains(&c)) {
                Some(end) => &sequence[end + 1..],
                None => "",
            },
            None => sequence,
        };
    }
    plain.push_str(rest);
    plain.replace(char::is_control, " ")
}

/// Returns the credentials in the value of a variable: the user and password of a URL.
fn url_credentials(value: &str) -> Vec<String> {
    let urls = value.split([',', ' ', '|']).filter_map(|url| url.split_once("://"));
    urls.filter_map(|(_, rest)| {
        let authority = rest.split(['/', '?', '#']).next()?;
        let (login, _) = authority.rsplit_once('@')?;
        (!login.is_empty()).then(|| login.to_owned())
    })
    .flat_map(|login| {
        let password = login.split_once(':').map(|(_, password)| password.to_owned());
        [Some(login), password.filter(|password| !password.is_empty())]
    })
    .flatten()
    .collect()
}

#[cfg(test)]
#[path = "build_log_tests.rs"]
mod tests;
