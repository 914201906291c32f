//! Shows the remaining time for a login, and reads the URL of a redirect that did not reach this machine. Does so only
//! if standard input and standard error are terminals.

use std::{
    fs::{File, OpenOptions},
    io::{self, IsTerminal as _, Read as _, Write as _},
    os::fd::OwnedFd,
    thread::JoinHandle,
    time::{Duration, Instant},
};

use mcpm::{Error, ErrorKind, Result, user_prompt::LoginPrompt};
use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    pipe::pipe,
    termios::OptionalActions,
};
use tokio::sync::oneshot;

use super::{EchoGuard, Edit, LineEditor};

/// Erases the line of the cursor.
const ERASE_LINE: &str = "\r\x1b[K";

/// Shows the remaining time, and waits for a pasted URL; `None` if no user is at the terminal.
pub(crate) async fn ask_redirect(login: &LoginPrompt) -> Result<Option<String>> {
    // A program that started mcpm with pipes may use the terminal itself.
    if !(io::stdin().is_terminal() && io::stderr().is_terminal()) {
        return Ok(None);
    }
    let Ok(terminal) = OpenOptions::new().read(true).write(true).open("/dev/tty") else { return Ok(None) };
    let cannot = |error: io::Error| Error::new(ErrorKind::Io, "cannot prompt on the terminal").source(error);
    let (stopped, stop) = pipe().map_err(|error| cannot(error.into()))?;
    let (sender, receiver) = oneshot::channel();
    let (deadline, has_redirect) = (login.deadline, login.has_redirect);
    let thread = std::thread::spawn(move || {
        // After the end of the login, the receiver is gone.
        let _ = sender.send(read_line(&terminal, &stopped, deadline, has_redirect));
    });
    let _reader = Reader { stop: Some(stop), thread: Some(thread) };
    match receiver.await {
        Ok(Ok(Some(line))) => Ok(Some(line)),
        Ok(Ok(None)) => Err(Error::new(ErrorKind::Interrupted, "interrupted")),
        Ok(Err(error)) => Err(cannot(error)),
        Err(_) => Ok(None),
    }
}

/// The thread that reads from the terminal. Dropping it releases the terminal.
struct Reader {
    stop: Option<OwnedFd>,
    thread: Option<JoinHandle<()>>,
}

impl Drop for Reader {
    fn drop(&mut self) {
        // Closing the pipe wakes the thread, which restores the terminal and ends.
        drop(self.stop.take());
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

/// Reads a line that is not empty; `None` if the user cancels.
fn read_line(
    mut terminal: &File,
    stopped: &OwnedFd,
    deadline: Instant,
    has_redirect: bool,
) -> io::Result<Option<String>> {
    // After a wrong URL, the rest of the pasted text may arrive before the terminal is read again.
    let quiet = EchoGuard::begin(terminal, OptionalActions::Now)?;
    let mut editor = LineEditor::new();
    let mut buffer = [0; 4096];
    let result = 'read: loop {
        let left = deadline.saturating_duration_since(Instant::now());
        let invite = match (has_redirect, editor.len()) {
            (false, _) => String::new(),
            (true, 0) => ", or paste the URL of the page after the login".to_owned(),
            (true, length) => format!(": {length} characters, end with Enter"),
        };
        write!(terminal, "{ERASE_LINE}{} s left{invite}", left.as_secs())?;
        terminal.flush()?;
        // Waits until the number of seconds changes.
        let tick = Duration::from_nanos(u64::from(left.subsec_nanos()) + 1_000_000);
        let tick = Timespec::try_from(tick).map_err(io::Error::other)?;
        let mut events = [PollFd::new(terminal, PollFlags::IN), PollFd::new(stopped, PollFlags::IN)];
        match poll(&mut events, Some(&tick)) {
            Err(rustix::io::Errno::INTR) => continue,
            other => other?,
        };
        let [typed, ended] = events.map(|event| event.revents());
        if !ended.is_empty() {
            break Ok(None);
        }
        if typed.is_empty() {
            continue;
        }
        let count = terminal.read(&mut buffer)?;
        for byte in buffer.get(..count).unwrap_or_default() {
            match editor.push(*byte)? {
                Edit::Continue => {}
                Edit::Complete if editor.len() == 0 || !has_redirect => editor = LineEditor::new(),
                Edit::Complete => break 'read editor.text().map(|text| Some(text.expose().to_owned())),
                Edit::Cancelled => break 'read Ok(None),
            }
        }
        if count == 0 {
            break Ok(None);
        }
    };
    drop(quiet);
    write!(terminal, "{ERASE_LINE}")?;
    result
}
