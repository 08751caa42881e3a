//! A channel for one message. For example, a task can use it to return its result.
//!
//! Sending never waits. A channel makes one allocation of 24 bytes plus the size of the message. A
//! send is a single atomic exchange, even if it finds a waiting receiver. It repeats the exchange
//! only if the receiver changes the state word at the same moment. `waker_cell.rs` describes the
//! protocol of the waker, and the constants below describe the bits of the state word.
//!
//! We leave out waiting until the receiver is dropped. You can check for it with
//! `Sender::is_closed`.

use super::waker_cell::{EPOCH, Wait, WakerCell, exchange};
use super::{RecvError, SendError, TryRecvError, blocking, memory};
use crate::sync::{AtomicU64, Ordering, UnsafeCell};
use crate::worker::budget;
use crate::worker::stored_waker::StoredWaker;
use std::future::Future;
use std::mem::MaybeUninit;
use std::pin::Pin;
use std::ptr::NonNull;
use std::task::{Context, Poll};

/// The sender has finished. It will not access the channel again, and the receiver frees it.
const DONE: u64 = 1;
/// The sender has left a message. This bit is never set without `DONE`.
const VALUE: u64 = 1 << 1;
/// The receiver's waker is stored. It belongs to the thread that clears this bit. The bit is never
/// set together with `DONE`.
const WAITING: u64 = 1 << 2;
/// The receiver has been dropped, and the sender frees the channel. This bit is never set together
/// with `DONE` or `WAITING`.
const RX_GONE: u64 = 1 << 3;

/// The change of the state word with which the receiver registers its waker.
const WAIT: Wait = Wait {
    bit: WAITING,
    clears: 0,
};

struct Inner<T> {
    state: AtomicU64,
    waker: WakerCell,
    /// The message. It belongs to the sender until `DONE` is set, and to the receiver afterwards.
    value: UnsafeCell<MaybeUninit<T>>,
}

/// Creates a channel for one message.
///
/// ```
/// let (tx, mut rx) = creel::channel::oneshot::channel();
/// tx.send(7).unwrap();
/// assert_eq!(rx.try_recv(), Ok(7));
/// ```
pub fn channel<T>() -> (Sender<T>, Receiver<T>) {
    let inner = memory::make(|state| Inner {
        state: AtomicU64::new(state),
        waker: WakerCell::new(),
        value: UnsafeCell::new(MaybeUninit::uninit()),
    });
    (Sender { inner }, Receiver { inner: Some(inner) })
}

/// The sending half. If you drop it without sending a message, the channel is closed.
///
/// ```
/// let (tx, rx) = creel::channel::oneshot::channel::<u32>();
/// drop(tx);
/// assert!(rx.recv_blocking().is_err());
/// ```
#[derive(Debug)]
pub struct Sender<T> {
    inner: NonNull<Inner<T>>,
}

/// The receiving half, which is a future that returns the message. If the sender is dropped without
/// a message, it returns [`RecvError`].
///
/// # Cancel safety
///
/// Safe. You can poll it by reference and stop polling at any time, because the message stays in
/// the channel until it is taken. If you drop the receiver, a message that was not taken is dropped
/// as well.
///
/// ```
/// let pool = creel::Pool::builder().workers(2).build()?;
/// let (tx, rx) = creel::channel::oneshot::channel();
/// tx.send(7).unwrap();
/// assert_eq!(pool.block_on(rx), Ok(7)); // a future
/// # Ok::<(), creel::BuildError>(())
/// ```
#[derive(Debug)]
pub struct Receiver<T> {
    /// The channel. It is `None` once the channel is freed, because the message was taken or the
    /// channel was found closed.
    inner: Option<NonNull<Inner<T>>>,
}

// SAFETY: the two halves share an `Inner`. The state word orders all their accesses to it, and `T:
// Send` allows the message to move from one thread to the other.
unsafe impl<T: Send> Send for Sender<T> {}
// SAFETY: the state word orders all accesses of the two halves, and `T: Send` allows the message to
// move to this thread.
unsafe impl<T: Send> Send for Receiver<T> {}
// SAFETY: a shared `Sender` only reads the state word, which is atomic.
unsafe impl<T: Send> Sync for Sender<T> {}
// SAFETY: `Receiver` has no methods that take `&self`, so sharing it gives no access.
unsafe impl<T: Send> Sync for Receiver<T> {}
impl<T> Unpin for Receiver<T> {}

