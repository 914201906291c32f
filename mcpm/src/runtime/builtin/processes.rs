//! Starts and stops the processes of containers, and waits for their end.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use futures_util::StreamExt as _;
use tokio::sync::watch;

use super::{
    container::{ContainerFolder, ContainerProcess},
    control_group,
    disk_limit::{self, DiskLimit},
    sandbox::{self, SandboxNetwork, SandboxPlan, SandboxStream, SandboxStreams},
    streams, support,
};
use crate::{
    Error, ErrorKind, Result,
    blocking::run_blocking,
    runtime::{Attachment, ContainerId, Exit, output_log::LogWriter},
    state::ProcessId,
};

/// How long the kernel may take to end the processes of a killed container.
const KILL_TIMEOUT: Duration = Duration::from_secs(10);

/// The containers that this process has started. The kernel ends them with this process.
#[derive(Debug, Clone, Default)]
pub(super) struct Processes {
    /// The streams of containers that were attached to and are not started yet.
    attached: Arc<Mutex<HashMap<ContainerId, SandboxStreams>>>,
    /// The exits of containers that were started.
    exits: Arc<Mutex<HashMap<ContainerId, watch::Receiver<Option<Exit>>>>>,
}

impl Processes {
    /// Creates the standard streams of the next process of a container, whose standard input is open if `stdin` is set.
    pub(super) fn attach(&self, folder: &ContainerFolder, log: LogWriter, stdin: bool) -> Result<Attachment> {
        let (streams, attachment) = streams::attach(log, stdin)?;
        lock(&self.attached).insert(folder.id(), streams);
        Ok(attachment)
    }

    /// Starts a container, which is killed when it exceeds the limit of its disk space.
    ///
    /// # Errors
    /// `StartFailed` if its program cannot be run; `Unsupported` for options that this machine does not allow.
    pub(super) async fn start(
        &self,
        folder: &ContainerFolder,
        plan: &SandboxPlan,
        disk: Option<DiskLimit>,
    ) -> Result<()> {
        let id = folder.id();
        let attached = lock(&self.attached).remove(&id);
        let is_attached = attached.is_some();
        let streams = attached.unwrap_or(SandboxStreams {
            stdin: SandboxStream::Null,
            stdout: SandboxStream::Piped,
            stderr: SandboxStream::Piped,
        });
        let spare = streams.try_clone().map_err(|error| {
            Error::new(ErrorKind::Io, "cannot open the streams of a container").source(error)
        })?;
        let own_folder = folder.clone();
        let (exit_file, log) = run_blocking(move || {
            let log = if is_attached { None } else { Some(LogWriter::open(own_folder.log())?) };
            Ok((own_folder.begin_run()?, log))
        })
        .await?;
        let spawned = sandbox::spawn(plan, streams, exit_file).await;
        if is_attached && spawned.as_ref().is_err_and(sandbox::is_overlay_failure) {
            // The caller tries again with another root, and the same streams.
            lock(&self.attached).insert(id.clone(), spare);
        } else {
            drop(spare);
        }
        let mut process = spawned?;
        let landlock = process.landlock_version();
        tracing::debug!(container = %id, ?landlock, "a sandbox was started");
        if plan.network == SandboxNetwork::Host && support::allows_abstract_sockets(landlock) {
            tracing::warn!(
                container = %id,
                "the server can connect to abstract sockets of this machine, since it uses the network `host` and the kernel \
                 is older than Linux 6.12 or has no Landlock"
            );
        }
        if let Some(monitor) = process.monitor_pid() {
            let own_folder = folder.clone();
            let started =
                ContainerProcess { monitor: ProcessId::of(monitor), first: ProcessId::of(process.pid()) };
            run_blocking(move || own_folder.set_process(started)).await?;
        }
        let drained = log.map(|log| {
            let output = streams::output(process.stdout.take(), process.stderr.take());
            let mut output = streams::logged(output, log, |_| true);
            // The task ends with the container.
            tokio::spawn(async move { while output.next().await.is_some() {} })
        });
        let (exited, exit) = watch::channel(None);
        lock(&self.exits).insert(id, exit);
        let folder = folder.clone();
        // This task owns the process, which is killed when the task is dropped.
        tokio::spawn(async move {
            let exceeded_disk_limit = disk_limit::enforce(disk, &mut process).await;
            let exit = process.wait().await.map(|exit| Exit { exceeded_disk_limit, ..exit });
            let exit = exit.unwrap_or_else(|error| {
                tracing::warn!(%error, container = %folder.id(), "cannot wait for the process of a \
                    container");
                folder.exit()
            });
            control_group::remove(folder.path());
            if let Some(drained) = drained {
                // The exit is reported only after all output is in the log. The wait is limited, since another process
                // that got the pipe from the server may still hold it.
                let _ = tokio::time::timeout(KILL_TIMEOUT, drained).await;
            }
            exited.send_replace(Some(exit));
        });
        Ok(())
    }

    /// Waits until a container exits.
    pub(super) async fn wait(&self, folder: &ContainerFolder) -> Exit {
        let exit = lock(&self.exits).get(&folder.id()).cloned();
        if let Some(mut exit) = exit
            && let Ok(exit) = exit.wait_for(Option::is_some).await
            && let Some(exit) = *exit
        {
            return exit;
        }
        // Another process has started the container.
        if let Some(process) = folder.running_process() {
            process.monitor.exited().await;
        }
        folder.exit()
    }

    /// Forgets a container that is removed.
    pub(super) fn forget(&self, id: &ContainerId) {
        lock(&self.attached).remove(id);
        lock(&self.exits).remove(id);
    }
}

/// Stops a container, whichever process has started it.
pub(super) async fn stop(folder: &ContainerFolder, grace: Duration) -> Result<()> {
    let Some(process) = folder.running_process() else { return Ok(()) };
    // The monitor forwards the signal to the first process of the sandbox.
    process.monitor.terminate()?;
    if process.monitor.wait_exit(grace).await {
        return Ok(());
    }
    // When the first process is killed, the kernel kills all other processes of the sandbox, and the monitor records
    // the exit. If the first process is gone already, the monitor is about to exit.
    if process.first.start_time.is_some() {
        process.first.kill()?;
    }
    if !process.monitor.wait_exit(KILL_TIMEOUT).await {
        process.monitor.kill()?;
        process.monitor.wait_exit(KILL_TIMEOUT).await;
    }
    control_group::remove(folder.path());
    Ok(())
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // No code panics while it holds the lock.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
