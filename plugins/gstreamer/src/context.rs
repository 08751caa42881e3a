//! Contexts: pools that elements share by name.
//!
//! Elements whose property `context` has the same value run on the same [`creel::Pool`]. The first
//! of them that leaves the state NULL creates the pool, and the last one that returns to NULL ends
//! it. Therefore the settings of the first element count. An element that asks for other settings
//! posts a warning and uses the pool as it is. This is not an error, because a pipeline that sets
//! `context-wait` on only one of its elements should still run.

use creel::{BuildError, Observe, Placement, Pool, Wait};
use gst::glib;
use gst::prelude::*;
use std::collections::HashMap;
use std::error::Error;
use std::fmt;
use std::iter::successors;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock, Mutex, PoisonError, Weak};
use std::time::Duration;

use crate::settings::Settings;

/// The contexts that are in use.
static CONTEXTS: LazyLock<Mutex<HashMap<String, Weak<Context>>>> = LazyLock::new(Mutex::default);

/// The longest quantum that an element accepts, in milliseconds.
const WAIT_MS_MAX: u32 = 1_000;

/// The settings of a context's pool.
#[derive(Clone, Debug, PartialEq)]
struct Knobs {
    workers: usize,
    placement: String,
    wait: Wait,
}

/// A worker of a context.
pub(crate) struct Worker {
    /// The pool, without keeping its threads alive.
    pool: Pool,
    index: usize,
}

impl Worker {
    /// Spawns a task that is bound to this worker. Otherwise a thread that waits in `Pool::block_on`
    /// could run the task, and such a thread must not push buffers.
    pub(crate) fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) -> Task {
        Task(Some(self.pool.spawn_on(self.index, task)))
    }

    /// Makes the worker run the tasks that were woken, although its quantum is not over. Timers and
    /// sockets still wait for the end of the quantum.
    pub(crate) fn hurry(&self) {
        // The pool can only have ended or have fewer workers if its last element is gone.
        let _ = self.pool.wake(self.index);
    }
}

/// A pool that elements share by name.
pub(crate) struct Context {
    name: String,
    knobs: Knobs,
    pool: Pool,
    workers: Vec<Arc<Worker>>,
    /// The number of tasks so far. Its remainder by the number of workers is the index of the
    /// worker that gets the next task.
    next: AtomicUsize,
    /// Whether `creel top` can show the pool.
    is_observed: AtomicBool,
    /// Pools of buffers, by the size of a buffer in bytes.
    memory: Mutex<HashMap<usize, gst::BufferPool>>,
}

/// Returns the properties that select a context.
pub(crate) fn properties() -> Vec<glib::ParamSpec> {
    vec![
        glib::ParamSpecString::builder("context")
            .nick("Context")
            .blurb("Name of the context. Elements with the same name share the same threads")
            .default_value(Some(""))
            .mutable_ready()
            .build(),
        glib::ParamSpecUInt::builder("context-wait")
            .nick("Context Wait")
            .blurb("Quantum of the context in ms: its threads react at most once per quantum. With 0, they react at once and sleep when there is nothing to do")
            .maximum(WAIT_MS_MAX)
            .default_value(0)
            .mutable_ready()
            .build(),
        glib::ParamSpecUInt::builder("workers")
            .nick("Workers")
            .blurb("Number of threads of the context")
            .minimum(1)
            .maximum(1_024)
            .default_value(1)
            .mutable_ready()
            .build(),
        glib::ParamSpecString::builder("placement")
            .nick("Placement")
            .blurb("CPUs of the context's threads: unpinned, cores, pus, close, spread, fast-cores, per-cache, per-node, or a list such as 0,2-3")
            .default_value(Some("unpinned"))
            .mutable_ready()
            .build(),
        glib::ParamSpecString::builder("wait")
            .nick("Wait")
            .blurb("How the context's threads wait: throttle (by the property context-wait), park, or adaptive, which spins for a few microseconds if this has paid off")
            .default_value(Some("throttle"))
            .mutable_ready()
            .build(),
        glib::ParamSpecBoolean::builder("observe")
            .nick("Observe")
            .blurb("Whether `creel top` can show the context's threads")
            .default_value(false)
            .mutable_ready()
            .build(),
    ]
}

impl Knobs {
    fn of(settings: &Settings) -> Result<Self, gst::ErrorMessage> {
        let quantum = Duration::from_millis(settings.get::<u32>("context-wait").into());
        let wait = match settings.string("wait").as_str() {
            "throttle" if quantum.is_zero() => Wait::Park,
            "throttle" => Wait::Throttle(quantum),
            "park" => Wait::Park,
            "adaptive" => Wait::Adaptive,
            other => {
                return Err(gst::error_msg!(
                    gst::LibraryError::Settings,
                    ["cannot use wait={other}: expected throttle, park or adaptive"]
                ));
            }
        };
        Ok(Self {
            workers: settings.get::<u32>("workers") as usize,
            placement: settings.string("placement"),
            wait,
        })
    }

    fn build(&self, name: &str) -> Result<Pool, String> {
        let placement: Placement = self
            .placement
            .parse()
            .map_err(|error| format!("cannot use placement={}: {error}", self.placement))?;
        let pool_name = if name.is_empty() { "creel" } else { name };
        Pool::builder()
            .name(pool_name)
            .workers(self.workers)
            .placement(placement)
            .wait(self.wait)
            .build()
            .map_err(with_causes)
    }
}

