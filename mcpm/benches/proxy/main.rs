//! What the proxy costs, beside what it is compared with: `cargo bench -p mcpm --bench proxy [-- --soak]`.
//!
//! Everything is measured in one run and shown as ratios, since the machine's mood changes from run to run.
//! Nothing is asserted but that every answer is right. `docs/reference/performance.md` says how to read it.
//!
//! - no argument: times, processor time per call and memory, as a Markdown table
//! - `--soak`: 256 sessions for a minute in front of each kind of server; any error ends the run
//! - `--instructions`: instructions per call under callgrind, which hardly change with the machine's load

mod load;
mod process;
mod servers;

use std::{
    io::Write as _,
    path::Path,
    time::{Duration, Instant},
};

use load::{Bound, Outcome};
use process::Started;

const SESSIONS: [usize; 3] = [1, 32, 256];
const ROUNDS: usize = 3;
const WARM_UP: Duration = Duration::from_millis(300);
const MEASURED: Duration = Duration::from_millis(1500);
const SOAK: Duration = Duration::from_secs(60);
/// Calls between the two counts of instructions.
const COUNTED: u64 = 2000;

fn main() -> Outcome<()> {
    let args: Vec<String> = std::env::args().skip(1).filter(|arg| arg != "--bench").collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    if let ["--role", role, argument] = args[..] {
        return servers::play(role, argument).map_err(|error| error.to_string().into());
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let folder = tempfile::tempdir()?;
    let bench = Bench { folder: folder.path(), server: process::role(&[], "http-server", "")? };
    let table = runtime.block_on(async {
        match args[..] {
            [] => bench.compare().await,
            ["--soak"] => bench.soak().await,
            ["--instructions"] => bench.instructions().await,
            _ => Err("arguments: none, `--soak` or `--instructions`".into()),
        }
    })?;
    std::io::stdout().write_all(table.as_bytes())?;
    Ok(())
}

/// What stands between the client and the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    Direct,
    Nginx,
    Mcpm,
    Pipe,
    Bridge,
}

const WAYS: [Way; 5] = [Way::Direct, Way::Nginx, Way::Mcpm, Way::Pipe, Way::Bridge];

impl Way {
    fn name(self) -> &'static str {
        match self {
            Self::Direct => "HTTP, direct",
            Self::Nginx => "HTTP, nginx",
            Self::Mcpm => "HTTP, mcpm",
            Self::Pipe => "stdio, direct",
            Self::Bridge => "stdio, mcpm",
        }
    }

    /// What its figures are divided by.
    fn base(self) -> Option<Self> {
        match self {
            Self::Mcpm => Some(Self::Nginx),
            Self::Bridge => Some(Self::Pipe),
            Self::Direct | Self::Nginx | Self::Pipe => None,
        }
    }
}

/// One measurement.
#[derive(Debug, Clone, Copy, Default)]
struct Figures {
    /// Microseconds.
    p50: f64,
    p99: f64,
    rate: f64,
    /// Microseconds of processor time per call, of the process in the middle alone.
    cpu: f64,
    /// Resident MB after the load, and at most.
    memory: (f64, f64),
}

struct Bench<'a> {
    folder: &'a Path,
    server: Started,
}

