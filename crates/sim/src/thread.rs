//! Simulated threads and their thread-locals, with the interface of `std::thread`.

use crate::atomic::Ordering;
use crate::engine;
use crate::sync::WaitWord;
use std::any::Any;
use std::cell::{RefCell, UnsafeCell};
use std::collections::HashMap;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

pub use std::thread::{AccessError, Result, panicking};

/// The result of a thread, and the word on which a joining thread sleeps.
struct Packet<T> {
    done: WaitWord,
    value: UnsafeCell<Option<Result<T>>>,
}

// SAFETY: the thread writes the value before it sets `done`, and the handle reads it afterwards.
unsafe impl<T: Send> Sync for Packet<T> {}
// SAFETY: the value is `Send`, and the two threads access it only in the order above.
unsafe impl<T: Send> Send for Packet<T> {}

/// A handle that waits for the end of a thread.
pub struct JoinHandle<T> {
    packet: Arc<Packet<T>>,
    thread: Thread,
}

impl<T> std::fmt::Debug for JoinHandle<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("JoinHandle")
            .field(&self.thread.number)
            .finish()
    }
}

impl<T> JoinHandle<T> {
    /// Waits for the end of the thread, and returns its result. Outside a simulation, the thread
    /// must have ended already. Otherwise this never returns, because nothing runs the thread
    /// there.
    ///
    /// # Errors
    ///
    /// Returns the payload if the thread panicked.
    pub fn join(self) -> Result<T> {
        while self.packet.done.load(Ordering::Acquire) == 0 {
            self.packet.done.wait(0, None);
        }
        // SAFETY: the thread has ended, and this handle is the only reader.
        let value = unsafe { &mut *self.packet.value.get() };
        value.take().expect("a thread has one result")
    }

    /// Returns the thread.
    pub fn thread(&self) -> &Thread {
        &self.thread
    }

    /// Returns whether the thread has ended.
    pub fn is_finished(&self) -> bool {
        self.packet.done.load(Ordering::Acquire) == 1
    }
}

/// A thread's number and name.
#[derive(Clone, Debug)]
pub struct Thread {
    number: usize,
    /// Is 1 if the thread may return from its next [`park`].
    token: Arc<WaitWord>,
    name: Option<String>,
}

/// Identifies a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ThreadId(usize);

impl Thread {
    /// Returns the identity of the thread.
    #[must_use]
    pub fn id(&self) -> ThreadId {
        ThreadId(self.number)
    }

    /// Lets the thread return from its current or next [`park`].
    pub fn unpark(&self) {
        self.token.store(1, Ordering::Release);
        self.token.wake_one();
    }

    /// Returns the name of the thread, which only its [`JoinHandle`] knows.
    #[must_use]
    pub fn name(&self) -> Option<&str> {
        self.name.as_deref()
    }
}

static TOKEN: LocalKey<Arc<WaitWord>> = LocalKey {
    init: || Arc::new(WaitWord::new(0)),
};

/// Returns the number of the current thread, or 0 outside a simulation.
fn number() -> usize {
    engine::current().map_or(0, |number| number + 1)
}

/// Returns the current thread.
#[must_use]
pub fn current() -> Thread {
    let token = TOKEN.try_with(Arc::clone).unwrap_or_default();
    Thread {
        number: number(),
        token,
        name: None,
    }
}

/// Sleeps until another thread calls [`Thread::unpark`].
pub fn park() {
    let token = current().token;
    while token.swap(0, Ordering::Acquire) == 0 {
        token.wait(0, None);
    }
}

/// Creates a thread with options.
#[derive(Debug, Default)]
pub struct Builder {
    name: Option<String>,
    pinned: Option<usize>,
}

impl Builder {
    /// Creates a builder without options.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the name.
    #[must_use]
    pub fn name(mut self, name: String) -> Self {
        self.name = Some(name);
        self
    }

    /// Does nothing, because all simulated stacks have the same size.
    #[must_use]
    pub fn stack_size(self, _: usize) -> Self {
        self
    }

    /// Lets the thread run only on this PU.
    #[must_use]
    pub fn pin(mut self, pu: usize) -> Self {
        self.pinned = Some(pu);
        self
    }

    /// Starts the thread.
    ///
    /// # Errors
    ///
    /// Returns an error outside a simulation.
    #[track_caller]
    pub fn spawn<T: Send + 'static>(
        self,
        f: impl FnOnce() -> T + Send + 'static,
    ) -> io::Result<JoinHandle<T>> {
        let packet = Arc::new(Packet {
            done: WaitWord::new(0),
            value: UnsafeCell::new(None),
        });
        let mine = packet.clone();
        let token = Arc::new(WaitWord::new(0));
        let their_token = token.clone();
        let body = move || {
            TOKEN.set(their_token);
            let result = catch_unwind(AssertUnwindSafe(f));
            end_locals();
            // SAFETY: the handle does not read before `done` is set.
            unsafe { *mine.value.get() = Some(result) };
            mine.done.store(1, Ordering::Release);
            mine.done.wake_all();
        };
        let outside = || io::Error::other("a simulated thread needs a simulation");
        let number = engine::start(self.pinned, Box::new(body)).ok_or_else(outside)?;
        let thread = Thread {
            number: number + 1,
            token,
            name: self.name,
        };
        Ok(JoinHandle { packet, thread })
    }
}

