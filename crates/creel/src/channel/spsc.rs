//! A channel that holds one message at a time, from one sender to one receiver.
//!
//! It fits a pair of tasks that pass work to each other, for example two stages of a pipeline. The
//! sender waits while the place is full.
//!
//! If the receiver is waiting, the sender does not use the place. It writes the message to the
//! receiver's *handoff*, and the place stays free for the next message. Therefore the receiver can
//! take the message without an atomic exchange. The exchange with which it waits again also empties
//! the handoff. Every other operation is one exchange, which is repeated only if the other side
//! changes the state word at the same moment.
//!
//! A channel makes one allocation, and messages make none. `waker_cell.rs` describes the protocol
//! of the wakers.
//!
//! We leave out several senders or receivers. Use [`bounded`](super::bounded) for them.

#[cfg(feature = "stream")]
mod stream;

use super::waker_cell::{EPOCH, Wait, WakerCell, exchange};
use super::{RecvError, SendError, TryRecvError, TrySendError, blocking, memory};
use crate::sync::{AtomicU64, Ordering, UnsafeCell};
use crate::worker::{budget, panics::quietly};
use std::future::Future;
use std::mem::{ManuallyDrop, MaybeUninit};
use std::pin::Pin;
use std::ptr::{self, NonNull};
use std::task::{Context, Poll};

/// The place holds a message and belongs to the receiver. Otherwise the place belongs to the
/// sender.
const FULL: u64 = 1;
/// The receiver's waker is stored. It belongs to the thread that clears this bit. The handoff
/// belongs to the sender. This bit is never set together with `FULL` or `HANDED`.
const RX_WAITING: u64 = 1 << 1;
/// The sender's waker is stored. It belongs to the thread that clears this bit. The bit is never
/// set without `FULL`.
const TX_WAITING: u64 = 1 << 2;
/// The sender has been dropped. Once `RX_GONE` is set as well, the channel is freed.
const TX_GONE: u64 = 1 << 3;
/// The receiver has been dropped. The next send fails.
const RX_GONE: u64 = 1 << 4;
/// The sender has put a message in the handoff. If the place is full, its message is newer. The
/// handoff belongs to the receiver, which may have taken the message already.
const HANDED: u64 = 1 << 5;

/// The change of the state word with which the receiver registers its waker. The receiver has taken
/// the message in the handoff before, so the change clears `HANDED`.
const RX_WAIT: Wait = Wait {
    bit: RX_WAITING,
    clears: HANDED,
};
/// The change of the state word with which the sender registers its waker.
const TX_WAIT: Wait = Wait {
    bit: TX_WAITING,
    clears: 0,
};

struct Inner<T> {
    state: AtomicU64,
    rx_waker: WakerCell,
    tx_waker: WakerCell,
    handoff: UnsafeCell<MaybeUninit<T>>,
    place: UnsafeCell<MaybeUninit<T>>,
}

/// Creates a channel that holds one message at a time. Note that a message for a receiver that is
/// already waiting does not use the channel's place, so that you can send the next message
/// immediately.
///
/// ```
/// let (mut tx, mut rx) = creel::channel::spsc::channel();
/// tx.try_send(1).unwrap();
/// assert!(tx.try_send(2).is_err());
/// assert_eq!(rx.try_recv(), Ok(1));
/// ```
pub fn channel<T>() -> (Sender<T>, Receiver<T>) {
    let inner = memory::make(|state| Inner {
        state: AtomicU64::new(state),
        rx_waker: WakerCell::new(),
        tx_waker: WakerCell::new(),
        handoff: UnsafeCell::new(MaybeUninit::uninit()),
        place: UnsafeCell::new(MaybeUninit::uninit()),
    });
    let receiver = Receiver {
        inner,
        taken: false,
    };
    (Sender { inner }, receiver)
}

/// The sending half. Dropping it closes the channel. The receiver can still receive a message that
/// was sent.
///
/// ```
/// let (mut tx, mut rx) = creel::channel::spsc::channel();
/// tx.try_send(1).unwrap();
/// drop(tx);
/// assert_eq!((rx.try_recv().ok(), rx.try_recv().ok()), (Some(1), None));
/// ```
#[derive(Debug)]
pub struct Sender<T> {
    inner: NonNull<Inner<T>>,
}

