//! The helper thread, which runs tokio's drivers.

use crate::WithTokio;
use std::fmt;
use std::future::Future;
use std::io;
use std::sync::{Arc, OnceLock};
use std::thread;
use tokio::runtime::{Builder, EnterGuard, Handle};
use tokio::sync::oneshot;

/// The name of the helper thread, which tools such as `top` show.
const THREAD_NAME: &str = "creel-tokio";

/// A tokio runtime for futures that a Creel pool polls.
///
/// Clones share one runtime. A runtime from [`new`](Self::new) ends when you drop the last clone
/// and the last future that it wraps.
///
/// ```
/// use creel_tokio::Tokio;
/// use std::time::Duration;
///
/// let tokio = Tokio::new()?;
/// let pool = creel::Pool::builder().workers(1).build()?;
/// pool.block_on(tokio.wrap(async { tokio::time::sleep(Duration::from_millis(1)).await }));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct Tokio {
    shared: Arc<Shared>,
}

struct Shared {
    handle: Handle,
    /// The helper thread ends when this sender is dropped. The sender is `None` if the runtime is
    /// not ours.
    _helper: Option<oneshot::Sender<()>>,
}

impl Tokio {
    /// Starts a helper thread with a tokio runtime of its own.
    ///
    /// The thread ends after the last clone of this value and the last future that it wraps are
    /// dropped. These drops do not wait for the thread. Tasks of `tokio::spawn` that have not ended
    /// are then dropped at their next `.await`.
    ///
    /// # Errors
    ///
    /// Returns an error if the operating system refuses the thread or its descriptors.
    pub fn new() -> io::Result<Self> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let handle = runtime.handle().clone();
        let (sender, dropped) = oneshot::channel::<()>();
        thread::Builder::new()
            .name(THREAD_NAME.into())
            .spawn(move || {
                // This future is ready only after the sender was dropped. Until then, the thread
                // sleeps in tokio's drivers and runs the tasks of `tokio::spawn`.
                let _ = runtime.block_on(dropped);
            })?;
        Ok(Tokio {
            shared: Arc::new(Shared {
                handle,
                _helper: Some(sender),
            }),
        })
    }

    /// Uses a runtime that your program runs itself. For example, pass the handle of a
    /// multi-threaded runtime if the crates that you use spawn many tasks, or call `block_in_place`
    /// in them.
    ///
    /// The runtime must be running. If it is a current-thread runtime, a thread must be inside its
    /// `block_on`, because sockets and timers otherwise never become ready.
    ///
    /// ```
    /// use creel_tokio::Tokio;
    ///
    /// let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    /// let tokio = Tokio::from_handle(runtime.handle().clone());
    /// let pool = creel::Pool::builder().workers(1).build()?;
    /// let task = pool.spawn(tokio.wrap(async {
    ///     tokio::spawn(async { 6 * 7 }).await
    /// }));
    /// assert_eq!(runtime.block_on(task)??, 42);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn from_handle(handle: Handle) -> Self {
        Tokio {
            shared: Arc::new(Shared {
                handle,
                _helper: None,
            }),
        }
    }

    /// Returns the runtime of the process, which [`with_tokio`](crate::with_tokio) uses. The first
    /// call starts its helper thread, which never ends.
    ///
    /// # Panics
    ///
    /// Panics if the operating system refuses the helper thread or its descriptors.
    pub fn global() -> &'static Tokio {
        static GLOBAL: OnceLock<Tokio> = OnceLock::new();
        GLOBAL.get_or_init(|| {
            Tokio::new().unwrap_or_else(|e| panic!("cannot start tokio's helper thread: {e}"))
        })
    }

    /// Wraps a future that needs tokio's context, so that any pool can run it. The future keeps
    /// this runtime alive.
    pub fn wrap<F: Future>(&self, future: F) -> WithTokio<F> {
        WithTokio::new(self.clone(), future)
    }

    /// Enters tokio's context on this thread until the guard is dropped. Use it for a function that
    /// needs the context and is not `async`, for example one that creates a client with a
    /// background task. Do not keep the guard across an `.await`.
    ///
    /// ```
    /// use creel_tokio::Tokio;
    ///
    /// let entered = Tokio::global().enter();
    /// let interval = tokio::time::interval(std::time::Duration::from_secs(1));
    /// drop(entered);
    /// # drop(interval);
    /// ```
    #[must_use = "the context ends when the guard is dropped"]
    pub fn enter(&self) -> EnterGuard<'_> {
        self.shared.handle.enter()
    }

    /// Enters the context for a destructor. Returns `None` if that is not possible any more.
    pub(crate) fn enter_to_drop(&self) -> Option<EnterGuard<'_>> {
        // tokio keeps its context in a thread-local variable. If the thread is ending and has
        // already dropped this variable, entering would panic.
        let is_gone = Handle::try_current().is_err_and(|e| e.is_thread_local_destroyed());
        (!is_gone).then(|| self.enter())
    }

    /// Returns the handle of the runtime.
    pub fn handle(&self) -> &Handle {
        &self.shared.handle
    }
}

impl fmt::Debug for Tokio {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Tokio").field(self.handle()).finish()
    }
}
