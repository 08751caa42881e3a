//! A channel for one message.
//!
//! Sending never waits. One allocation a channel, 24 bytes and the message; a send that finds a
//! waiting receiver is a single atomic exchange. The protocol of the waker is told in
//! `waker_cell.rs`; the bits of the word are below.
//!
//! Left out: waiting for the receiver to go away. `Sender::is_closed` tells it.

use super::waker_cell::{EPOCH, Wait, WakerCell, exchange};
use super::{Closed, SendError, TryRecvError, blocking, memory};
use crate::sync::{AtomicU64, Ordering, UnsafeCell};
use crate::worker::budget;
use crate::worker::stored_waker::StoredWaker;
use std::future::Future;
use std::mem::MaybeUninit;
use std::pin::Pin;
use std::ptr::NonNull;
use std::task::{Context, Poll};

/// The sender is through: it will not touch the channel again, the receiver frees it.
const DONE: u64 = 1;
/// The sender left a message. Never without `DONE`.
const VALUE: u64 = 1 << 1;
/// The receiver's waker is stored and belongs to who clears this bit. Never with `DONE`.
const WAITING: u64 = 1 << 2;
/// The receiver is gone: the sender frees the channel. Never with `DONE` or `WAITING`.
const RX_GONE: u64 = 1 << 3;

/// The receiver's wait.
const WAIT: Wait = Wait {
    bit: WAITING,
    clears: 0,
};

struct Inner<T> {
    state: AtomicU64,
    waker: WakerCell,
    /// The sender's until `DONE`, then the receiver's.
    value: UnsafeCell<MaybeUninit<T>>,
}

/// Makes a channel for one message.
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

/// The sending half. Dropping it unused closes the channel.
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

/// The receiving half: a future of the message.
///
/// Cancel-safe: it may be polled by reference and dropped between polls, the message stays
/// until it is taken. A message nobody took is dropped with the receiver.
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
    /// `None` once the channel is freed: the message was taken or the channel found closed.
    inner: Option<NonNull<Inner<T>>>,
}

// SAFETY: the two halves share an `Inner` whose accesses the state word orders; the message
// itself moves from one thread to the other.
unsafe impl<T: Send> Send for Sender<T> {}
// SAFETY: the state word orders all accesses of the two halves; the message is sent to this
// thread.
unsafe impl<T: Send> Send for Receiver<T> {}
// SAFETY: a shared `Sender` only reads the state word.
unsafe impl<T: Send> Sync for Sender<T> {}
// SAFETY: a shared `Receiver` offers nothing at all.
unsafe impl<T: Send> Sync for Receiver<T> {}
impl<T> Unpin for Receiver<T> {}

/// Frees the channel; the message has been moved out or never was.
///
/// # Safety
///
/// The caller is the last half, as the word has told it, and does not use `inner` again.
unsafe fn free<T>(inner: NonNull<Inner<T>>) {
    // SAFETY: the caller's, alone.
    let state = unsafe { inner.as_ref() }.state.load(Ordering::Relaxed);
    // SAFETY: made in `channel`, freed once by the last half.
    unsafe { memory::free(inner, state) };
}

/// Moves the message out.
///
/// # Safety
///
/// A message is there, it is the caller's, and it is not read again.
unsafe fn take<T>(inner: &Inner<T>) -> T {
    inner.value.with_mut(|value| {
        // SAFETY: the caller alone has access now.
        let value = unsafe { &mut *value };
        // SAFETY: the message is there and not read again.
        unsafe { value.assume_init_read() }
    })
}

