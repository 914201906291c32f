//! Defines the library's error type.
//!
//! An [`Error`] has a kind (stable, for programs), a message, the context of the failed operation, and a hint on
//! what to do next, if known. The CLI and the bindings map [`ErrorKind`] to exit codes and language exceptions in
//! one exhaustive match each.

use std::{borrow::Cow, error::Error as StdError, fmt, sync::Arc};

/// The kind of a failure, for programs.
///
/// The CLI and the bindings match it exhaustively, so a new kind does not compile until all of them handle it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ErrorKind {
    /// An option has an invalid value, or options contradict each other.
    InvalidOption,
    /// An option or a form of it is known but not implemented or not included in this build.
    Unsupported,
    /// No workload, group or file with that name exists.
    NotFound,
    /// A workload or group with that name exists already.
    NameTaken,
    /// The port to listen on is in use.
    PortTaken,
    /// No container engine responded, or it denied access.
    EngineUnavailable,
    /// The image is not present locally and cannot be pulled.
    ImageUnavailable,
    /// The image must be signed, and has no valid signature.
    ImageUnverified,
    /// The secret store cannot be opened: a wrong or missing password, no keyring, or a failing program.
    SecretsUnavailable,
    /// The server exited or did not respond before it was ready.
    StartFailed,
    /// A file or folder could not be read or written.
    Io,
    /// A stored file is damaged or of an unsupported version.
    CorruptState,
    /// The engine rejected an operation or sent an invalid response.
    Engine,
    /// The registry cannot be read, or its entry for a server is not usable.
    Registry,
    /// The remote server requires a login, and no user can be asked to log in.
    LoginRequired,
    /// The MCP server or an identity provider failed.
    Upstream,
    /// The operation was cancelled by its caller.
    Interrupted,
    /// A defect in mcpm.
    Internal,
}

impl ErrorKind {
    /// All kinds.
    pub const ALL: &'static [Self] = &[
        Self::InvalidOption,
        Self::Unsupported,
        Self::NotFound,
        Self::NameTaken,
        Self::PortTaken,
        Self::EngineUnavailable,
        Self::ImageUnavailable,
        Self::ImageUnverified,
        Self::SecretsUnavailable,
        Self::StartFailed,
        Self::Io,
        Self::CorruptState,
        Self::Engine,
        Self::Registry,
        Self::LoginRequired,
        Self::Upstream,
        Self::Interrupted,
        Self::Internal,
    ];

    /// Returns the stable name, as printed in JSON output.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::InvalidOption => "invalid_option",
            Self::Unsupported => "unsupported",
            Self::NotFound => "not_found",
            Self::NameTaken => "name_taken",
            Self::PortTaken => "port_taken",
            Self::EngineUnavailable => "engine_unavailable",
            Self::ImageUnavailable => "image_unavailable",
            Self::ImageUnverified => "image_unverified",
            Self::SecretsUnavailable => "secrets_unavailable",
            Self::StartFailed => "start_failed",
            Self::Io => "io",
            Self::CorruptState => "corrupt_state",
            Self::Engine => "engine",
            Self::Registry => "registry",
            Self::LoginRequired => "login_required",
            Self::Upstream => "upstream",
            Self::Interrupted => "interrupted",
            Self::Internal => "internal",
        }
    }

    /// Returns the kind with that stable name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|kind| kind.as_str() == name)
    }
}

impl fmt::Display for ErrorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// An error of the library.
///
/// [`Display`](fmt::Display) prints one line: the message, its causes and the hint. It never holds a secret.
/// Clones share the cause.
#[derive(Clone)]
pub struct Error(Box<ErrorInner>);

#[derive(Clone)]
struct ErrorInner {
    kind: ErrorKind,
    message: Cow<'static, str>,
    hint: Option<Cow<'static, str>>,
    context: Vec<(&'static str, String)>,
    source: Option<Arc<dyn StdError + Send + Sync>>,
}

/// A result of the library.
pub type Result<T, E = Error> = std::result::Result<T, E>;

impl Error {
    /// Creates an error from its kind and a message: a lower-case sentence fragment with input in backticks.
    pub fn new(kind: ErrorKind, message: impl Into<Cow<'static, str>>) -> Self {
        Self(Box::new(ErrorInner {
            kind,
            message: message.into(),
            hint: None,
            context: Vec::new(),
            source: None,
        }))
    }

    /// Sets the hint on what to do next.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<Cow<'static, str>>) -> Self {
        self.0.hint = Some(hint.into());
        self
    }

    /// Adds context, such as the name of the option or the file.
    #[must_use]
    pub fn with(mut self, key: &'static str, value: impl fmt::Display) -> Self {
        self.0.context.push((key, value.to_string()));
        self
    }

    /// Sets the cause.
    #[must_use]
    pub fn source(mut self, source: impl Into<Box<dyn StdError + Send + Sync>>) -> Self {
        self.0.source = Some(Arc::from(source.into()));
        self
    }

    /// Returns the kind.
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    /// Returns the message, without causes, context and hint.
    pub fn message(&self) -> &str {
        &self.0.message
    }

    /// Returns the hint on what to do next, if there is one.
    pub fn next_step(&self) -> Option<&str> {
        self.0.hint.as_deref()
    }

    /// Returns the context, innermost first.
    pub fn context(&self) -> impl Iterator<Item = (&'static str, &str)> {
        self.0.context.iter().map(|(key, value)| (*key, value.as_str()))
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.message)?;
        for (key, value) in &self.0.context {
            write!(f, " ({key}: {value})")?;
        }
        let mut cause = StdError::source(self);
        while let Some(error) = cause {
            let text = error.to_string();
            write!(f, ": {}", text.trim())?;
            cause = error.source();
        }
        if let Some(hint) = &self.0.hint {
            write!(f, "; {hint}")?;
        }
        Ok(())
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {self}", self.0.kind)
    }
}

impl StdError for Error {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.0.source.as_ref().map(|source| {
            let source: &(dyn StdError + 'static) = source.as_ref();
            source
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn display_is_one_line_with_cause_and_hint() {
        let error = Error::new(ErrorKind::Io, "cannot read `a.env`")
            .with("option", "env_file")
            .source(std::io::Error::other("denied"))
            .hint("check its permissions");
        assert_eq!(
            error.to_string(),
            "cannot read `a.env` (option: env_file): denied; check its permissions"
        );
    }

    #[test]
    fn every_kind_has_its_own_name() {
        for kind in ErrorKind::ALL {
            assert_eq!(ErrorKind::from_name(kind.as_str()), Some(*kind));
        }
    }
}
