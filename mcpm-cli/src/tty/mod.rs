//! Prompts on the controlling terminal, even if the standard streams are redirected, and without echo for secrets.

mod redirect;

use std::{
    fs::{File, OpenOptions},
    io::{self, BufRead as _, BufReader, Read as _, Write as _},
};

use mcpm::{Error, ErrorKind, Result, options::Secret};
use rustix::termios::{LocalModes, OptionalActions, SpecialCodeIndex, Termios, tcgetattr, tcsetattr};
use zeroize::Zeroizing;

use crate::output::escape_text;

pub(crate) use redirect::ask_redirect;

/// Maximum length of a line in bytes.
const MAX_LINE_BYTES: usize = 64 * 1024;

/// Prompts for a line with echo; `None` without a terminal.
pub(crate) fn prompt_visible(question: &str) -> Result<Option<String>> {
    let cannot = |error: io::Error| Error::new(ErrorKind::Io, "cannot prompt on the terminal").source(error);
    let Ok(terminal) = OpenOptions::new().read(true).write(true).open("/dev/tty") else {
        return Ok(None);
    };
    write!(&terminal, "{}", shown(question)).map_err(cannot)?;
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
    let quiet = EchoGuard::begin(terminal, OptionalActions::Flush).map_err(cannot)?;
    write!(terminal, "{}", shown(question)).and_then(|()| terminal.flush()).map_err(cannot)?;
    let line = read_line(terminal);
    drop(quiet);
    writeln!(terminal).map_err(cannot)?;
    line.map_err(cannot)?.map(Some).ok_or_else(|| Error::new(ErrorKind::Interrupted, "interrupted"))
}

/// Returns the text of a prompt. A bundle, a registry or a server may have written the question.
fn shown(question: &str) -> String {
    format!("{}: ", escape_text(question))
}

/// Reads a line byte by byte; `None` if the user cancels. The terminal's line editing is off, so that Ctrl-C
/// cancels the prompt instead of ending the process with the echo still off.
fn read_line(mut terminal: &File) -> io::Result<Option<Secret>> {
    let mut editor = LineEditor::new();
    let mut byte = [0];
    while terminal.read(&mut byte)? == 1 {
        match editor.push(byte[0])? {
            Edit::Continue => {}
            Edit::Complete => return editor.text().map(Some),
            Edit::Cancelled => return Ok(None),
        }
    }
    Ok(None)
}

/// A line that is typed without the terminal's line editing.
struct LineEditor(Zeroizing<Vec<u8>>);

/// The effect of a byte on the line.
enum Edit {
    Continue,
    Complete,
    Cancelled,
}

impl LineEditor {
    fn new() -> Self {
        // The buffer does not grow, so that no copy of a secret is left in memory.
        Self(Zeroizing::new(Vec::with_capacity(MAX_LINE_BYTES)))
    }

    fn push(&mut self, byte: u8) -> io::Result<Edit> {
        let line = &mut self.0;
        match byte {
            b'\r' | b'\n' => return Ok(Edit::Complete),
            // Ctrl-C and Ctrl-\; Ctrl-D at the beginning.
            3 | 28 => return Ok(Edit::Cancelled),
            4 if line.is_empty() => return Ok(Edit::Cancelled),
            4 => return Ok(Edit::Complete),
            // Backspace removes a whole character.
            8 | 127 => while line.pop().is_some_and(|byte| byte & 0xC0 == 0x80) {},
            // Ctrl-U erases the line.
            21 => line.clear(),
            _ if line.len() == MAX_LINE_BYTES => return Err(io::Error::other("the line is too long")),
            byte => line.push(byte),
        }
        Ok(Edit::Continue)
    }

    /// The length in bytes.
    fn len(&self) -> usize {
        self.0.len()
    }

    fn text(&self) -> io::Result<Secret> {
        str::from_utf8(&self.0)
            .map(Secret::from)
            .map_err(|_| io::Error::other("the input is not valid UTF-8"))
    }
}

/// A terminal whose echo is off until this value is dropped.
struct EchoGuard<'a> {
    terminal: &'a File,
    before: Termios,
    typed_ahead: OptionalActions,
}

impl<'a> EchoGuard<'a> {
    /// Turns the echo off; `typed_ahead` determines whether earlier input is discarded.
    fn begin(terminal: &'a File, typed_ahead: OptionalActions) -> io::Result<Self> {
        let before = tcgetattr(terminal)?;
        let mut quiet = before.clone();
        quiet.local_modes.remove(LocalModes::ECHO | LocalModes::ICANON | LocalModes::ISIG);
        quiet.special_codes[SpecialCodeIndex::VMIN] = 1;
        quiet.special_codes[SpecialCodeIndex::VTIME] = 0;
        tcsetattr(terminal, typed_ahead, &quiet)?;
        Ok(Self { terminal, before, typed_ahead })
    }
}

impl Drop for EchoGuard<'_> {
    fn drop(&mut self) {
        // A failure cannot be reported.
        let _ = tcsetattr(self.terminal, self.typed_ahead, &self.before);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_question_cannot_control_the_terminal() {
        assert_eq!(shown("key - Key\u{1b}[2J \u{202e}x"), "key - Key\\u{1b}[2J \\u{202e}x: ");
        assert_eq!(shown("message of a server\nname [text]"), "message of a server\nname [text]: ");
    }
}
