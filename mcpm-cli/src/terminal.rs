//! Prompts on the terminal, without echo for secrets.

use std::{
    fs::{File, OpenOptions},
    io::{self, BufRead as _, BufReader, Read as _, Write as _},
};

use async_trait::async_trait;
use mcpm::{
    Environment, Error, ErrorKind, Result,
    options::Secret,
    user_prompt::{LoginPrompt, UserPrompt},
};
use rustix::termios::{LocalModes, OptionalActions, SpecialCodeIndex, Termios, tcgetattr, tcsetattr};
use zeroize::Zeroizing;

use crate::browser;

/// Maximum length of a line in bytes.
const MAX_LINE_BYTES: usize = 64 * 1024;

/// The environment of a command that may prompt.
pub(crate) fn environment() -> Environment {
    let mut environment = Environment::from_process();
    environment.user_prompt = Some(std::sync::Arc::new(Terminal));
    environment
}

/// Prompts on the controlling terminal, whatever the standard streams are.
#[derive(Debug)]
struct Terminal;

#[async_trait]
impl UserPrompt for Terminal {
    async fn ask_secret(&self, question: &str) -> Result<Option<Secret>> {
        let question = question.to_owned();
        let lost = |error| Error::new(ErrorKind::Internal, "cannot read the input").source(error);
        tokio::task::spawn_blocking(move || prompt_hidden(&question)).await.map_err(lost)?
    }

    async fn ask_text(&self, question: &str) -> Result<Option<String>> {
        let question = question.to_owned();
        let lost = |error| Error::new(ErrorKind::Internal, "cannot read the input").source(error);
        tokio::task::spawn_blocking(move || prompt_visible(&question)).await.map_err(lost)?
    }

    async fn show_login(&self, login: &LoginPrompt) -> Result<()> {
        let opened = login.open_browser && browser::open(&login.url);
        let how = match opened {
            true => "the browser opens this page; if it does not, open it yourself",
            false => "open this page in a browser",
        };
        let within = login.timeout.as_secs();
        // Standard error may be closed; then the browser is what is left.
        let _ =
            writeln!(io::stderr(), "Log in to {} within {within} s: {how}\n  {}", login.server, login.url);
        Ok(())
    }
}

/// Prompts for a line with echo; `None` without a terminal.
fn prompt_visible(question: &str) -> Result<Option<String>> {
    let cannot = |error: io::Error| Error::new(ErrorKind::Io, "cannot prompt on the terminal").source(error);
    let Ok(terminal) = OpenOptions::new().read(true).write(true).open("/dev/tty") else {
        return Ok(None);
    };
    write!(&terminal, "{question}: ").map_err(cannot)?;
    let mut line = String::new();
    match BufReader::new(&terminal).read_line(&mut line).map_err(cannot)? {
        0 => Err(Error::new(ErrorKind::Interrupted, "interrupted")),
        _ => Ok(Some(line.trim_end_matches(['\r', '\n']).to_owned())),
    }
}

/// Prompts for a line without echo; `None` without a terminal.
pub(crate) fn prompt_hidden(question: &str) -> Result<Option<Secret>> {
    let cannot = |error: io::Error| Error::new(ErrorKind::Io, "cannot prompt on the terminal").source(error);
    let Ok(terminal) = OpenOptions::new().read(true).write(true).open("/dev/tty") else {
        return Ok(None);
    };
    let mut terminal = &terminal;
    let quiet = EchoGuard::begin(terminal).map_err(cannot)?;
    write!(terminal, "{question}: ").and_then(|()| terminal.flush()).map_err(cannot)?;
    let line = read_line(terminal);
    drop(quiet);
    writeln!(terminal).map_err(cannot)?;
    line.map_err(cannot)?.map(Some).ok_or_else(|| Error::new(ErrorKind::Interrupted, "interrupted"))
}

/// Reads a line byte by byte; `None` if the user cancels. The terminal's line editing is off, so that Ctrl-C
/// cancels the prompt instead of ending the process with the echo still off.
fn read_line(mut terminal: &File) -> io::Result<Option<Secret>> {
    let mut line = Zeroizing::new(Vec::with_capacity(MAX_LINE_BYTES));
    let mut byte = [0];
    while terminal.read(&mut byte)? == 1 {
        match byte[0] {
            b'\r' | b'\n' => return text(&line).map(Some),
            // Ctrl-C and Ctrl-\; Ctrl-D at the beginning.
            3 | 28 => return Ok(None),
            4 if line.is_empty() => return Ok(None),
            4 => return text(&line).map(Some),
            // Backspace removes a whole character.
            8 | 127 => while line.pop().is_some_and(|byte| byte & 0xC0 == 0x80) {},
            // Ctrl-U
            21 => line.clear(),
            _ if line.len() == MAX_LINE_BYTES => return Err(io::Error::other("the line is too long")),
            byte => line.push(byte),
        }
    }
    Ok(None)
}

fn text(line: &[u8]) -> io::Result<Secret> {
    str::from_utf8(line).map(Secret::from).map_err(|_| io::Error::other("the input is not valid UTF-8"))
}

/// A terminal without echo until this is dropped.
struct EchoGuard<'a> {
    terminal: &'a File,
    before: Termios,
}

impl<'a> EchoGuard<'a> {
    fn begin(terminal: &'a File) -> io::Result<Self> {
        let before = tcgetattr(terminal)?;
        let mut quiet = before.clone();
        quiet.local_modes.remove(LocalModes::ECHO | LocalModes::ICANON | LocalModes::ISIG);
        quiet.special_codes[SpecialCodeIndex::VMIN] = 1;
        quiet.special_codes[SpecialCodeIndex::VTIME] = 0;
        tcsetattr(terminal, OptionalActions::Flush, &quiet)?;
        Ok(Self { terminal, before })
    }
}

impl Drop for EchoGuard<'_> {
    fn drop(&mut self) {
        // A failure cannot be reported.
        let _ = tcsetattr(self.terminal, OptionalActions::Flush, &self.before);
    }
}