impl Bench<'_> {
    /// Starts what stands in the middle; `None` when nothing does.
    fn start(&self, way: Way, wrapper: &[String]) -> Outcome<Option<Started>> {
        let port = self.server.port;
        match way {
            Way::Direct | Way::Pipe => Ok(None),
            Way::Nginx => process::nginx(wrapper, self.folder, port).map(Some),
            Way::Mcpm => {
                process::role(wrapper, "http-proxy", &format!("http://127.0.0.1:{port}/mcp")).map(Some)
            }
            Way::Bridge => process::role(wrapper, "stdio-proxy", "").map(Some),
        }
    }

    async fn compare(&self) -> Outcome<String> {
        let mut table = String::from(
            "| sessions | way | p50 µs | p99 µs | calls/s | CPU µs/call | resident MB (most) | p50 ratio | CPU ratio |\n\
             |---|---|---|---|---|---|---|---|---|\n",
        );
        for sessions in SESSIONS {
            let mut rounds: Vec<Vec<Figures>> = vec![Vec::new(); WAYS.len()];
            for _ in 0..ROUNDS {
                for (way, figures) in WAYS.iter().zip(&mut rounds) {
                    figures.push(self.measure(*way, sessions).await?);
                }
            }
            let best: Vec<Figures> = rounds.iter().map(|rounds| best(rounds)).collect();
            for (way, figures) in WAYS.iter().zip(&best) {
                let base = way.base().and_then(|base| WAYS.iter().position(|way| *way == base));
                table += &row(sessions, *way, figures, base.map(|base| &best[base]));
            }
        }
        Ok(table)
    }

    async fn measure(&self, way: Way, sessions: usize) -> Outcome<Figures> {
        let middle = self.start(way, &[])?;
        let port = middle.as_ref().unwrap_or(&self.server).port;
        let mut open = match way {
            Way::Pipe => load::start(sessions)?,
            _ => load::open(port, sessions).await?,
        };
        load::call(&mut open, Bound::time(WARM_UP)).await?;
        let cpu = || middle.as_ref().map_or(Ok(Duration::ZERO), Started::cpu);
        let (before, begin) = (cpu()?, Instant::now());
        let times = load::call(&mut open, Bound::time(MEASURED)).await?;
        let (took, spent) = (begin.elapsed(), cpu()? - before);
        let (now, most) = middle.as_ref().map_or(Ok((0, 0)), Started::memory)?;
        let cpu = spent.as_secs_f64() * 1e6 / times.len().max(1) as f64;
        let mut figures = Figures { cpu, ..figures(times, took) };
        figures.memory = (now as f64 / 1024.0, most as f64 / 1024.0);
        Ok(figures)
    }

    async fn soak(&self) -> Outcome<String> {
        let mut table = String::from(
            "| way | sessions | seconds | calls | errors | resident MB (most) |\n|---|---|---|---|---|---|\n",
        );
        for way in [Way::Mcpm, Way::Bridge] {
            let middle = self.start(way, &[])?.ok_or("nothing was started")?;
            let mut open = load::open(middle.port, 256).await?;
            let times = load::call(&mut open, Bound::time(SOAK)).await?;
            let (now, most) = middle.memory()?;
            let name = way.name();
            let (now, most) = (now as f64 / 1024.0, most as f64 / 1024.0);
            table += &format!(
                "| {name} | 256 | {} | {} | 0 | {now:.1} ({most:.1}) |\n",
                SOAK.as_secs(),
                times.len()
            );
        }
        Ok(table)
    }

    async fn instructions(&self) -> Outcome<String> {
        let mut table = String::from("| way | instructions per call |\n|---|---|\n");
        for way in [Way::Nginx, Way::Mcpm, Way::Bridge] {
            let once = self.count(way, COUNTED).await?;
            let twice = self.count(way, 2 * COUNTED).await?;
            table += &format!("| {} | {} |\n", way.name(), twice.saturating_sub(once) / COUNTED);
        }
        Ok(table)
    }

    /// Instructions of a whole life with that many calls.
    async fn count(&self, way: Way, calls: u64) -> Outcome<u64> {
        let file = self.folder.join("callgrind");
        let wrapper = [
            "valgrind".to_owned(),
            "--quiet".to_owned(),
            "--tool=callgrind".to_owned(),
            format!("--callgrind-out-file={}", file.display()),
        ];
        let middle = self.start(way, &wrapper)?.ok_or("nothing was started")?;
        let mut open = load::open(middle.port, 1).await?;
        load::call(&mut open, Bound::calls(calls)).await?;
        middle.end()?;
        let counts = std::fs::read_to_string(file)?;
        let total = counts.lines().find_map(|line| line.strip_prefix("totals: ")).ok_or("no totals")?;
        Ok(total.trim().parse()?)
    }
}

fn figures(mut times: Vec<Duration>, took: Duration) -> Figures {
    times.sort_unstable();
    let at = |share: f64| {
        let index = (times.len() as f64 * share) as usize;
        times.get(index).map_or(0.0, |time| time.as_secs_f64() * 1e6)
    };
    Figures {
        p50: at(0.5),
        p99: at(0.99),
        rate: times.len() as f64 / took.as_secs_f64(),
        ..Figures::default()
    }
}

/// The best of every figure by itself: what disturbs a measurement only ever makes it worse.
fn best(rounds: &[Figures]) -> Figures {
    let least = |figure: fn(&Figures) -> f64| rounds.iter().map(figure).fold(f64::INFINITY, f64::min);
    Figures {
        p50: least(|figures| figures.p50),
        p99: least(|figures| figures.p99),
        rate: -least(|figures| -figures.rate),
        cpu: least(|figures| figures.cpu),
        memory: (least(|figures| figures.memory.0), least(|figures| figures.memory.1)),
    }
}

fn row(sessions: usize, way: Way, figures: &Figures, base: Option<&Figures>) -> String {
    let Figures { p50, p99, rate, cpu, memory: (now, most) } = figures;
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
    let name = way.name();
    format!(
        "| {sessions} | {name} | {p50:.0} | {p99:.0} | {rate:.0} | {cpu_shown} | {memory} | {p50_ratio} | {cpu_ratio} |\n"
    )
}
