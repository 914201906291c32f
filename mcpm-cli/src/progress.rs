//! Shows what happens while a command waits: bars on a terminal, nothing elsewhere, warnings always.

use std::{
    io::{self, IsTerminal as _, Write as _},
    sync::OnceLock,
};

use futures_util::FutureExt as _;
use indicatif::{ProgressBar, ProgressStyle};
use mcpm::workload::{EventStream, WorkloadEvent};

/// Shows events on standard error.
#[derive(Debug, Default)]
pub(crate) struct Progress {
    bar: OnceLock<ProgressBar>,
}

impl Progress {
    /// Shows one event.
    pub(crate) fn show(&self, event: &WorkloadEvent) {
        match event {
            WorkloadEvent::Pulling { image, current, total } if io::stderr().is_terminal() => {
                let bar = self.bar.get_or_init(|| {
                    let style = ProgressStyle::with_template("pulling {msg} {bar:30} {bytes}/{total_bytes}");
                    let bar = ProgressBar::new(*total);
                    bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
                    bar.set_message(image.clone());
                    bar
                });
                bar.set_length(*total);
                bar.set_position(*current);
            }
            WorkloadEvent::Warning { message } => {
                let _ = writeln!(io::stderr(), "warning: {message}");
            }
            _ => {}
        }
    }

    /// Shows events while something else is done.
    pub(crate) async fn during<T>(&self, mut events: EventStream, work: impl Future<Output = T>) -> T {
        tokio::pin!(work);
        let outcome = loop {
            tokio::select! {
                biased;
                Some(event) = events.next() => self.show(&event),
                outcome = &mut work => break outcome,
            }
        };
        // What was told in the same breath as the outcome is still there.
        while let Some(Some(event)) = events.next().now_or_never() {
            self.show(&event);
        }
        if let Some(bar) = self.bar.get() {
            bar.finish_and_clear();
        }
        outcome
    }
}