/// The receiving half. Dropping it closes the channel, so that sending fails, and drops the
/// messages that were not received.
///
/// ```
/// let (mut tx, mut rx) = creel::channel::spsc::channel();
/// tx.try_send(1).unwrap();
/// assert_eq!(rx.try_recv(), Ok(1));
/// ```
#[derive(Debug)]
pub struct Receiver<T> {
    inner: NonNull<Inner<T>>,
    /// Whether the message has been taken out of the handoff. It has a meaning only while `HANDED`
    /// is set.
    taken: bool,
}

// SAFETY: the state word orders all accesses of the two halves, and `T: Send` allows messages to
// move between threads.
unsafe impl<T: Send> Send for Sender<T> {}
// SAFETY: the state word orders all accesses of the two halves, and `T: Send` allows messages to
// move to this thread.
unsafe impl<T: Send> Send for Receiver<T> {}
// SAFETY: a shared half only reads the state word, which is atomic. All other operations take `&mut
// self`.
unsafe impl<T: Send> Sync for Sender<T> {}
// SAFETY: a shared half only reads the state word, which is atomic. All operations on messages take
// `&mut self`.
unsafe impl<T: Send> Sync for Receiver<T> {}

impl<T> Inner<T> {
    /// Copies a message out of the handoff or the place.
    ///
    /// # Safety
    ///
    /// The caller has seen the bits of the state word according to which `from` belongs to it.
    #[inline]
    unsafe fn copy(from: &UnsafeCell<MaybeUninit<T>>) -> MaybeUninit<T> {
        // SAFETY: according to the state word, the place `from` belongs to the caller alone.
        from.with_mut(|from| unsafe { from.read() })
    }

    /// Ends one side. It sets the side's bit, drops the side's own waker and wakes the other side.
    ///
    /// Returns the previous value of the state word. If one of the bits in `unless` is set, it does
    /// nothing and returns `None`.
    fn leave(&self, gone: u64, unless: u64) -> Option<u64> {
        loop {
            let seen = self.state.load(Ordering::Acquire);
            if seen & unless != 0 {
                return None;
            }
            let rx = self.rx_waker.copy();
            let tx = self.tx_waker.copy();
            let cleared = seen & !(RX_WAITING | TX_WAITING);
            if !exchange(&self.state, seen, (cleared | gone).wrapping_add(EPOCH)) {
                continue;
            }
            // SAFETY: the exchange cleared the bit, and it compared with the value that was read
            // before the copy.
            let rx = (seen & RX_WAITING != 0).then(|| unsafe { rx.into_waker() });
            // SAFETY: validity: the exchange found `TX_WAITING` set in the value that was read
            // before the copy, so the copy is a complete waker. Aliasing: the exchange cleared that
            // bit, so no other thread takes the waker.
            let tx = (seen & TX_WAITING != 0).then(|| unsafe { tx.into_waker() });
            let other = if gone == TX_GONE { rx } else { tx };
            if let Some(waker) = other {
                waker.wake_in_drop();
            }
            return Some(seen);
        }
    }
}

/// Frees the channel. The handoff and the place are empty.
///
/// # Safety
///
/// Both halves have set their `GONE` bits, the caller was the second to do so, and `inner` is not
/// used again.
unsafe fn free<T>(inner: NonNull<Inner<T>>) {
    // SAFETY: both halves have ended, so the channel belongs to the caller alone.
    let state = unsafe { inner.as_ref() }.state.load(Ordering::Relaxed);
    // SAFETY: `channel` allocated it, and only the second half frees it.
    unsafe { memory::free(inner, state) };
}

impl<T> Sender<T> {
    #[inline]
    fn inner(&self) -> &Inner<T> {
        // SAFETY: the channel lives until both halves are gone.
        unsafe { self.inner.as_ref() }
    }

