//! What was measured, and how it is shown.

use std::time::Duration;

/// What stands between the client and the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Way {
    Direct,
    Nginx,
    Mcpm,
    OtherMcpm,
    Pipe,
    Bridge,
    OtherBridge,
}

impl Way {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Direct => "HTTP, direct",
            Self::Nginx => "HTTP, nginx",
            Self::Mcpm => "HTTP, mcpm",
            Self::OtherMcpm => "HTTP, other build",
            Self::Pipe => "stdio, direct",
            Self::Bridge => "stdio, mcpm",
            Self::OtherBridge => "stdio, other build",
        }
    }

    /// What its figures are divided by.
    pub(super) fn base(self) -> Option<Self> {
        match self {
            Self::Mcpm | Self::OtherMcpm => Some(Self::Nginx),
            Self::Bridge => Some(Self::Pipe),
            Self::OtherBridge => Some(Self::Bridge),
            Self::Direct | Self::Nginx | Self::Pipe => None,
        }
    }
}

/// One measurement.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Figures {
    /// Microseconds.
    p50: f64,
    p99: f64,
    /// Calls a second.
    rate: f64,
    /// Microseconds of processor time per call, of the process in the middle alone.
    pub(super) cpu: f64,
    /// Resident MB after the load, and at most.
    pub(super) memory: (f64, f64),
}

/// The head of the table.
pub(super) const HEAD: &str = "\
| sessions | way | p50 µs | p99 µs | calls/s | CPU µs/call | resident MB (most) | p50 ratio | CPU ratio |
|---|---|---|---|---|---|---|---|---|
";

impl Figures {
    /// From how long each call took, and all of them together.
    pub(super) fn of(mut times: Vec<Duration>, took: Duration) -> Self {
        times.sort_unstable();
        let at = |share: f64| {
            let index = (times.len() as f64 * share) as usize;
            times.get(index).map_or(0.0, |time| time.as_secs_f64() * 1e6)
        };
        let rate = times.len() as f64 / took.as_secs_f64();
        Self { p50: at(0.5), p99: at(0.99), rate, ..Self::default() }
    }

    /// The best of every figure by itself: what disturbs a measurement only ever makes it worse.
    pub(super) fn best(rounds: &[Self]) -> Self {
        let least = |figure: fn(&Self) -> f64| rounds.iter().map(figure).fold(f64::INFINITY, f64::min);
        Self {
            p50: least(|figures| figures.p50),
            p99: least(|figures| figures.p99),
            rate: -least(|figures| -figures.rate),
            cpu: least(|figures| figures.cpu),
            memory: (least(|figures| figures.memory.0), least(|figures| figures.memory.1)),
        }
    }

    /// A row of the table.
    pub(super) fn row(&self, sessions: usize, name: &str, base: Option<&Self>) -> String {
        let Self { p50, p99, rate, cpu, memory: (now, most) } = self;
        let dash = || "–".to_owned();
        let in_middle = *now > 0.0;
        let cpu_shown = if in_middle { format!("{cpu:.1}") } else { dash() };
        let memory = if in_middle { format!("{now:.1} ({most:.1})") } else { dash() };
        let ratio = |own: f64, base: Option<f64>| match base {
            Some(base) if base > 0.0 => format!("{:.2}", own / base),
            _ => dash(),
        };
        let p50_ratio = ratio(*p50, base.map(|base| base.p50));
        let cpu_ratio = ratio(*cpu, base.map(|base| base.cpu));
        format!(
            "| {sessions} | {name} | {p50:.0} | {p99:.0} | {rate:.0} | {cpu_shown} | {memory} | {p50_ratio} | {cpu_ratio} |\n"
        )
    }
}