/// Starts a thread.
///
/// # Panics
///
/// Panics outside a simulation.
pub fn spawn<T: Send + 'static>(f: impl FnOnce() -> T + Send + 'static) -> JoinHandle<T> {
    Builder::new()
        .spawn(f)
        .expect("a simulated thread starts inside a simulation")
}

/// Gives other threads of the same PU their turn.
pub fn yield_now() {
    engine::yield_now();
}

/// Sleeps for a time.
pub fn sleep(time: Duration) {
    engine::sleep(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX));
}

/// Returns the number of PUs.
///
/// # Errors
///
/// It never fails. The type is that of `std`.
pub fn available_parallelism() -> io::Result<std::num::NonZeroUsize> {
    Ok(std::num::NonZeroUsize::new(engine::pus()).unwrap_or(std::num::NonZeroUsize::MIN))
}

/// The thread-locals of one thread, by key. The entry of a key is `None` after its value has been
/// dropped.
type Values = HashMap<usize, Option<Rc<dyn Any>>>;

std::thread_local! {
    /// The values of all simulated threads. Number 0 is the thread of the system itself.
    static LOCALS: RefCell<HashMap<usize, Values>> = RefCell::new(HashMap::new());
}

/// A key of a thread-local, created by the macro [`thread_local!`](crate::thread_local).
#[derive(Debug)]
pub struct LocalKey<T: 'static> {
    #[doc(hidden)]
    pub init: fn() -> T,
}

impl<T: 'static> LocalKey<T> {
    /// Calls `f` with the value of the current thread.
    ///
    /// # Panics
    ///
    /// Panics if the thread has dropped the value.
    pub fn with<R>(&'static self, f: impl FnOnce(&T) -> R) -> R {
        let value = self.value().expect("the thread-local has not been dropped");
        f(&value)
    }

    /// Calls `f` with the value of the current thread, or returns an error if the thread has
    /// dropped the value.
    pub fn try_with<R>(&'static self, f: impl FnOnce(&T) -> R) -> std::result::Result<R, Dropped> {
        self.value().map(|value| f(&value)).ok_or(Dropped)
    }

    /// Sets the value of the current thread.
    fn set(&'static self, value: T) {
        let key = std::ptr::from_ref(self).addr();
        let value: Rc<dyn Any> = Rc::new(value);
        LOCALS.with(|all| {
            let mut all = all.borrow_mut();
            all.entry(number()).or_default().insert(key, Some(value));
        });
    }

    fn value(&'static self) -> Option<Rc<T>> {
        let key = std::ptr::from_ref(self).addr();
        let thread = number();
        let found = |all: &RefCell<HashMap<usize, Values>>| {
            all.borrow()
                .get(&thread)
                .and_then(|values| values.get(&key))
                .cloned()
        };
        let value = match LOCALS.try_with(found).ok()? {
            Some(value) => value?,
            None => {
                let value: Rc<dyn Any> = Rc::new((self.init)());
                let insert = |all: &RefCell<HashMap<usize, Values>>| {
                    all.borrow_mut()
                        .entry(thread)
                        .or_default()
                        .insert(key, Some(value.clone()));
                };
                LOCALS.try_with(insert).ok()?;
                value
            }
        };
        value.downcast().ok()
    }
}

/// The error of a thread-local that has been dropped.
#[derive(Clone, Copy, Debug)]
pub struct Dropped;

/// Drops all thread-locals of the current thread.
pub(crate) fn end_locals() {
    let thread = number();
    loop {
        let next = LOCALS.with(|all| {
            let mut all = all.borrow_mut();
            let values = all.entry(thread).or_default();
            values.values_mut().find_map(Option::take)
        });
        if next.is_none() {
            break;
        }
    }
    LOCALS.with(|all| all.borrow_mut().remove(&thread));
}

/// Forgets the thread-locals of simulated threads that did not end.
pub(crate) fn forget_locals() {
    let left: Vec<Values> = LOCALS.with(|all| {
        let mut all = all.borrow_mut();
        let numbers: Vec<usize> = all.keys().copied().filter(|number| *number != 0).collect();
        numbers
            .iter()
            .filter_map(|number| all.remove(number))
            .collect()
    });
    std::mem::forget(left);
}

/// Declares thread-locals of simulated threads, like the macro of `std`.
#[macro_export]
macro_rules! thread_local {
    ($($(#[$meta:meta])* $vis:vis static $name:ident: $type:ty = const $init:block $(;)?)+) => {$(
        $(#[$meta])*
        $vis static $name: $crate::thread::LocalKey<$type> =
            $crate::thread::LocalKey { init: || $init };
    )+};
    ($($(#[$meta:meta])* $vis:vis static $name:ident: $type:ty = $init:expr $(;)?)+) => {$(
        $(#[$meta])*
        $vis static $name: $crate::thread::LocalKey<$type> =
            $crate::thread::LocalKey { init: || $init };
    )+};
}
