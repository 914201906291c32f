//! Shows progress on a terminal while a command waits. Warnings are also shown without a terminal.

use std::{
    fmt,
    io::{self, IsTerminal as _},
    sync::{
        Mutex, OnceLock, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use futures_util::FutureExt as _;
use indicatif::{ProgressBar, ProgressState, ProgressStyle};
use mcpm::workload::{EventStream, WorkloadEvent};

use crate::output::{self, escape_control};

/// The interval at which the waiting time is redrawn, and the delay before it is shown first.
const TICK: Duration = Duration::from_secs(1);

/// The spinner of work that may prompt the user.
static SPINNER: Mutex<Option<ProgressBar>> = Mutex::new(None);
/// Whether the user was prompted. From then on, no spinner is shown, because it would overwrite the prompt.
static HAS_PROMPTED: AtomicBool = AtomicBool::new(false);

/// Removes the spinner, because a prompt needs the terminal.
pub(crate) fn yield_terminal() {
    HAS_PROMPTED.store(true, Ordering::Relaxed);
    set_spinner(None);
}

fn set_spinner(spinner: Option<ProgressBar>) {
    // No code panics while it holds the lock.
    let before = std::mem::replace(&mut *SPINNER.lock().unwrap_or_else(PoisonError::into_inner), spinner);
    if let Some(before) = before {
        before.finish_and_clear();
    }
}

/// Shows events on standard error.
#[derive(Debug, Default)]
pub(crate) struct Progress {
    pull: OnceLock<ProgressBar>,
    build: OnceLock<ProgressBar>,
    wait: OnceLock<ProgressBar>,
    /// Maximum time for the server to become ready.
    start_timeout: Duration,
}

impl Progress {
    /// Shows the progress of a start, in which the server may take this long to become ready.
    pub(crate) fn of_start(timeout: Duration) -> Self {
        Self { start_timeout: timeout, ..Self::default() }
    }

    /// Shows one event.
    pub(crate) fn show(&self, event: &WorkloadEvent) {
        match event {
            WorkloadEvent::Pulling { image, current, total } if shows_bars() => {
                let bar = self.pull.get_or_init(|| bar("pulling {msg} {bar:30} {bytes}/{total_bytes}"));
                bar.set_message(escape_control(image));
                bar.set_length(*total);
                bar.set_position(*current);
            }
            WorkloadEvent::Building { package, step, steps, instruction } if shows_bars() => {
                if let Some(pull) = self.pull.get() {
                    pull.finish_and_clear();
                }
                let bar = self.build.get_or_init(|| bar("building {prefix} {bar:12} {pos}/{len} {wide_msg}"));
                bar.set_prefix(escape_control(package));
                bar.set_length(u64::from(*steps));
                bar.set_position(u64::from(*step));
                bar.set_message(escape_control(instruction));
            }
            WorkloadEvent::BuildOutput { line } => {
                if let Some(build) = self.build.get() {
                    // A package determines this text.
                    build.set_message(escape_control(line));
                }
            }
            WorkloadEvent::Starting { .. } if shows_bars() => {
                self.clear();
                let wait = spinner("waiting for the server to respond", Some(self.start_timeout));
                // The server may be started again.
                if self.wait.set(wait).is_err()
                    && let Some(wait) = self.wait.get()
                {
                    wait.reset();
                }
            }
            WorkloadEvent::Warning { message } => {
                let print = || output::warning(message);
                match self.wait.get() {
                    Some(wait) => wait.suspend(print),
                    None => print(),
                }
            }
            WorkloadEvent::Ready { .. } | WorkloadEvent::Ended { .. } => self.clear(),
            _ => {}
        }
    }

    /// Shows events while `work` runs. If no event arrives within a second, shows what the command does.
    pub(crate) async fn during<T>(
        &self,
        what: &str,
        mut events: EventStream,
        work: impl Future<Output = T>,
    ) -> T {
        tokio::pin!(work);
        let silence = tokio::time::sleep(TICK);
        tokio::pin!(silence);
        let mut is_silent = true;
        let outcome = loop {
            tokio::select! {
                biased;
                Some(event) = events.next() => {
                    is_silent = false;
                    set_spinner(None);
                    self.show(&event);
                }
                outcome = &mut work => break outcome,
                () = &mut silence, if is_silent => {
                    is_silent = false;
                    let is_shown = shows_bars() && !HAS_PROMPTED.load(Ordering::Relaxed);
                    set_spinner(is_shown.then(|| spinner(what, None).with_elapsed(TICK)));
                }
            }
        };
        set_spinner(None);
        // Events that were sent right before the result are still queued.
        while let Some(Some(event)) = events.next().now_or_never() {
            self.show(&event);
        }
        self.clear();
        outcome
    }

    /// Removes the bars.
    pub(crate) fn clear(&self) {
        for bar in [&self.pull, &self.build, &self.wait].into_iter().filter_map(OnceLock::get) {
            bar.finish_and_clear();
        }
    }
}

fn shows_bars() -> bool {
    io::stderr().is_terminal() && !output::is_quiet()
}

/// On a terminal, shows what a command waits for and the maximum waiting time, once it has waited for more than a
/// second.
pub(crate) async fn waiting<T>(what: &str, limit: Option<Duration>, work: impl Future<Output = T>) -> T {
    let mut work = Box::pin(work);
    tokio::select! {
        biased;
        outcome = &mut work => return outcome,
        () = tokio::time::sleep(TICK) => {}
    }
    let spinner = shows_bars().then(|| spinner(what, limit).with_elapsed(TICK));
    let outcome = work.await;
    if let Some(spinner) = spinner {
        spinner.finish_and_clear();
    }
    outcome
}

fn spinner(what: &str, limit: Option<Duration>) -> ProgressBar {
    let spinner = ProgressBar::new_spinner();
    let waited = |state: &ProgressState, text: &mut dyn fmt::Write| {
        // If the terminal cannot be written to, nothing is shown.
        let _ = write!(text, "{} s", state.elapsed().as_secs());
    };
    let limit = limit.map(|limit| format!(" of {}", limit.as_secs())).unwrap_or_default();
    spinner.set_style(style(&format!("{{msg}}, {{waited}}{limit}")).with_key("waited", waited));
    spinner.set_message(escape_control(what));
    spinner.enable_steady_tick(TICK);
    spinner
}

fn bar(template: &str) -> ProgressBar {
    let bar = ProgressBar::new(0);
    bar.set_style(style(template));
    bar
}

fn style(template: &str) -> ProgressStyle {
    ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar())
}