/// The sender's last transition. Afterwards `inner` is no longer ours, and the caller wakes the
/// receiver if it waits. `Err`: the receiver is gone and the caller is the last half.
///
/// # Safety
///
/// The caller is the sender's half and calls this once.
unsafe fn finish<T>(inner: NonNull<Inner<T>>, outcome: u64) -> Result<Option<StoredWaker>, Closed> {
    // SAFETY: the channel lives until this call's exchange, after which it is not touched.
    let inner = unsafe { inner.as_ref() };
    loop {
        let seen = inner.state.load(Ordering::Acquire);
        if seen & RX_GONE != 0 {
            return Err(Closed);
        }
        let words = inner.waker.copy();
        if exchange(&inner.state, seen, (seen & !WAITING) | outcome) {
            // SAFETY: the exchange cleared the bit, on the value read before the copy.
            return Ok((seen & WAITING != 0).then(|| unsafe { words.into_waker() }));
        }
    }
}

impl<T> Sender<T> {
    /// Leaves the message and wakes the receiver. Never waits.
    ///
    /// # Errors
    ///
    /// The message back, when the receiver is gone.
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
            // SAFETY: until `DONE` the place is the sender's alone.
            let value = unsafe { &mut *value };
            value.write(message);
        });
        // SAFETY: `self` is forgotten, so this is the sender's only end.
        if let Ok(receiver) = unsafe { finish(inner, DONE | VALUE) } {
            if let Some(waker) = receiver {
                waker.wake();
            }
            return Ok(());
        }
        // SAFETY: the receiver is gone, the channel is this call's.
        let inner_ref = unsafe { inner.as_ref() };
        // SAFETY: written above and seen by nobody.
        let message = unsafe { take(inner_ref) };
        // SAFETY: the last half, and not used again.
        unsafe { free(inner) };
        Err(SendError(message))
    }

    /// Whether the receiver is gone, so that [`send`](Self::send) would fail.
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
        // SAFETY: `send` forgets its sender, so this is the sender's only end.
        match unsafe { finish(self.inner, DONE) } {
            Ok(receiver) => {
                if let Some(waker) = receiver {
                    waker.wake_in_drop();
                }
            }
            // SAFETY: the receiver is gone: the last half, and not used again.
            Err(Closed) => unsafe { free(self.inner) },
        }
    }
}

impl<T> Receiver<T> {
    /// Takes the message if it is there. Never waits.
    ///
    /// # Errors
    ///
    /// [`TryRecvError::Empty`] while the sender may still send, [`TryRecvError::Closed`] when the
    /// sender was dropped or the message has been taken.
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
            // SAFETY: `DONE | VALUE` gives it to the receiver, and `self.inner` is now `None`.
            Ok(unsafe { take(inner_ref) })
        } else {
            Err(TryRecvError::Closed)
        };
        // SAFETY: `DONE`: the sender is through, and `self.inner` is `None`.
        unsafe { free(inner) };
        message
    }

    /// Blocks the calling thread until the message is there; for threads that run no tasks.
    ///
    /// # Errors
    ///
    /// [`Closed`] when the sender was dropped without a message.
    ///
    /// ```
    /// let (tx, rx) = creel::channel::oneshot::channel();
    /// let thread = std::thread::spawn(move || tx.send(7));
    /// assert_eq!(rx.recv_blocking(), Ok(7));
    /// thread.join().unwrap().unwrap();
    /// ```
    pub fn recv_blocking(self) -> Result<T, Closed> {
        blocking::wait(self)
    }
}

impl<T> Future for Receiver<T> {
    type Output = Result<T, Closed>;

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
                    return Poll::Ready(Err(Closed));
                }
                Err(TryRecvError::Empty) => {}
            }
            let Some(inner) = &self.inner else {
                return Poll::Ready(Err(Closed));
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
                // Takes what is there and frees the channel.
                drop(self.try_recv());
                return;
            }
            let words = inner.waker.copy();
            let gone = ((seen & !WAITING) | RX_GONE).wrapping_add(EPOCH);
            if exchange(&inner.state, seen, gone) {
                if seen & WAITING != 0 {
                    // SAFETY: the bit was ours and the exchange cleared it.
                    drop(unsafe { words.into_waker() });
                }
                return;
            }
        }
    }
}
