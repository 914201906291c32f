//! Stores the measured figures, and formats them as rows of a table.

use std::time::Duration;

use super::team::Layers;

/// The component between the client and the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Way {
    Direct,
    Nginx,
    Mcpm,
    OtherMcpm,
    With(Layers),
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
            Self::With(layers) => layers.name(),
            Self::Pipe => "stdio, direct",
            Self::Bridge => "stdio, mcpm",
            Self::OtherBridge => "stdio, other build",
        }
    }

    /// The same server without a proxy; the difference from its figures is the added cost.
    pub(super) fn direct(self) -> Option<Self> {
        match self {
            Self::Nginx | Self::Mcpm | Self::OtherMcpm | Self::With(_) => Some(Self::Direct),
            Self::Bridge | Self::OtherBridge => Some(Self::Pipe),
            Self::Direct | Self::Pipe => None,
        }
    }

    /// The way whose figures are the divisor of the ratios.
    pub(super) fn base(self) -> Option<Self> {
        match self {
            Self::Mcpm | Self::OtherMcpm => Some(Self::Nginx),
            Self::With(_) => Some(Self::Mcpm),
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
    /// Calls per second.
    rate: f64,
    /// Microseconds of processor time per call, of the proxy process alone; without a proxy, of the server.
    pub(super) cpu: f64,
    /// Resident memory of the same process in MB, after the load and at most.
    pub(super) memory: (f64, f64),
}

/// The head of the table.
pub(super) const HEAD: &str = "\
| sessions | way | p50 µs | p99 µs | added p50 | added p99 | calls/s | CPU µs/call | resident MB (most) | p50 ratio | CPU ratio |
|---|---|---|---|---|---|---|---|---|---|---|
";

impl Figures {
    /// Computes figures from the durations of all calls, and from the duration of the whole round.
    pub(super) fn of(mut times: Vec<Duration>, took: Duration) -> Self {
        times.sort_unstable();
        let at = |share: f64| {
            let index = (times.len() as f64 * share) as usize;
            times.get(index).map_or(0.0, |time| time.as_secs_f64() * 1e6)
        };
        let rate = times.len() as f64 / took.as_secs_f64();
        Self { p50: at(0.5), p99: at(0.99), rate, ..Self::default() }
    }

    /// Returns the best value of each figure, independently of the others: other load on the machine only makes figures
    /// worse.
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
    pub(super) fn row(
        &self,
        sessions: usize,
        name: &str,
        direct: Option<&Self>,
        base: Option<&Self>,
    ) -> String {
        let Self { p50, p99, rate, cpu, memory: (now, most) } = self;
        let added = |figure: fn(&Self) -> f64| {
            direct.map_or("–".to_owned(), |direct| format!("{:+.0}", figure(self) - figure(direct)))
        };
        let ratio = |figure: fn(&Self) -> f64| match base.map(figure) {
            Some(base) if base > 0.0 => format!("{:.2}", figure(self) / base),
            _ => "–".to_owned(),
        };
        let (added_p50, added_p99) = (added(|of| of.p50), added(|of| of.p99));
        let (p50_ratio, cpu_ratio) = (ratio(|of| of.p50), ratio(|of| of.cpu));
        format!(
            "| {sessions} | {name} | {p50:.0} | {p99:.0} | {added_p50} | {added_p99} | {rate:.0} | {cpu:.1} \
             | {now:.1} ({most:.1}) | {p50_ratio} | {cpu_ratio} |\n"
        )
    }
}
