//! Starts processes for a measurement, and reads the kernel's figures about them (proc(5)).

use std::{
    fs,
    io::{BufRead as _, BufReader},
    path::Path,
    process::{Child, Command, Stdio},
    time::Duration,
};

use rustix::process::{Pid, Signal, kill_process};

use super::load::Outcome;

/// A process that ends when this value is dropped.
pub(super) struct Started {
    child: Child,
    /// The process that is measured.
    pub(super) pid: u32,
    pub(super) port: u16,
}

/// Starts a build of this program in a role, after the words of `wrapper`, if any.
pub(super) fn role(wrapper: &[String], own: &Path, role: &str, argument: &str) -> Outcome<Started> {
    let mut command = match wrapper.split_first() {
        Some((program, words)) => {
            let mut command = Command::new(program);
            command.args(words).arg(own);
            command
        }
        None => Command::new(own),
    };
    let mut child = command.args(["--role", role, argument]).stdout(Stdio::piped()).spawn()?;
    let mut port = String::new();
    BufReader::new(child.stdout.take().ok_or("no output")?).read_line(&mut port)?;
    let port = port.trim().parse().map_err(|_| format!("`{role}` did not start"))?;
    Ok(Started { pid: child.id(), child, port })
}

/// Starts nginx as a plain reverse proxy: one worker, persistent connections, no buffering, no log.
pub(super) fn nginx(wrapper: &[String], folder: &Path, upstream: u16) -> Outcome<Started> {
    let port = std::net::TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
    let config = format!(
        "worker_processes 1; daemon off; master_process {master}; pid {folder}/pid; error_log {folder}/error;
         events {{ worker_connections 2048; }}
         http {{
             access_log off; client_body_temp_path {folder}/a; proxy_temp_path {folder}/b;
             fastcgi_temp_path {folder}/c; uwsgi_temp_path {folder}/d; scgi_temp_path {folder}/e;
             keepalive_requests 1000000000; keepalive_timeout 3600;
             upstream server {{
                 server 127.0.0.1:{upstream}; keepalive 512;
                 keepalive_requests 1000000000; keepalive_timeout 3600;
             }}
             server {{
                 listen 127.0.0.1:{port};
                 location / {{
                     proxy_pass http://server; proxy_http_version 1.1; proxy_set_header Connection \"\";
                     proxy_buffering off;
                 }}
             }}
         }}",
        // Under a wrapper, nginx has only one process, which is measured.
        master = if wrapper.is_empty() { "on" } else { "off" },
        folder = folder.display(),
    );
    let file = folder.join("config");
    fs::write(&file, config)?;
    let mut words = wrapper.iter().map(String::as_str).chain(["nginx", "-c"]);
    let mut command = Command::new(words.next().unwrap_or_default());
    let child = command.args(words).arg(&file).stderr(Stdio::null()).spawn()?;
    let mut started = Started { pid: child.id(), child, port };
    for _ in 0..500 {
        if std::net::TcpStream::connect(("127.0.0.1", port)).is_ok() {
            let children = format!("/proc/{0}/task/{0}/children", started.pid);
            match fs::read_to_string(children)?.split_whitespace().next() {
                Some(worker) => started.pid = worker.parse()?,
                // The master process listens before it has started the worker process.
                None if wrapper.is_empty() => continue,
                None => {}
            }
            return Ok(started);
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    Err("nginx did not start".into())
}

/// Returns the processor time that these processes have used so far.
pub(super) fn cpu(pids: &[u32]) -> Outcome<Duration> {
    let mut ticks = 0;
    for pid in pids {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat"))?;
        let fields = stat.rsplit_once(')').ok_or("no fields")?.1;
        ticks +=
            fields.split_whitespace().skip(11).take(2).filter_map(|n| n.parse::<u64>().ok()).sum::<u64>();
    }
    Ok(Duration::from_secs(ticks) / u32::try_from(rustix::param::clock_ticks_per_second())?)
}

/// Returns the resident memory of these processes together, now and at most, in MB.
pub(super) fn memory(pids: &[u32]) -> Outcome<(f64, f64)> {
    let (mut now, mut most) = (0, 0);
    for pid in pids {
        let status = fs::read_to_string(format!("/proc/{pid}/status"))?;
        let field = |name: &str| -> Option<u64> {
            let line = status.lines().find_map(|line| line.strip_prefix(name))?;
            line.split_whitespace().next()?.parse().ok()
        };
        now += field("VmRSS:").ok_or("no VmRSS")?;
        most += field("VmHWM:").ok_or("no VmHWM")?;
    }
    Ok((now as f64 / 1024.0, most as f64 / 1024.0))
}

impl Started {
    /// Asks the process to end, and waits.
    pub(super) fn end(mut self) -> Outcome<()> {
        if let Some(pid) = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw) {
            kill_process(pid, Signal::TERM)?;
        }
        self.child.wait()?;
        Ok(())
    }
}

impl Drop for Started {
    fn drop(&mut self) {
        // The process may have ended.
        if self.child.try_wait().is_ok_and(|ended| ended.is_none())
            && let Some(pid) = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw)
        {
            let _ = kill_process(pid, Signal::TERM);
            let _ = self.child.wait();
        }
    }
}

/// Returns the number of instructions that callgrind has counted.
pub(super) fn total(file: &Path) -> Outcome<u64> {
    let counts = fs::read_to_string(file)?;
    let total = counts.lines().find_map(|line| line.strip_prefix("totals: ")).ok_or("no totals")?;
    Ok(total.trim().parse()?)
}
