//! Measures the time from a command to the first response of its server: `cargo bench -p mcpm-cli --bench start`.
//!
//! Runs `mcpm run` with the smallest static stdio server, alternately with Docker and with the built-in runtime, and
//! compares the times with a direct start of the same server program over stdio. For a workload, the benchmark sends
//! `initialize` over HTTP to the URL that `mcpm run` prints, and stops the clock at the end of the response. Then it
//! starts [`IDLE`] idle workloads with each runtime, and compares the memory of all processes of the machine before and
//! after. Everything is measured in one run and printed as Markdown. Only the responses of workloads are checked. Needs
//! gcc and Docker, and root for starts with cold caches and for the memory of all processes.

use std::{
    error::Error,
    fs,
    io::{self, BufRead as _, BufReader, Read as _, Write as _},
    net::TcpStream,
    path::Path,
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use tempfile::TempDir;

type Outcome<T> = Result<T, Box<dyn Error>>;

const IMAGE: &str = "localhost/mcpm-bench/start:1";
const RUNTIMES: [&str; 2] = ["docker", "builtin"];
const WARM_TURNS: usize = 4;
const COLD_TURNS: usize = 2;
/// How many starts follow each other in one way.
const TURN: usize = 5;
/// How many workloads idle at once.
const IDLE: u32 = 50;
const INITIALIZE: &str = r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"bench","version":"1"}}}"#;

fn main() -> Outcome<()> {
    let bench = Bench::prepare()?;
    let mut out = io::stdout();
    writeln!(
        out,
        "| start | bare ms | docker ms | builtin ms | docker / builtin | builtin - bare ms |\n|---|---|---|---|---|---|"
    )?;
    bench.print_starts("warm", WARM_TURNS, || Ok(()))?;
    if fs::write("/proc/sys/vm/drop_caches", "3").is_ok() {
        bench.print_starts("cold", COLD_TURNS, || Ok(fs::write("/proc/sys/vm/drop_caches", "3")?))?;
    }
    writeln!(out, "\n| {IDLE} idle workloads | MB together | MB each |\n|---|---|---|")?;
    for runtime in RUNTIMES {
        let before = memory_of_all_processes()?;
        let names: Vec<String> = (0..IDLE).map(|number| format!("idle-{number}")).collect();
        for name in &names {
            bench.start(runtime, name)?;
        }
        let kilobytes = memory_of_all_processes()?.saturating_sub(before);
        writeln!(
            out,
            "| {runtime} | {} | {:.1} |",
            kilobytes / 1000,
            f64::from(u32::try_from(kilobytes)?) / 1e3 / f64::from(IDLE)
        )?;
        bench.remove(&names)?;
    }
    Ok(())
}

/// A separate home, with the image in the engine and in the store of the built-in runtime.
struct Bench {
    home: TempDir,
}

impl Bench {
    fn prepare() -> Outcome<Self> {
        let home = tempfile::tempdir()?;
        let bench = Self { home };
        let folder = bench.home.path();
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("benches/start/server.c");
        done(Command::new("gcc").args(["-O2", "-static", "-o"]).arg(folder.join("server")).arg(source))?;
        fs::write(
            folder.join("Dockerfile"),
            "FROM scratch\nCOPY server /server\nENTRYPOINT [\"/server\"]\n",
        )?;
        done(Command::new("docker").args(["build", "-q", "-t", IMAGE]).arg(folder))?;
        let archive = folder.join("image.tar");
        done(Command::new("docker").args(["save", "-o"]).arg(&archive).arg(IMAGE))?;
        done(bench.mcpm(&["image", "load"]).arg(archive))?;
        Ok(bench)
    }

    fn mcpm(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_mcpm"));
        command.args(args).env("HOME", self.home.path()).env("XDG_RUNTIME_DIR", self.home.path());
        for variable in ["XDG_STATE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_CACHE_HOME"] {
            command.env_remove(variable);
        }
        command
    }

