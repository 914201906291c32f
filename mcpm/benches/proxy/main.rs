//! Compares the proxy with other ways to reach a server: `cargo bench -p mcpm --bench proxy [-- ARGUMENTS]`.
//!
//! The speed of the machine varies between runs, so all ways are measured in one run. The tables without an argument,
//! with `--against` and with `--stack` also show ratios. The only assertion is that every response is correct.
//! `docs/reference/performance.md` explains the tables.
//!
//! - no argument: times, processor time per call and memory, as a Markdown table
//! - `--soak`: calls by 256 sessions for a minute through the proxy to an HTTP server, then to a stdio server; any
//!   error ends the run
//! - `--against PROGRAM`: comparison with another build of this benchmark, so that the effect of a code change can be
//!   distinguished from variations of the machine
//! - `--stack`: the added cost of authentication, tool filter, Cedar, audit log, telemetry, Prometheus and the login to
//!   the server, each alone, and of all of them together except for the login
//! - `--embedded`: calls through a proxy in the program's own process, with and without a port
//! - `--instructions [PART]`: the number of instructions per call under callgrind, which hardly depends on the load of
//!   the machine; with PART, only for ways whose names contain it

mod embedded;
mod figures;
mod load;
mod process;
mod servers;
mod team;

use std::{
    io::Write as _,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use figures::{Figures, Way};
use load::{Bound, Outcome, Session};
use process::Started;
use team::{Layers, Team};

const WAYS: [Way; 5] = [Way::Direct, Way::Nginx, Way::Mcpm, Way::Pipe, Way::Bridge];
const BUILDS: [Way; 5] = [Way::Nginx, Way::Mcpm, Way::OtherMcpm, Way::Bridge, Way::OtherBridge];
const STACK: [Way; 10] = [
    Way::Direct,
    Way::Mcpm,
    Way::With(Layers::Auth),
    Way::With(Layers::Filter),
    Way::With(Layers::Cedar),
    Way::With(Layers::Audit),
    Way::With(Layers::Telemetry),
    Way::With(Layers::Prometheus),
    Way::With(Layers::Login),
    Way::With(Layers::All),
];
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
    let own = std::env::current_exe()?;
    let other = if let ["--against", other] = args[..] { other.into() } else { own.clone() };
    let server = process::role(&[], &own, "http-server", "")?;
    let team = Team::start(&own, folder.path())?;
    let bench = Bench { folder: folder.path(), server, team, own, other };
    let table = runtime.block_on(async {
        match args[..] {
            [] => bench.compare(&WAYS).await,
            ["--against", _] => bench.compare(&BUILDS).await,
            ["--stack"] => bench.compare(&STACK).await,
            ["--embedded"] => {
                let target = format!("http://127.0.0.1:{}/mcp", bench.server.port);
                embedded::compare(&bench.own, bench.folder, &target)
            }
            ["--soak"] => bench.soak().await,
            ["--instructions"] => bench.instructions("").await,
            ["--instructions", part] => bench.instructions(part).await,
            _ => {
                Err("arguments: none, `--against PROGRAM`, `--stack`, `--embedded`, `--soak` or `--instructions [PART]`"
                    .into())
            }
        }
    })?;
    std::io::stdout().write_all(table.as_bytes())?;
    Ok(())
}

struct Bench<'a> {
    folder: &'a Path,
    server: Started,
    team: Team,
    /// This program, and the build that it is compared with.
    own: PathBuf,
    other: PathBuf,
}