impl fmt::Display for Knobs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "workers={} placement={} ", self.workers, self.placement)?;
        match self.wait {
            Wait::Throttle(quantum) => write!(f, "context-wait={}", quantum.as_millis()),
            Wait::Adaptive => write!(f, "wait=adaptive"),
            _ => write!(f, "context-wait=0"),
        }
    }
}

/// Returns the message of an error of the pool and the messages of its causes.
fn with_causes(error: BuildError) -> String {
    let causes = successors(error.source(), |cause| (*cause).source());
    causes.fold(error.to_string(), |text, cause| format!("{text}: {cause}"))
}

fn cannot_create(name: &str, error: &str) -> gst::ErrorMessage {
    gst::error_msg!(
        gst::LibraryError::Settings,
        ["cannot create the context `{name}`: {error}"]
    )
}

impl Context {
    /// Returns the context that the settings of `element` name. Creates its pool if no element uses
    /// the name.
    pub(crate) fn acquire(
        settings: &Settings,
        element: &impl IsA<gst::Element>,
    ) -> Result<Arc<Self>, gst::ErrorMessage> {
        let name = settings.string("context");
        let knobs = Knobs::of(settings)?;
        let mut contexts = CONTEXTS.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(context) = contexts.get(&name).and_then(Weak::upgrade) {
            drop(contexts);
            if context.knobs != knobs {
                gst::element_warning!(
                    element,
                    gst::LibraryError::Settings,
                    (
                        "The context `{name}` already runs with {}, so {knobs} has no effect",
                        context.knobs
                    )
                );
            }
            if settings.get("observe") {
                context.observe()?;
            }
            return Ok(context);
        }
        let pool = knobs
            .build(&name)
            .map_err(|error| cannot_create(&name, &error))?;
        let worker = |index| {
            let pool = pool.handle();
            Arc::new(Worker { pool, index })
        };
        let context = Arc::new(Self {
            name: name.clone(),
            workers: (0..knobs.workers).map(worker).collect(),
            knobs,
            pool,
            next: AtomicUsize::new(0),
            is_observed: AtomicBool::new(false),
            memory: Mutex::default(),
        });
        if settings.get("observe") {
            context.observe()?;
        }
        contexts.retain(|_, context| context.strong_count() > 0);
        contexts.insert(name, Arc::downgrade(&context));
        Ok(context)
    }

    /// Lets `creel top` show the pool.
    fn observe(&self) -> Result<(), gst::ErrorMessage> {
        if !self.is_observed.swap(true, Ordering::Relaxed) {
            let observed = self.pool.observe(Observe::Look);
            observed.map_err(|error| cannot_create(&self.name, &with_causes(error)))?;
        }
        Ok(())
    }

    /// Chooses the worker of the next task.
    pub(crate) fn next_worker(&self) -> Arc<Worker> {
        let next = self.next.fetch_add(1, Ordering::Relaxed) % self.workers.len();
        Arc::clone(&self.workers[next])
    }

    /// Returns the number of workers.
    pub(crate) fn workers(&self) -> usize {
        self.workers.len()
    }

    /// Returns the latency that the context adds to a live stream. It is the quantum, or zero if
    /// the context has none.
    pub(crate) fn latency(&self) -> gst::ClockTime {
        match self.knobs.wait {
            Wait::Throttle(quantum) => gst::ClockTime::from_nseconds(quantum.as_nanos() as u64),
            _ => gst::ClockTime::ZERO,
        }
    }

    /// Returns a pool of buffers of `size` bytes. All elements of the context share it, because a
    /// worker fills the buffers of one element at a time.
    pub(crate) fn memory(&self, size: usize) -> Result<gst::BufferPool, glib::BoolError> {
        let mut memory = self.memory.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(pool) = memory.get(&size) {
            return Ok(pool.clone());
        }
        let pool = gst::BufferPool::new();
        let mut config = pool.config();
        config.set_params(None, size as u32, 0, 0);
        pool.set_config(config)?;
        pool.set_active(true)?;
        memory.insert(size, pool.clone());
        Ok(pool)
    }

    /// Adds the fields of the context to the structure of the property `stats`.
    pub(crate) fn describe(&self, stats: &mut gst::Structure) {
        let pool = self.pool.stats();
        let sum =
            |field: fn(&creel::WorkerStats) -> u64| pool.workers.iter().map(field).sum::<u64>();
        stats.set("context", &self.name);
        stats.set("context-workers", pool.workers.len() as u64);
        stats.set("context-polls", pool.tasks.polls);
        stats.set("context-parks", sum(|worker| worker.parks));
        stats.set(
            "context-parked",
            sum(|worker| worker.parked.as_nanos() as u64),
        );
        stats.set("context-events", sum(|worker| worker.events));
        stats.set("context-timers", sum(|worker| worker.timers));
    }
}

impl Drop for Context {
    fn drop(&mut self) {
        let memory = self
            .memory
            .get_mut()
            .unwrap_or_else(PoisonError::into_inner);
        for (_, pool) in memory.drain() {
            let _ = pool.set_active(false); // it frees the buffers that are in use later
        }
    }
}

/// A task that is aborted when this is dropped.
pub(crate) struct Task(Option<creel::JoinHandle<()>>);

impl Drop for Task {
    fn drop(&mut self) {
        if let Some(task) = self.0.take() {
            task.abort();
            task.detach();
        }
    }
}
