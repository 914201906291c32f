//! The threads that everything runs on, whichever language asked for it.
//!
//! They are started by the first task and ended by [`shutdown`]; a task after that starts new ones.

use std::{
    fmt,
    future::Future,
    panic::resume_unwind,
    sync::{Mutex, PoisonError},
    time::Duration,
};

use mcpm::{Error, ErrorKind, Result};
use tokio::{
    runtime::{Builder, Handle, Runtime},
    task::{JoinError, JoinHandle},
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use crate::held;

/// How long a shutdown waits for starts that are being undone and for stops.
const PATIENCE: Duration = Duration::from_secs(30);
/// How long a shutdown then waits for the threads.
const LAST_WAIT: Duration = Duration::from_secs(5);

static EXECUTOR: Mutex<Option<Executor>> = Mutex::new(None);

struct Executor {
    runtime: Runtime,
    /// Ends the tasks that were begun with [`start`].
    closing: CancellationToken,
    tasks: TaskTracker,
}

impl Executor {
    fn new() -> Result<Self> {
        let runtime = Builder::new_multi_thread().enable_all().thread_name("mcpm").build();
        let runtime = runtime
            .map_err(|error| Error::new(ErrorKind::Io, "cannot start the threads of mcpm").source(error))?;
        Ok(Self { runtime, closing: CancellationToken::new(), tasks: TaskTracker::new() })
    }
}

/// The answer to a call that would wait on a thread that must not wait.
#[derive(Debug)]
pub(crate) struct NotHere;

impl fmt::Display for NotHere {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("this call waits, and an asynchronous task runs on this thread; call it from another")
    }
}

impl From<NotHere> for Error {
    fn from(refused: NotHere) -> Self {
        Self::new(ErrorKind::Internal, refused.to_string())
    }
}

/// Tells whether the calling thread may wait.
pub(crate) fn may_wait() -> Result<(), NotHere> {
    if Handle::try_current().is_ok() { Err(NotHere) } else { Ok(()) }
}

/// A task that runs by itself.
#[must_use]
pub(crate) struct Task<T> {
    joined: JoinHandle<Result<T>>,
    #[cfg(feature = "capi")]
    executor: Handle,
}

/// Begins a task that a shutdown drops.
pub(crate) fn start<T: Send + 'static>(
    task: impl Future<Output = Result<T>> + Send + 'static,
) -> Result<Task<T>> {
    spawn(|closing| async move {
        tokio::select! {
            done = task => done,
            () = closing.cancelled() => Err(shut_down()),
        }
    })
}

/// Begins a task that a shutdown waits for.
pub(crate) fn finish<T: Send + 'static>(
    task: impl Future<Output = Result<T>> + Send + 'static,
) -> Result<Task<T>> {
    spawn(|_closing| task)
}

fn spawn<T: Send + 'static, F>(task: impl FnOnce(CancellationToken) -> F) -> Result<Task<T>>
where
    F: Future<Output = Result<T>> + Send + 'static,
{
    let mut place = EXECUTOR.lock().unwrap_or_else(PoisonError::into_inner);
    let executor = match &mut *place {
        Some(executor) => executor,
        empty => empty.insert(Executor::new()?),
    };
    let task = Box::pin(task(executor.closing.clone()));
    Ok(Task {
        joined: executor.tasks.spawn_on(task, executor.runtime.handle()),
        #[cfg(feature = "capi")]
        executor: executor.runtime.handle().clone(),
    })
}

impl<T> Task<T> {
    /// Waits on this thread, which [`may_wait`].
    #[cfg(feature = "capi")]
    pub(crate) fn wait(self) -> Result<T> {
        outcome(self.executor.block_on(self.joined))
    }

    /// Waits for the end. The task goes on when nobody waits any more.
    #[cfg(feature = "uniffi")]
    pub(crate) async fn done(self) -> Result<T> {
        outcome(self.joined.await)
    }

    /// Waits for the end. The task is dropped when nobody waits any more.
    #[cfg(feature = "uniffi")]
    pub(crate) async fn owned(self) -> Result<T> {
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

/// Undoes the starts under way, ends every workload that still runs, then ends the threads. Proxies end with them.
///
/// # Errors
/// `Internal` where one may not wait; otherwise the first failure of a workload's end.
pub(crate) fn shutdown() -> Result<()> {
    may_wait()?;
    let Some(executor) = EXECUTOR.lock().unwrap_or_else(PoisonError::into_inner).take() else {
        return Ok(());
    };
    executor.closing.cancel();
    executor.tasks.close();
    let ended = executor.runtime.block_on(async {
        // What takes longer is dropped with the threads.
        let _ = tokio::time::timeout(PATIENCE, executor.tasks.wait()).await;
        held::stop_all().await
    });
    executor.runtime.shutdown_timeout(LAST_WAIT);
    ended
}