    /// Sends the message if there is room. Never waits.
    ///
    /// # Errors
    ///
    /// Returns the message in [`TrySendError::Full`] if the channel is full, or in
    /// [`TrySendError::Closed`] if the receiver has been dropped.
    ///
    /// ```
    /// let (mut tx, rx) = creel::channel::spsc::channel();
    /// assert!(tx.try_send(1).is_ok());
    /// drop(rx);
    /// assert!(tx.try_send(2).is_err());
    /// ```
    #[inline]
    pub fn try_send(&mut self, message: T) -> Result<(), TrySendError<T>> {
        let inner = self.inner();
        let message = ManuallyDrop::new(message);
        loop {
            let seen = inner.state.load(Ordering::Acquire);
            if seen & RX_GONE != 0 {
                return Err(TrySendError::Closed(ManuallyDrop::into_inner(message)));
            }
            if seen & FULL != 0 {
                return Err(TrySendError::Full(ManuallyDrop::into_inner(message)));
            }
            let waits = seen & RX_WAITING != 0;
            let (to, next) = if waits {
                (&inner.handoff, (seen & !RX_WAITING) | HANDED)
            } else {
                (&inner.place, seen | FULL)
            };
            // SAFETY: according to the state word, the handoff or the empty place belongs to the
            // sender alone.
            to.with_mut(|to| unsafe {
                ptr::copy_nonoverlapping(&raw const *message, to.cast(), 1)
            });
            let words = inner.rx_waker.copy();
            if exchange(&inner.state, seen, next.wrapping_add(EPOCH)) {
                if waits {
                    // SAFETY: the exchange cleared the bit, and it compared with the value that was
                    // read before the copy.
                    unsafe { words.into_waker() }.wake();
                }
                return Ok(());
            }
        }
    }

    /// Sends one message. Waits while the channel is full.
    ///
    /// # Cancel safety
    ///
    /// If you drop the future before it is ready, the message is not sent, and it is dropped as
    /// well.
    ///
    /// # Errors
    ///
    /// The future returns the message if the receiver has been dropped.
    ///
    /// ```
    /// let pool = creel::Pool::builder().workers(2).build()?;
    /// let (mut tx, mut rx) = creel::channel::spsc::channel();
    /// let sum = pool.spawn(async move {
    ///     let mut sum = 0;
    ///     while let Ok(n) = rx.recv().await {
    ///         sum += n;
    ///     }
    ///     sum
    /// });
    /// pool.block_on(async move {
    ///     for n in 0..10 {
    ///         tx.send(n).await.unwrap();
    ///     }
    /// });
    /// assert_eq!(pool.block_on(sum).unwrap(), 45);
    /// # Ok::<(), creel::BuildError>(())
    /// ```
    #[inline]
    pub fn send(&mut self, message: T) -> SendFuture<'_, T> {
        SendFuture {
            sender: self,
            message: Some(message),
        }
    }

    /// Takes the message out of `message` and sends it, for futures written by hand. While the
    /// channel is full, the message stays in `message`, and the task of `cx` is woken when there is
    /// room.
    ///
    /// # Errors
    ///
    /// Returns the message if the receiver has been dropped.
    ///
    /// # Panics
    ///
    /// Panics if `message` is `None`.
    #[inline(always)]
    #[track_caller]
    pub fn poll_send(
        &mut self,
        cx: &mut Context<'_>,
        message: &mut Option<T>,
    ) -> Poll<Result<(), SendError<T>>> {
        assert!(message.is_some(), "there is a message until it is sent");
        if budget::is_spent(cx) {
            return Poll::Pending;
        }
        loop {
            let taken = message.take().expect("there is a message until it is sent");
            match self.try_send(taken) {
                Ok(()) => {
                    budget::use_up(1);
                    return Poll::Ready(Ok(()));
                }
                Err(TrySendError::Closed(back)) => {
                    budget::use_up(1);
                    return Poll::Ready(Err(SendError(back)));
                }
                Err(TrySendError::Full(back)) => *message = Some(back),
            }
            let inner = self.inner();
            let seen = inner.state.load(Ordering::Acquire);
            let waits = seen & FULL != 0 && seen & RX_GONE == 0;
            if waits
                && inner
                    .tx_waker
                    .register(&inner.state, seen, TX_WAIT, cx.waker())
            {
                return Poll::Pending;
            }
        }
    }

    /// Sends one message. Blocks the calling thread while the channel is full. Use it on threads
    /// that do not run tasks.
    ///
    /// # Errors
    ///
    /// Returns the message if the receiver has been dropped.
    ///
    /// ```
    /// let (mut tx, mut rx) = creel::channel::spsc::channel();
    /// let thread = std::thread::spawn(move || (0..10).all(|n| tx.send_blocking(n).is_ok()));
    /// let all: Vec<i32> = std::iter::from_fn(|| rx.recv_blocking().ok()).collect();
    /// assert!(thread.join().unwrap() && all == Vec::from_iter(0..10));
    /// ```
    pub fn send_blocking(&mut self, message: T) -> Result<(), SendError<T>> {
        blocking::wait(self.send(message))
    }
}