impl Bench<'_> {
    fn program(&self, way: Way) -> &Path {
        if matches!(way, Way::OtherMcpm | Way::OtherBridge) { &self.other } else { &self.own }
    }

    /// Returns the token that clients need, if any.
    fn token(&self, way: Way) -> Option<&str> {
        if let Way::With(layers) = way { self.team.token(layers) } else { None }
    }

    /// Starts the proxy; `None` if the way has none.
    fn start(&self, way: Way, wrapper: &[String]) -> Outcome<Option<Started>> {
        let port = self.server.port;
        match way {
            Way::Direct | Way::Pipe => Ok(None),
            Way::Nginx => process::nginx(wrapper, self.folder, port).map(Some),
            Way::Mcpm | Way::OtherMcpm => {
                let target = format!("http://127.0.0.1:{port}/mcp");
                process::role(wrapper, self.program(way), "http-proxy", &target).map(Some)
            }
            Way::With(layers) => {
                let target = format!("http://127.0.0.1:{port}/mcp");
                let argument = self.team.argument(layers, &target, self.folder)?;
                process::role(wrapper, &self.own, "team-proxy", &argument).map(Some)
            }
            Way::Bridge | Way::OtherBridge => {
                process::role(wrapper, self.program(way), "stdio-proxy", "").map(Some)
            }
        }
    }

    async fn compare(&self, ways: &[Way]) -> Outcome<String> {
        let mut table = String::from(figures::HEAD);
        for sessions in SESSIONS {
            let mut rounds: Vec<Vec<Figures>> = vec![Vec::new(); ways.len()];
            for _ in 0..ROUNDS {
                for (way, figures) in ways.iter().zip(&mut rounds) {
                    figures.push(self.measure(*way, sessions).await?);
                }
            }
            let best: Vec<Figures> = rounds.iter().map(|rounds| Figures::best(rounds)).collect();
            for (way, figures) in ways.iter().zip(&best) {
                let of = |other: Option<Way>| {
                    let place = ways.iter().position(|way| Some(*way) == other);
                    place.map(|place| &best[place])
                };
                table += &figures.row(sessions, way.name(), of(way.direct()), of(way.base()));
            }
        }
        Ok(table)
    }

    async fn measure(&self, way: Way, sessions: usize) -> Outcome<Figures> {
        let middle = self.start(way, &[])?;
        let port = middle.as_ref().unwrap_or(&self.server).port;
        let mut open = match way {
            Way::Pipe => load::start(sessions)?,
            _ => load::open(port, sessions, self.token(way)).await?,
        };
        load::call(&mut open, Bound::time(WARM_UP)).await?;
        let whose: Vec<u32> = match (&middle, way) {
            (Some(middle), _) => vec![middle.pid],
            (None, Way::Pipe) => open.iter().filter_map(Session::server).collect(),
            (None, _) => vec![self.server.pid],
        };
        let (before, begin) = (process::cpu(&whose)?, Instant::now());
        let times = load::call(&mut open, Bound::time(MEASURED)).await?;
        let (took, spent) = (begin.elapsed(), process::cpu(&whose)? - before);
        let cpu = spent.as_secs_f64() * 1e6 / times.len().max(1) as f64;
        let mut figures = Figures::of(times, took);
        figures.cpu = cpu;
        figures.memory = process::memory(&whose)?;
        Ok(figures)
    }

    async fn soak(&self) -> Outcome<String> {
        let mut table = String::from(
            "| way | sessions | seconds | calls | errors | resident MB (most) |\n|---|---|---|---|---|---|\n",
        );
        for way in [Way::Mcpm, Way::Bridge] {
            let middle = self.start(way, &[])?.ok_or("nothing was started")?;
            let mut open = load::open(middle.port, 256, None).await?;
            let times = load::call(&mut open, Bound::time(SOAK)).await?;
            let (now, most) = process::memory(&[middle.pid])?;
            let name = way.name();
            table += &format!(
                "| {name} | 256 | {} | {} | 0 | {now:.1} ({most:.1}) |\n",
                SOAK.as_secs(),
                times.len()
            );
        }
        Ok(table)
    }

    /// Measures the ways whose names contain this part.
    async fn instructions(&self, part: &str) -> Outcome<String> {
        let mut table = String::from("| way | instructions per call |\n|---|---|\n");
        let stack = STACK.into_iter().filter(|way| matches!(way, Way::With(_)));
        let ways = [Way::Nginx, Way::Mcpm, Way::Bridge].into_iter().chain(stack);
        for way in ways.filter(|way| way.name().contains(part)) {
            let once = self.count(way, COUNTED).await?;
            let twice = self.count(way, 2 * COUNTED).await?;
            table += &format!("| {} | {} |\n", way.name(), twice.saturating_sub(once) / COUNTED);
        }
        Ok(table)
    }

    /// Returns the number of instructions of a process that serves this number of calls.
    async fn count(&self, way: Way, calls: u64) -> Outcome<u64> {
        let file = self.folder.join("callgrind");
        let wrapper = [
            "valgrind".to_owned(),
            "--quiet".to_owned(),
            "--tool=callgrind".to_owned(),
            format!("--callgrind-out-file={}", file.display()),
        ];
        let middle = self.start(way, &wrapper)?.ok_or("nothing was started")?;
        let mut open = load::open(middle.port, 1, self.token(way)).await?;
        load::call(&mut open, Bound::calls(calls)).await?;
        middle.end()?;
        process::total(&file)
    }
}