/// Frees the channel. The message has been moved out, or was never sent.
///
/// # Safety
///
/// The caller is the last half according to the state word, and does not use `inner` again.
unsafe fn free<T>(inner: NonNull<Inner<T>>) {
    // SAFETY: the caller is the last half, so the channel belongs to it alone.
    let state = unsafe { inner.as_ref() }.state.load(Ordering::Relaxed);
    // SAFETY: `channel` allocated it, and only the last half frees it.
    unsafe { memory::free(inner, state) };
}

/// Moves the message out of the channel.
///
/// # Safety
///
/// There is a message, it belongs to the caller, and it is not read again.
unsafe fn take<T>(inner: &Inner<T>) -> T {
    inner.value.with_mut(|value| {
        // SAFETY: the message belongs to the caller, so no other thread accesses its place.
        let value = unsafe { &mut *value };
        // SAFETY: there is a message, and it is not read again.
        unsafe { value.assume_init_read() }
    })
}

/// Makes the sender's last transition of the state word. On success, `inner` no longer belongs to
/// the sender, and the caller must wake the returned waker, if there is one. Returns an error if
/// the receiver has been dropped, so that the caller is the last half.
///
/// # Safety
///
/// The caller is the sender and calls this function once.
unsafe fn finish<T>(
    inner: NonNull<Inner<T>>,
    outcome: u64,
) -> Result<Option<StoredWaker>, RecvError> {
    // SAFETY: the channel lives until the exchange of this call, and we do not access it
    // afterwards.
    let inner = unsafe { inner.as_ref() };
    loop {
        let seen = inner.state.load(Ordering::Acquire);
        if seen & RX_GONE != 0 {
            return Err(RecvError);
        }
        let words = inner.waker.copy();
        if exchange(&inner.state, seen, (seen & !WAITING) | outcome) {
            // SAFETY: the exchange cleared the bit, and it compared with the value that was read
            // before the copy.
            return Ok((seen & WAITING != 0).then(|| unsafe { words.into_waker() }));
        }
    }
}

impl<T> Sender<T> {
    /// Sends the message and wakes the receiver. Never waits.
    ///
    /// # Errors
    ///
    /// Returns the message if the receiver has been dropped.
    ///
    /// ```
    /// let (tx, rx) = creel::channel::oneshot::channel();
    /// drop(rx);
    /// assert_eq!(tx.send(7), Err(creel::channel::SendError(7)));
    /// ```
    #[inline]
    pub fn send(self, message: T) -> Result<(), SendError<T>> {
        let inner = std::mem::ManuallyDrop::new(self).inner;
        // SAFETY: the channel lives until both halves are gone.
        let place = unsafe { &inner.as_ref().value };
        place.with_mut(|value| {
            // SAFETY: until `DONE` is set, the place belongs to the sender alone.
            let value = unsafe { &mut *value };
            value.write(message);
        });
        // SAFETY: `self` is never dropped, so this is the only call for this sender.
        if let Ok(receiver) = unsafe { finish(inner, DONE | VALUE) } {
            if let Some(waker) = receiver {
                waker.wake();
            }
            return Ok(());
        }
        // SAFETY: the receiver is gone, so the channel belongs to this call.
        let inner_ref = unsafe { inner.as_ref() };
        // SAFETY: the message was written above, and no other thread has seen it.
        let message = unsafe { take(inner_ref) };
        // SAFETY: this is the last half, and it does not use the channel again.
        unsafe { free(inner) };
        Err(SendError(message))
    }

    /// Returns whether the receiver has been dropped, so that [`send`](Self::send) would fail.
    ///
    /// ```
    /// let (tx, rx) = creel::channel::oneshot::channel::<u32>();
    /// assert!(!tx.is_closed());
    /// drop(rx);
    /// assert!(tx.is_closed());
    /// ```
    pub fn is_closed(&self) -> bool {
        // SAFETY: the channel lives until both halves are gone.
        let inner = unsafe { self.inner.as_ref() };
        inner.state.load(Ordering::Acquire) & RX_GONE != 0
    }
}