/// The future that [`Sender::send`] returns.
///
/// ```
/// let pool = creel::Pool::builder().workers(2).build()?;
/// let (mut tx, mut rx) = creel::channel::spsc::channel();
/// tx.try_send(1).unwrap();
/// let send = tx.send(2);
/// assert_eq!(rx.try_recv(), Ok(1)); // makes room
/// pool.block_on(send).unwrap();
/// # Ok::<(), creel::BuildError>(())
/// ```
#[derive(Debug)]
#[must_use = "futures do nothing unless awaited"]
pub struct SendFuture<'a, T> {
    sender: &'a mut Sender<T>,
    message: Option<T>,
}

impl<T> Unpin for SendFuture<'_, T> {}

impl<T> Future for SendFuture<'_, T> {
    type Output = Result<(), SendError<T>>;

    #[inline(always)]
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = &mut *self;
        this.sender.poll_send(cx, &mut this.message)
    }
}

impl<T> Drop for Sender<T> {
    fn drop(&mut self) {
        let seen = self.inner().leave(TX_GONE, 0);
        if seen.is_some_and(|seen| seen & RX_GONE != 0) {
            // SAFETY: this is the second half, and the receiver emptied the handoff and the place
            // before it set its bit.
            unsafe { free(self.inner) };
        }
    }
}

impl<T> Receiver<T> {
    #[inline]
    fn inner(&self) -> &Inner<T> {
        // SAFETY: the channel lives until both halves are gone.
        unsafe { self.inner.as_ref() }
    }

    /// Takes the message if there is one. Never waits.
    ///
    /// # Errors
    ///
    /// Returns [`TryRecvError::Empty`] if the channel is empty, or [`TryRecvError::Closed`] if the
    /// sender has been dropped as well.
    ///
    /// ```
    /// let (mut tx, mut rx) = creel::channel::spsc::channel();
    /// assert!(rx.try_recv().is_err());
    /// tx.try_send(1).unwrap();
    /// assert_eq!(rx.try_recv(), Ok(1));
    /// ```
    #[inline]
    pub fn try_recv(&mut self) -> Result<T, TryRecvError> {
        self.take().map_err(|seen| {
            if seen & TX_GONE == 0 {
                TryRecvError::Empty
            } else {
                TryRecvError::Closed
            }
        })
    }

    /// Takes the oldest message, or returns the value of the state word that shows that the channel
    /// is empty.
    #[inline(always)]
    fn take(&mut self) -> Result<T, u64> {
        let inner = self.inner();
        loop {
            let seen = inner.state.load(Ordering::Acquire);
            if seen & HANDED != 0 && !self.taken {
                // SAFETY: `HANDED` is set, so the handoff belongs to the receiver.
                let message = unsafe { Inner::copy(&inner.handoff) };
                self.taken = true;
                // SAFETY: the handoff holds a message, and `taken` prevents that it is taken twice.
                return Ok(unsafe { message.assume_init() });
            }
            if seen & FULL == 0 {
                return Err(seen);
            }
            // SAFETY: `FULL` is set, so the place belongs to the receiver. The message only counts
            // as moved once the exchange succeeds.
            let message = unsafe { Inner::copy(&inner.place) };
            let words = inner.tx_waker.copy();
            let empty = (seen & !(FULL | TX_WAITING)).wrapping_add(EPOCH);
            if exchange(&inner.state, seen, empty) {
                if seen & TX_WAITING != 0 {
                    // SAFETY: the exchange cleared the bit, and it compared with the value that was
                    // read before the copy.
                    unsafe { words.into_waker() }.wake_quietly();
                }
                // SAFETY: the place was full, and the exchange made the message ours. The wake does
                // not unwind, so it cannot leak the message.
                return Ok(unsafe { message.assume_init() });
            }
        }
    }

