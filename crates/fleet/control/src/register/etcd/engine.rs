//! The thread on which tokio carries out the calls of one client.
//!
//! Callers wait on a channel with a time limit, so that no call lasts longer, whatever happens on the thread.

use std::sync::Arc;
use std::sync::mpsc::sync_channel;
use std::thread;
use std::time::Duration;

use tokio::runtime::{Builder, Handle};
use tokio::sync::Notify;

use super::members::Members;
use crate::register::error::RegisterError;

/// Time beyond a call's own limit, for the last attempt and for a busy host.
const GRACE: Duration = Duration::from_secs(1);

/// Why there is no answer of the thread itself.
pub(super) const STALLED: &str = "the thread that speaks to etcd stands still";

/// The thread, and what it knows of etcd.
pub(super) struct Engine {
    pub(super) members: Arc<Members>,
    runtime: Handle,
    stop: Arc<Notify>,
}

impl Engine {
    /// Starts the thread. It ends when this is dropped, and what is under way with it.
    ///
    /// # Errors
    /// If the system has no thread.
    pub(super) fn start(members: Members) -> Result<Engine, RegisterError> {
        let failed = |error: std::io::Error| RegisterError::Unavailable(format!("start a thread: {error}"));
        let runtime = Builder::new_current_thread().enable_all().build().map_err(failed)?;
        let (handle, stop) = (runtime.handle().clone(), Arc::new(Notify::new()));
        let stopped = Arc::clone(&stop);
        let work = move || {
            runtime.block_on(stopped.notified());
            // A look-up of a name may still be under way, which nothing ends.
            runtime.shutdown_background();
        };
        thread::Builder::new().name("etcd".to_owned()).spawn(work).map_err(failed)?;
        Ok(Engine { members: Arc::new(members), runtime: handle, stop })
    }

    /// Carries out a call whose own limit is `limit`.
    pub(super) fn run<T, F>(
        &self,
        limit: Duration,
        job: impl FnOnce(Arc<Members>) -> F,
    ) -> Result<T, RegisterError>
    where
        T: Send + 'static,
        F: Future<Output = Result<T, RegisterError>> + Send + 'static,
    {
        let job = job(Arc::clone(&self.members));
        let (sender, receiver) = sync_channel(1);
        let task = self.runtime.spawn(async move {
            // The caller may have given up.
            let _ = sender.send(job.await);
        });
        receiver.recv_timeout(limit + GRACE).unwrap_or_else(|_| {
            task.abort();
            Err(RegisterError::Unavailable(STALLED.to_owned()))
        })
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        self.stop.notify_one();
    }
}