impl<T> Drop for Sender<T> {
    fn drop(&mut self) {
        // SAFETY: `send` prevents the drop of its sender, so this is the only call for this sender.
        match unsafe { finish(self.inner, DONE) } {
            Ok(receiver) => {
                if let Some(waker) = receiver {
                    waker.wake_in_drop();
                }
            }
            // SAFETY: the receiver is gone, so this is the last half, and it does not use the
            // channel again.
            Err(RecvError) => unsafe { free(self.inner) },
        }
    }
}

impl<T> Receiver<T> {
    /// Takes the message if it has arrived. Never waits.
    ///
    /// # Errors
    ///
    /// Returns [`TryRecvError::Empty`] while the sender may still send. Returns
    /// [`TryRecvError::Closed`] if the sender was dropped without a message or if the message has
    /// already been taken.
    ///
    /// ```
    /// use creel::channel::{TryRecvError, oneshot};
    ///
    /// let (tx, mut rx) = oneshot::channel();
    /// assert_eq!(rx.try_recv(), Err(TryRecvError::Empty));
    /// tx.send(7).unwrap();
    /// assert_eq!(rx.try_recv(), Ok(7));
    /// ```
    #[inline]
    pub fn try_recv(&mut self) -> Result<T, TryRecvError> {
        let Some(inner) = self.inner else {
            return Err(TryRecvError::Closed);
        };
        // SAFETY: the channel lives until `self.inner` is `None`.
        let inner_ref = unsafe { inner.as_ref() };
        let seen = inner_ref.state.load(Ordering::Acquire);
        if seen & DONE == 0 {
            return Err(TryRecvError::Empty);
        }
        self.inner = None;
        let message = if seen & VALUE != 0 {
            // SAFETY: `DONE | VALUE` gives the message to the receiver, and `self.inner` is now
            // `None`, so the message is not read again.
            Ok(unsafe { take(inner_ref) })
        } else {
            Err(TryRecvError::Closed)
        };
        // SAFETY: `DONE` is set, so the sender has finished, and `self.inner` is `None`.
        unsafe { free(inner) };
        message
    }

    /// Blocks the calling thread until the message arrives. Use it on threads that do not run
    /// tasks, because on a worker it would hold up the other tasks.
    ///
    /// # Errors
    ///
    /// Returns [`RecvError`] if the sender was dropped without a message.
    ///
    /// ```
    /// let (tx, rx) = creel::channel::oneshot::channel();
    /// let thread = std::thread::spawn(move || tx.send(7));
    /// assert_eq!(rx.recv_blocking(), Ok(7));
    /// thread.join().unwrap().unwrap();
    /// ```
    pub fn recv_blocking(self) -> Result<T, RecvError> {
        blocking::wait(self)
    }
}

impl<T> Future for Receiver<T> {
    type Output = Result<T, RecvError>;

    #[inline]
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        if budget::is_spent(cx) {
            return Poll::Pending;
        }
        loop {
            match self.try_recv() {
                Ok(message) => {
                    budget::use_up(1);
                    return Poll::Ready(Ok(message));
                }
                Err(TryRecvError::Closed) => {
                    budget::use_up(1);
                    return Poll::Ready(Err(RecvError));
                }
                Err(TryRecvError::Empty) => {}
            }
            let Some(inner) = &self.inner else {
                return Poll::Ready(Err(RecvError));
            };
            // SAFETY: the channel lives until `self.inner` is `None`.
            let inner = unsafe { inner.as_ref() };
            let seen = inner.state.load(Ordering::Acquire);
            if seen & DONE == 0 && inner.waker.register(&inner.state, seen, WAIT, cx.waker()) {
                return Poll::Pending;
            }
        }
    }
}

impl<T> Drop for Receiver<T> {
    fn drop(&mut self) {
        loop {
            let Some(inner) = self.inner else { return };
            // SAFETY: the channel lives until `self.inner` is `None`.
            let inner = unsafe { inner.as_ref() };
            let seen = inner.state.load(Ordering::Acquire);
            if seen & DONE != 0 {
                // Takes the message, if there is one, and frees the channel.
                drop(self.try_recv());
                return;
            }
            let words = inner.waker.copy();
            let gone = ((seen & !WAITING) | RX_GONE).wrapping_add(EPOCH);
            if exchange(&inner.state, seen, gone) {
                if seen & WAITING != 0 {
                    // SAFETY: the exchange cleared the bit, so the waker belongs to us.
                    drop(unsafe { words.into_waker() });
                }
                return;
            }
        }
    }
}