    /// Receives one message. Waits until there is one.
    ///
    /// # Cancel safety
    ///
    /// Safe. If you drop the future before it is ready, it has not taken a message.
    ///
    /// # Errors
    ///
    /// The future returns [`RecvError`] if the channel is empty and the sender has been dropped.
    ///
    /// ```
    /// let pool = creel::Pool::builder().workers(2).build()?;
    /// let (mut tx, mut rx) = creel::channel::spsc::channel();
    /// tx.try_send(1).unwrap();
    /// assert_eq!(pool.block_on(rx.recv()), Ok(1));
    /// drop(tx);
    /// assert!(pool.block_on(rx.recv()).is_err());
    /// # Ok::<(), creel::BuildError>(())
    /// ```
    #[inline]
    pub fn recv(&mut self) -> RecvFuture<'_, T> {
        RecvFuture { receiver: self }
    }

    /// Returns the oldest message if there is one, for futures written by hand. Otherwise the task
    /// of `cx` is woken when a message arrives.
    ///
    /// # Errors
    ///
    /// Returns [`RecvError`] if the channel is empty and the sender has been dropped.
    ///
    /// ```
    /// let pool = creel::Pool::builder().workers(2).build()?;
    /// use std::future::poll_fn;
    ///
    /// let (mut tx, mut rx) = creel::channel::spsc::channel();
    /// tx.try_send(1).unwrap();
    /// assert_eq!(pool.block_on(poll_fn(|cx| rx.poll_recv(cx))), Ok(1));
    /// # Ok::<(), creel::BuildError>(())
    /// ```
    #[inline(always)]
    pub fn poll_recv(&mut self, cx: &mut Context<'_>) -> Poll<Result<T, RecvError>> {
        if budget::is_spent(cx) {
            return Poll::Pending;
        }
        loop {
            let seen = match self.take() {
                Ok(message) => {
                    budget::use_up(1);
                    return Poll::Ready(Ok(message));
                }
                Err(seen) if seen & TX_GONE != 0 => {
                    budget::use_up(1);
                    return Poll::Ready(Err(RecvError));
                }
                Err(seen) => seen,
            };
            let inner = self.inner();
            let waker = cx.waker();
            if inner.rx_waker.register(&inner.state, seen, RX_WAIT, waker) {
                self.taken = false;
                return Poll::Pending;
            }
        }
    }

    /// Receives one message. Blocks the calling thread until there is one. Use it on threads that
    /// do not run tasks.
    ///
    /// # Errors
    ///
    /// Returns [`RecvError`] if the channel is empty and the sender has been dropped.
    ///
    /// ```
    /// let (mut tx, mut rx) = creel::channel::spsc::channel();
    /// tx.try_send(1).unwrap();
    /// assert_eq!(rx.recv_blocking(), Ok(1));
    /// ```
    pub fn recv_blocking(&mut self) -> Result<T, RecvError> {
        blocking::wait(self.recv())
    }
}

/// The future that [`Receiver::recv`] returns.
///
/// ```
/// let pool = creel::Pool::builder().workers(2).build()?;
/// let (mut tx, mut rx) = creel::channel::spsc::channel();
/// let recv = rx.recv();
/// tx.try_send(1).unwrap();
/// assert_eq!(pool.block_on(recv), Ok(1));
/// # Ok::<(), creel::BuildError>(())
/// ```
#[derive(Debug)]
#[must_use = "futures do nothing unless awaited"]
pub struct RecvFuture<'a, T> {
    receiver: &'a mut Receiver<T>,
}

impl<T> Future for RecvFuture<'_, T> {
    type Output = Result<T, RecvError>;

    #[inline(always)]
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        self.receiver.poll_recv(cx)
    }
}

impl<T> Drop for Receiver<T> {
    fn drop(&mut self) {
        // The handoff and the place must be empty before we set the bit, because from then on the
        // sender may free the channel.
        let mut left = None;
        let seen = loop {
            let holds = if self.taken { FULL } else { FULL | HANDED };
            match self.inner().leave(RX_GONE, holds) {
                Some(seen) => break seen,
                None => {
                    let before = std::mem::replace(&mut left, self.try_recv().ok());
                    quietly(|| drop(before));
                }
            }
        };
        if seen & TX_GONE != 0 {
            // SAFETY: the sender is gone (`TX_GONE`), so this half ends second. `leave` found no
            // message in the channel, and `inner` is not used again.
            unsafe { free(self.inner) };
        }
        drop(left);
    }
}
