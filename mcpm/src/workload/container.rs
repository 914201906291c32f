//! Creates, starts, stops and removes the containers of a workload, and explains why they exited.

use std::{
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use async_trait::async_trait;
use futures_util::StreamExt as _;

use super::{
    WorkloadSpec, engine::runtime_of, exec_relay, ignore, secret_delivery::SecretDelivery,
    server_output::ServerOutput,
};
use crate::{
    Environment, Error, ErrorKind, Result,
    fnv1a::fnv1a,
    isolation::Isolation,
    options::Protocol,
    proxy::listener,
    runtime::{
        ContainerId, ContainerInfo, ContainerSpec, ContainerState, Exit, LogChunk, LogOptions, LogStream,
        Mount, Runtime, labels,
    },
    stdio::{Process, ProcessControl, ProcessExit, ProcessOutput, Spawn},
};

/// Limits on the excerpt of a container's output that explains its exit.
const MAX_EXCERPT_LINES: usize = 8;
const MAX_EXCERPT_BYTES: usize = 1000;

/// How long the engine may take to complete the creation of a container that a cancelled start has abandoned.
const ABANDONED_CREATION_TIMEOUT: Duration = Duration::from_secs(10);
/// Poll interval for that container, since the engine does not report it before its creation is complete.
const ABANDONED_CREATION_POLL: Duration = Duration::from_millis(50);

/// The number of container creations that the engine has not confirmed yet. A cancelled creation still counts, since
/// the engine may complete it nevertheless.
#[derive(Debug, Clone, Default)]
pub(super) struct UnconfirmedCreations(Arc<AtomicUsize>);

impl UnconfirmedCreations {
    async fn watch<T>(&self, creation: impl Future<Output = T>) -> T {
        self.0.fetch_add(1, Ordering::SeqCst);
        let created = creation.await;
        self.0.fetch_sub(1, Ordering::SeqCst);
        created
    }

    fn any(&self) -> bool {
        self.0.load(Ordering::SeqCst) > 0
    }
}

/// Creates and stops the containers of one workload.
#[derive(Debug, Clone)]
pub(super) struct Containers {
    pub(super) runtime: Arc<dyn Runtime>,
    pub(super) spec: ContainerSpec,
    /// The secrets that new containers get in addition to the spec.
    delivery: Arc<SecretDelivery>,
    /// The isolation of containers, while this process runs them.
    pub(super) isolation: Option<Arc<Isolation>>,
    /// Where the output of containers is recorded, while this process runs them.
    pub(super) output: Option<Arc<ServerOutput>>,
    environment: Environment,
    /// Whether the user's global ignore file applies.
    use_global_ignore_file: bool,
    pub(super) creations: UnconfirmedCreations,
}

impl Containers {
    /// Returns the containers of a workload; `None` for a remote server, which needs no engine. New containers get no
    /// secrets.
    pub(super) async fn for_workload(spec: &WorkloadSpec, environment: &Environment) -> Result<Option<Self>> {
        let Some(container) = spec.container() else { return Ok(None) };
        let runtime = runtime_of(environment, spec).await?;
        Ok(Some(Self {
            runtime,
            // Messages of a stdio server are data of its users.
            spec: ContainerSpec { unlogged: container.stdin, ..container.clone() },
            delivery: Arc::default(),
            isolation: None,
            output: None,
            environment: environment.clone(),
            use_global_ignore_file: spec.asked.ignore_globally.unwrap_or(true),
            creations: UnconfirmedCreations::default(),
        }))
    }

    /// Passes secrets to new containers.
    pub(super) fn with_secrets(mut self, delivery: SecretDelivery) -> Self {
        self.delivery = Arc::new(delivery);
        self
    }

    /// Returns a slot's stopped container: the existing one if it was created from the same spec, otherwise a new one.
    pub(super) async fn prepare(&self, slot: usize) -> Result<ContainerId> {
        let found = self.runtime.inspect(&self.slot_name(slot)).await?;
        // A container of another workload is left alone; the engine reports that the name is taken.
        let found = found.filter(|found| self.owns(found));
        if let Some(found) = found.as_ref().filter(|found| found.state == ContainerState::Running) {
            self.runtime.stop(&found.id, Duration::from_secs(2)).await?;
        }
        // The old container has exited by now; a running one could still move files.
        let spec = self.slot_spec(slot, self.overlays().await?);
        if let Some(found) = found {
            if found.labels.get(labels::SPEC) == spec.labels.get(labels::SPEC) {
                return Ok(found.id);
            }
            self.runtime.remove(&found.id).await?;
        }
        let spec = self.delivery.apply_to(spec);
        self.creations.watch(self.runtime.create(&spec)).await
    }

    /// Starts a slot's container. The error for a published port that is in use names the process that holds it, if it
    /// runs on this machine.
    pub(super) async fn start(&self, slot: usize, id: &ContainerId) -> Result<()> {
        if let Some(isolation) = &self.isolation {
            // A container that was left behind must have exited before: it has the same socket, and would get the
            // secrets.
            isolation.set_config(slot, &self.delivery.with_variables(&self.spec.env))?;
            exec_relay::upload_shim(self.runtime.as_ref(), &self.spec, id).await?;
        }
        let Err(error) = self.runtime.start(id).await else {
            if let Some(isolation) = &self.isolation {
                exec_relay::spawn_relay(&self.runtime, &self.spec, slot, id, isolation);
            }
            return Ok(());
        };
        if error.kind() == ErrorKind::PortTaken {
            let tcp =
                self.spec.ports.iter().filter(|port| port.protocol == Protocol::Tcp && port.host_port != 0);
            for port in tcp {
                match listener::bind(&port.host_ip.to_string(), port.host_port).await {
                    Err(taken) if taken.kind() == ErrorKind::PortTaken => {
                        return Err(taken.hint("choose another with `publish`"));
                    }
                    _ => {}
                }
            }
        }
        Err(error)
    }

    /// Returns the first container, if it exists.
    pub(super) async fn first(&self) -> Result<Option<ContainerInfo>> {
        let found = self.runtime.inspect(&self.spec.name).await?;
        Ok(found.filter(|found| self.owns(found)))
    }

    /// Tells whether a container belongs to this workload, and not to one of the same name in another state folder.
    fn owns(&self, container: &ContainerInfo) -> bool {
        belongs_to(container, &self.spec)
    }

    /// Stops every container of the workload.
    pub(super) async fn stop_all(&self, grace: Duration) -> Result<()> {
        for container in self.all().await? {
            self.runtime.stop(&container.id, grace).await?;
        }
        Ok(())
    }

    /// Waits for the container whose creation a start has abandoned, so that it can be removed.
    pub(super) async fn wait_for_abandoned(&self, creations: &UnconfirmedCreations) -> Result<()> {
        let deadline = Instant::now() + ABANDONED_CREATION_TIMEOUT;
        while creations.any() && self.all().await?.is_empty() && Instant::now() < deadline {
            tokio::time::sleep(ABANDONED_CREATION_POLL).await;
        }
        Ok(())
    }

    /// Removes every container of the workload.
    pub(super) async fn remove_all(&self) -> Result<()> {
        for container in self.all().await? {
            self.runtime.remove(&container.id).await?;
        }
        Ok(())
    }

    async fn all(&self) -> Result<Vec<ContainerInfo>> {
        let mut all = self.runtime.list().await?;
        all.retain(|container| self.owns(container));
        Ok(all)
    }

    /// Waits until a container exits, and returns why.
    pub(super) async fn wait_for_end(&self, id: &ContainerId) -> ProcessExit {
        let exit = self.runtime.wait(id).await;
        if let Some(output) = &self.output {
            output.is_complete().await;
        }
        let words = if exit.is_ok() { self.last_output(id).await } else { String::new() };
        describe_end(exit, &words)
    }

    /// Returns the last lines that a container wrote, as the end of a sentence.
    pub(super) async fn last_output(&self, id: &ContainerId) -> String {
        let options = LogOptions { follow: false, tail: Some(MAX_EXCERPT_LINES) };
        let Ok(mut logs) = self.runtime.logs(id, options).await else { return String::new() };
        let mut text = Vec::new();
        while let Some(Ok(chunk)) = logs.next().await {
            text.extend_from_slice(&chunk.bytes);
        }
        excerpt(&String::from_utf8_lossy(&text))
    }

    /// Records the output of a container. If the container does not run yet, this is the output of its next start.
    pub(super) async fn record_output(&self, id: &ContainerId) -> Result<()> {
        if let Some(output) = &self.output {
            output.record(self.runtime.attach(id).await?);
        }
        Ok(())
    }

    fn slot_name(&self, slot: usize) -> String {
        match slot {
            0 => self.spec.name.clone(),
            // Workload names are lower case, so this cannot be the name of another workload's container.
            slot => format!("{}.P{slot}", self.spec.name),
        }
    }

    /// Computes the overlays of ignored files anew: the last server may have moved files.
    async fn overlays(&self) -> Result<Vec<Mount>> {
        let (mounts, globally, environment) =
            (self.spec.mounts.clone(), self.use_global_ignore_file, self.environment.clone());
        let looking = tokio::task::spawn_blocking(move || {
            let covers = ignore::compute_overlays(&mounts, globally, &environment)?;
            covers.prepare(&environment).map(|()| covers)
        });
        let lost = |error| {
            Error::new(ErrorKind::Internal, "the search for ignored files did not complete").source(error)
        };
        let covers = looking.await.map_err(lost)??;
        if covers.overlays != self.spec.overlays {
            covers.notices.iter().for_each(|notice| tracing::warn!("{notice}"));
        }
        Ok(covers.overlays)
    }

    /// Returns the spec of a slot's container, labelled with a hash of it.
    fn slot_spec(&self, slot: usize, overlays: Vec<Mount>) -> ContainerSpec {
        let mut spec = ContainerSpec { overlays, ..self.spec.clone() };
        spec.name = self.slot_name(slot);
        if slot > 0 {
            // A port cannot be published twice.
            spec.ports.clear();
        }
        if let Some(entry) = &mut spec.entry {
            entry.command.push(slot.to_string());
            // Records of earlier versions may have these names, which are unused and must not change the hash.
            entry.hosts.clear();
            // The shim passes them to the server, so that the engine never sees them.
            spec.env.clear();
        }
        // With the id of the launch, a container that was created with secrets is not reused by a later launch.
        let text = serde_json::to_string(&spec).unwrap_or_default() + self.delivery.launch_id();
        spec.labels.insert(labels::SPEC.to_owned(), format!("{:016x}", fnv1a(text.as_bytes())));
        spec
    }
}

/// Tells whether a container belongs to the workload of this spec.
pub(super) fn belongs_to(container: &ContainerInfo, spec: &ContainerSpec) -> bool {
    [labels::NAME, labels::STATE].iter().all(|label| container.labels.get(*label) == spec.labels.get(*label))
}

fn describe_end(exit: Result<Exit>, words: &str) -> ProcessExit {
    match exit {
        Ok(exit) => {
            let cause = match exit {
                Exit { out_of_memory: true, .. } => " (out of memory)",
                Exit { exceeded_disk_limit: true, .. } => {
                    " (its container uses more disk space than allowed; `mcpm rm` deletes the container)"
                }
                Exit { .. } => "",
            };
            let reason = format!("exited with code {}{cause}{words}", exit.code);
            ProcessExit { exit: Some(exit), reason, transient: false }
        }
        Err(error) => {
            let passing = error.kind() == ErrorKind::EngineUnavailable;
            ProcessExit {
                exit: None,
                reason: format!("can no longer be observed: {error}"),
                transient: passing,
            }
        }
    }
}

/// The output of one process, for messages; the container's log also has that of earlier processes.
#[derive(Debug, Default)]
struct OutputExcerpt {
    /// The last lines of its standard error.
    stderr: Vec<u8>,
    /// The first lines of its standard output, where a program that is not an MCP server prints its usage.
    stdout: Vec<u8>,
}

impl OutputExcerpt {
    fn push(&mut self, chunk: &LogChunk) {
        match chunk.stream {
            LogStream::Stdout => {
                let room = (MAX_EXCERPT_BYTES / 2).saturating_sub(self.stdout.len()).min(chunk.bytes.len());
                self.stdout.extend_from_slice(&chunk.bytes[..room]);
            }
            LogStream::Stderr => {
                self.stderr.extend_from_slice(&chunk.bytes);
                let old = self.stderr.len().saturating_sub(MAX_EXCERPT_BYTES);
                self.stderr.drain(..old);
            }
        }
    }

    fn excerpt(&self) -> String {
        [&self.stderr, &self.stdout]
            .iter()
            .map(|bytes| excerpt(&String::from_utf8_lossy(bytes)))
            .find(|words| !words.is_empty())
            .unwrap_or_default()
    }
}

/// Returns the relevant lines of a log, as the end of a sentence.
fn excerpt(log: &str) -> String {
    // MCP messages explain nothing, and may be private.
    let is_word = |line: &&str| !line.is_empty() && !line.starts_with("{\"");
    let mut lines: Vec<&str> = log.lines().map(str::trim).filter(is_word).collect();
    lines.drain(..lines.len().saturating_sub(MAX_EXCERPT_LINES));
    let joined = lines.join(" | ");
    let cut = joined.len().saturating_sub(MAX_EXCERPT_BYTES);
    let start = (cut..=joined.len()).find(|at| joined.is_char_boundary(*at)).unwrap_or(joined.len());
    match &joined[start..] {
        "" => String::new(),
        words => format!("; last output: {words}"),
    }
}

#[async_trait]
impl Spawn for Containers {
    async fn spawn(&self, slot: usize) -> Result<Process> {
        let id = self.prepare(slot).await?;
        let attachment = self.runtime.attach(&id).await?;
        self.start(slot, &id).await?;
        let excerpt = Arc::new(Mutex::new(OutputExcerpt::default()));
        let (excerpt_writer, output) = (Arc::clone(&excerpt), self.output.clone());
        let stdout = attachment.output.filter_map(move |piece| {
            std::future::ready(match piece {
                Ok(chunk) => {
                    // No code panics while it holds the lock.
                    excerpt_writer.lock().unwrap_or_else(PoisonError::into_inner).push(&chunk);
                    if let Some(output) = &output {
                        output.write(&chunk);
                    }
                    (chunk.stream == LogStream::Stdout).then_some(Ok(chunk.bytes))
                }
                Err(error) => Some(Err(error)),
            })
        });
        Ok(Process {
            stdin: attachment.stdin,
            stdout: ProcessOutput::Chunks(stdout.boxed()),
            control: Box::new(ContainerControl {
                containers: self.clone(),
                id,
                output: excerpt,
                extra: slot > 0,
            }),
        })
    }
}

#[derive(Debug)]
struct ContainerControl {
    containers: Containers,
    id: ContainerId,
    output: Arc<Mutex<OutputExcerpt>>,
    /// Whether this is an additional container, which is removed when it exits.
    extra: bool,
}

#[async_trait]
impl ProcessControl for ContainerControl {
    async fn wait(&mut self) -> ProcessExit {
        let exit = self.containers.runtime.wait(&self.id).await;
        describe_end(exit, &self.output.lock().unwrap_or_else(PoisonError::into_inner).excerpt())
    }

    async fn stop(&mut self, grace: Duration) {
        if let Err(error) = self.containers.runtime.stop(&self.id, grace).await {
            tracing::warn!(%error, "a container could not be stopped");
        }
        if self.extra
            && let Err(error) = self.containers.runtime.remove(&self.id).await
        {
            tracing::warn!(%error, "a container could not be removed");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_excerpt_skips_protocol_messages() {
        for (log, words) in [
            ("", ""),
            ("\n  \n", ""),
            ("one\n\ntwo \n", "; last output: one | two"),
            ("{\"jsonrpc\":\"2.0\"}\none\n", "; last output: one"),
            ("{braces}\n", "; last output: {braces}"),
        ] {
            assert_eq!(excerpt(log), words, "{log:?}");
        }
        assert!(excerpt(&"é".repeat(2000)).len() <= MAX_EXCERPT_BYTES + 20);
    }

    #[test]
    fn the_excerpt_prefers_stderr_over_the_start_of_stdout() {
        let mut excerpt = OutputExcerpt::default();
        let chunk = |stream, text: String| LogChunk { stream, bytes: text.into(), time: None };
        excerpt.push(&chunk(LogStream::Stdout, format!("usage\n{}\n", "x".repeat(2 * MAX_EXCERPT_BYTES))));
        assert!(excerpt.excerpt().starts_with("; last output: usage | xx"));
        excerpt.push(&chunk(LogStream::Stderr, "y".repeat(2 * MAX_EXCERPT_BYTES)));
        excerpt.push(&chunk(LogStream::Stderr, "\nlast\n".to_owned()));
        assert!(excerpt.excerpt().ends_with("y | last"), "{}", excerpt.excerpt());
        assert!(excerpt.excerpt().len() < MAX_EXCERPT_BYTES + 20);
    }
}
