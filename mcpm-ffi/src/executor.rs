//! Runs the tasks of all bindings on threads of mcpm.
//!
//! The threads start when they are first needed. [`shutdown`] ends them; later tasks start new ones.

use std::{
    fmt,
    future::Future,
    panic::resume_unwind,
    sync::{Mutex, PoisonError},
    thread,
    time::Duration,
};

use mcpm::{Error, ErrorKind, Result};
use tokio::{
    runtime::{Builder, Handle, Runtime},
    task::{JoinError, JoinHandle},
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use crate::{sigpipe, workload_handle};

/// How long a shutdown waits for rollbacks and stops.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(30);
/// How long a shutdown then waits for the threads.
const THREAD_SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(5);

static EXECUTOR: Mutex<Option<Executor>> = Mutex::new(None);

struct Executor {
    runtime: Runtime,
    /// Cancels the tasks that [`spawn_cancellable`] has started.
    shutdown_token: CancellationToken,
    tasks: TaskTracker,
}

impl Executor {
    fn new() -> Result<Self> {
        let mut runtime = Builder::new_multi_thread();
        let runtime = runtime.enable_all().thread_name("mcpm").on_thread_start(sigpipe::block).build();
        let runtime = runtime
            .map_err(|error| Error::new(ErrorKind::Io, "cannot start the threads of mcpm").source(error))?;
        Ok(Self { runtime, shutdown_token: CancellationToken::new(), tasks: TaskTracker::new() })
    }
}

/// The error of a blocking call on a thread that must not block.
#[derive(Debug)]
pub(crate) struct InsideRuntime;

impl fmt::Display for InsideRuntime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(
            "this call blocks, but an asynchronous task runs on this thread; call it from another thread",
        )
    }
}

impl From<InsideRuntime> for Error {
    fn from(error: InsideRuntime) -> Self {
        Self::new(ErrorKind::Internal, error.to_string())
    }
}

/// Checks that the calling thread may block.
pub(crate) fn ensure_outside_runtime() -> Result<(), InsideRuntime> {
    if Handle::try_current().is_ok() { Err(InsideRuntime) } else { Ok(()) }
}

/// A task on the executor.
#[must_use]
pub(crate) struct SpawnedTask<T> {
    joined: JoinHandle<Result<T>>,
    #[cfg(feature = "capi")]
    executor: Handle,
}

/// Starts a task that a shutdown cancels.
pub(crate) fn spawn_cancellable<T: Send + 'static>(
    task: impl Future<Output = Result<T>> + Send + 'static,
) -> Result<SpawnedTask<T>> {
    spawn(|closing| async move {
        tokio::select! {
            done = task => done,
            () = closing.cancelled() => Err(shut_down()),
        }
    })
}

/// Starts a task that a shutdown waits for.
pub(crate) fn spawn_to_completion<T: Send + 'static>(
    task: impl Future<Output = Result<T>> + Send + 'static,
) -> Result<SpawnedTask<T>> {
    spawn(|_closing| task)
}

/// Starts a task, and calls `end` with its outcome on a thread that may block. The task is cancelled by `cancelled` and
/// by a shutdown; if `cancelled` is `None`, nothing cancels the task. A shutdown waits for the task and for `end`.
#[cfg(feature = "capi")]
pub(crate) fn spawn_with_callback<T: Send + 'static>(
    task: impl Future<Output = Result<T>> + Send + 'static,
    cancelled: Option<CancellationToken>,
    end: impl FnOnce(Result<T>) + Send + 'static,
) -> Result<()> {
    let spawned = spawn(|closing| async move {
        let task = futures_util::FutureExt::catch_unwind(std::panic::AssertUnwindSafe(task));
        let panicked = |_| Err(Error::new(ErrorKind::Internal, "the operation panicked"));
        let outcome = match cancelled {
            None => task.await.unwrap_or_else(panicked),
            Some(cancelled) => tokio::select! {
                done = task => done.unwrap_or_else(panicked),
                () = cancelled.cancelled() => {
                    Err(Error::new(ErrorKind::Interrupted, "the operation was cancelled"))
                }
                () = closing.cancelled() => Err(shut_down()),
            },
        };
        // A callback that panics ends only its own thread's work.
        let _ = tokio::task::spawn_blocking(|| end(outcome)).await;
        Ok(())
    })?;
    drop(spawned);
    Ok(())
}