    /// Starts a workload, and returns the time until its server has responded.
    fn start(&self, runtime: &str, name: &str) -> Outcome<Duration> {
        let begin = Instant::now();
        let mut command = self.mcpm(&["run", IMAGE, "--name", name, "--runtime", runtime]);
        let mut child = command.stdout(Stdio::piped()).spawn()?;
        let mut line = String::new();
        BufReader::new(child.stdout.take().ok_or("no output")?).read_line(&mut line)?;
        let url = line.split_whitespace().find(|word| word.starts_with("http://")).ok_or("no URL")?;
        let (address, path) = url["http://".len()..].split_once('/').ok_or("no path")?;
        let mut stream = TcpStream::connect(address)?;
        write!(
            stream,
            "POST /{path} HTTP/1.1\r\nHost: {address}\r\nContent-Type: application/json\r\nAccept: application/json, \
             text/event-stream\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{INITIALIZE}",
            INITIALIZE.len()
        )?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        let taken = begin.elapsed();
        if !answer.starts_with("HTTP/1.1 200") || !answer.contains(r#""name":"small""#) {
            return Err(answer.into());
        }
        child.wait()?;
        Ok(taken)
    }

    fn remove(&self, names: &[String]) -> Outcome<()> {
        done(self.mcpm(&["rm"]).args(names))
    }

    /// Starts the program directly, and returns the time until it has responded.
    fn start_bare(&self) -> Outcome<Duration> {
        let begin = Instant::now();
        let mut command = Command::new(self.home.path().join("server"));
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        writeln!(child.stdin.take().ok_or("no input")?, "{INITIALIZE}")?;
        let mut answer = String::new();
        BufReader::new(child.stdout.take().ok_or("no output")?).read_line(&mut answer)?;
        let taken = begin.elapsed();
        child.wait()?;
        Ok(taken)
    }

    /// Prints the medians of starts, each made after `prepare`. The ways take turns of [`TURN`] starts and remove their
    /// workloads afterwards: the kernel takes the network of a removed container apart later, which slows down a start.
    fn print_starts(&self, name: &str, turns: usize, prepare: impl Fn() -> Outcome<()>) -> Outcome<()> {
        let (mut bare, mut docker, mut builtin) = (Vec::new(), Vec::new(), Vec::new());
        let names: Vec<String> = (0..TURN).map(|number| format!("measured-{number}")).collect();
        for _ in 0..turns {
            for _ in 0..TURN {
                prepare()?;
                bare.push(self.start_bare()?);
            }
            for (runtime, times) in RUNTIMES.into_iter().zip([&mut docker, &mut builtin]) {
                for name in &names {
                    prepare()?;
                    times.push(self.start(runtime, name)?);
                }
                self.remove(&names)?;
            }
        }
        let [bare, docker, builtin] = [bare, docker, builtin].map(median_ms);
        writeln!(
            io::stdout(),
            "| {name} | {bare:.1} | {docker:.0} | {builtin:.1} | {:.1} | {:.1} |",
            docker / builtin,
            builtin - bare
        )?;
        Ok(())
    }
}

fn median_ms(mut times: Vec<Duration>) -> f64 {
    times.sort();
    times[times.len() / 2].as_secs_f64() * 1e3
}

fn done(command: &mut Command) -> Outcome<()> {
    let output = command.output()?;
    match output.status.success() {
        true => Ok(()),
        false => Err(format!("{command:?}: {}", String::from_utf8_lossy(&output.stderr)).into()),
    }
}

/// The memory of all processes in kilobytes, each shared page counted once.
fn memory_of_all_processes() -> Outcome<u64> {
    let mut all = 0;
    for entry in fs::read_dir("/proc")? {
        // A process may have ended, and kernel threads have no such file.
        let Ok(text) = fs::read_to_string(entry?.path().join("smaps_rollup")) else { continue };
        let pss = text.lines().find_map(|line| line.strip_prefix("Pss:"));
        all += pss.and_then(|value| value.split_whitespace().next()?.parse::<u64>().ok()).unwrap_or(0);
    }
    Ok(all)
}