/// Calls `body` on this thread, with access to mcpm's threads.
#[cfg(feature = "capi")]
pub(crate) fn with_threads<T>(body: impl FnOnce() -> Result<T>) -> Result<T> {
    let mut slot = EXECUTOR.lock().unwrap_or_else(PoisonError::into_inner);
    let handle = executor(&mut slot)?.runtime.handle().clone();
    drop(slot);
    let _context = handle.enter();
    body()
}

fn executor(slot: &mut Option<Executor>) -> Result<&mut Executor> {
    Ok(match slot {
        Some(executor) => executor,
        empty => empty.insert(Executor::new()?),
    })
}

fn spawn<T: Send + 'static, F>(task: impl FnOnce(CancellationToken) -> F) -> Result<SpawnedTask<T>>
where
    F: Future<Output = Result<T>> + Send + 'static,
{
    let mut slot = EXECUTOR.lock().unwrap_or_else(PoisonError::into_inner);
    let executor = executor(&mut slot)?;
    let task = Box::pin(task(executor.shutdown_token.clone()));
    Ok(SpawnedTask {
        joined: executor.tasks.spawn_on(task, executor.runtime.handle()),
        #[cfg(feature = "capi")]
        executor: executor.runtime.handle().clone(),
    })
}

impl<T> SpawnedTask<T> {
    /// Blocks this thread until the task has ended; call [`ensure_outside_runtime`] first.
    #[cfg(feature = "capi")]
    pub(crate) fn block_on(self) -> Result<T> {
        outcome(self.executor.block_on(self.joined))
    }

    /// Waits for the end of the task. If the caller is cancelled, the task continues.
    #[cfg(feature = "uniffi")]
    pub(crate) async fn join(self) -> Result<T> {
        outcome(self.joined.await)
    }

    /// Waits for the end of the task. If the caller is cancelled, the task is cancelled as well.
    #[cfg(feature = "uniffi")]
    pub(crate) async fn join_or_abort(self) -> Result<T> {
        outcome(tokio_util::task::AbortOnDropHandle::new(self.joined).await)
    }
}

fn outcome<T>(joined: Result<Result<T>, JoinError>) -> Result<T> {
    joined.unwrap_or_else(|error| match error.try_into_panic() {
        Ok(panic) => resume_unwind(panic),
        Err(_dropped) => Err(shut_down()),
    })
}

fn shut_down() -> Error {
    Error::new(ErrorKind::Interrupted, "mcpm was shut down")
}

/// Rolls back starts in progress, stops all running workloads, then ends the threads and with them the proxies.
///
/// # Errors
/// `Internal` on a thread that must not block; otherwise the first failure of stopping a workload.
pub(crate) fn shutdown() -> Result<()> {
    ensure_outside_runtime()?;
    let Some(executor) = EXECUTOR.lock().unwrap_or_else(PoisonError::into_inner).take() else {
        return Ok(());
    };
    // Runs on another thread: in a handler that runs at the exit of the process, tokio's thread-local values are gone.
    let ending = thread::Builder::new().name("mcpm-shutdown".to_owned()).spawn(move || end(executor));
    let ending = ending
        .map_err(|error| Error::new(ErrorKind::Io, "cannot start a thread for the shutdown").source(error))?;
    ending.join().unwrap_or_else(|panic| resume_unwind(panic))
}

fn end(executor: Executor) -> Result<()> {
    executor.shutdown_token.cancel();
    executor.tasks.close();
    let ended = executor.runtime.block_on(async {
        // Tasks that take longer are cancelled with the threads.
        let _ = tokio::time::timeout(SHUTDOWN_TIMEOUT, executor.tasks.wait()).await;
        workload_handle::stop_all().await
    });
    executor.runtime.shutdown_timeout(THREAD_SHUTDOWN_TIMEOUT);
    ended
}
