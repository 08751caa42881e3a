//! A channel with one place, from one sender to one receiver, used again and again.
//!
//! It is what a pair of tasks that hand work to each other needs: a message a hand-over, the
//! sender waits while the place is full. A message for a receiver that waits does not go to the
//! place but to the receiver's *handoff*, and the place stays free for the next; so the receiver takes
//! it without an atomic exchange, and the one by which it waits again empties the handoff. All other
//! operations are one exchange each. One allocation a channel, none a message. The protocol of the
//! wakers is told in `waker_cell.rs`.
//!
//! Left out: several senders or receivers; that is the ring.

use super::waker_cell::{EPOCH, Wait, WakerCell, exchange};
use super::{Closed, SendError, TryRecvError, TrySendError, blocking, memory};
use crate::sync::{AtomicU64, Ordering, UnsafeCell};
use crate::worker::{budget, panics::quietly};
use std::future::Future;
use std::mem::{ManuallyDrop, MaybeUninit};
use std::pin::Pin;
use std::ptr::{self, NonNull};
use std::task::{Context, Poll};

/// The place holds a message, and is the receiver's; else it is the sender's.
const FULL: u64 = 1;
/// The receiver's waker is stored and belongs to who clears this bit; the handoff is the sender's.
/// Never with `FULL` or `HANDED`.
const RX_WAITING: u64 = 1 << 1;
/// The sender's waker is stored and belongs to who clears this bit. Never without `FULL`.
const TX_WAITING: u64 = 1 << 2;
/// The sender is gone; with `RX_GONE` too the channel is freed.
const TX_GONE: u64 = 1 << 3;
/// The receiver is gone; the sender's next send fails.
const RX_GONE: u64 = 1 << 4;
/// The sender has put a message in the handoff, which is older than the one in the place. That is
/// the receiver's, who may have taken the message already.
const HANDED: u64 = 1 << 5;

/// The receiver's wait, after it has taken what was in the handoff.
const RX_WAIT: Wait = Wait {
    bit: RX_WAITING,
    clears: HANDED,
};
/// The sender's.
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

/// Makes a channel with one place. A message for a receiver that waits already goes past it and
/// leaves the place free for the next.
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

/// The sending half. Dropping it closes the channel once the place is empty.
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

/// The receiving half. Dropping it drops what was sent and not received, and makes sends fail.
///
/// ```
/// let (mut tx, mut rx) = creel::channel::spsc::channel();
/// tx.try_send(1).unwrap();
/// assert_eq!(rx.try_recv(), Ok(1));
/// ```
#[derive(Debug)]
pub struct Receiver<T> {
    inner: NonNull<Inner<T>>,
    /// With `HANDED`: the message has been taken out of the handoff.
    taken: bool,
}

// SAFETY: the state word orders all accesses of the two halves; messages move between threads.
unsafe impl<T: Send> Send for Sender<T> {}
// SAFETY: the state word orders all accesses of the two halves; a received message is sent
// to this thread.
unsafe impl<T: Send> Send for Receiver<T> {}
// SAFETY: a shared half only reads the state word; the rest takes `&mut self`.
unsafe impl<T: Send> Sync for Sender<T> {}
// SAFETY: a shared half only reads the state word, which is atomic; what touches messages takes
// `&mut self`.
unsafe impl<T: Send> Sync for Receiver<T> {}

impl<T> Inner<T> {
    /// Copies a message out of the handoff or the place.
    ///
    /// # Safety
    ///
    /// The caller has seen the bits that make `from` its own.
    #[inline]
    unsafe fn copy(from: &UnsafeCell<MaybeUninit<T>>) -> MaybeUninit<T> {
        // SAFETY: the caller's, alone.
        from.with_mut(|from| unsafe { from.read() })
    }

    /// One side's end: sets its bit, drops its own waker, wakes the other side.
    ///
    /// Returns the word as it was before, or `None`, nothing done, if one of `unless` is set.
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
            // SAFETY: the exchange cleared the bit, on the value read before the copy.
            let rx = (seen & RX_WAITING != 0).then(|| unsafe { rx.into_waker() });
            // SAFETY: validity: the exchange found `TX_WAITING` set on the value read before the
            // copy, so the copy is of a whole waker. Aliasing: the exchange cleared that bit, so
            // nobody else takes it.
            let tx = (seen & TX_WAITING != 0).then(|| unsafe { tx.into_waker() });
            let other = if gone == TX_GONE { rx } else { tx };
            if let Some(waker) = other {
                waker.wake_in_drop();
            }
            return Some(seen);
        }
    }
}

/// Frees the channel; the place is empty.
///
/// # Safety
///
/// Both halves have set their bits, the caller the second, and `inner` is not used again.
unsafe fn free<T>(inner: NonNull<Inner<T>>) {
    // SAFETY: the caller's, alone.
    let state = unsafe { inner.as_ref() }.state.load(Ordering::Relaxed);
    // SAFETY: made in `channel`, freed once by the second half.
    unsafe { memory::free(inner, state) };
}

impl<T> Sender<T> {
    #[inline]
    fn inner(&self) -> &Inner<T> {
        // SAFETY: the channel lives until both halves are gone.
        unsafe { self.inner.as_ref() }
    }

    /// Puts the message in the place if it is empty. Never waits.
    ///
    /// # Errors
    ///
    /// The message back: [`TrySendError::Full`], or [`TrySendError::Closed`] when the receiver is
    /// gone.
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
            // SAFETY: by the word, the handoff or the empty place is the sender's, alone.
            to.with_mut(|to| unsafe {
                ptr::copy_nonoverlapping(&raw const *message, to.cast(), 1)
            });
            let words = inner.rx_waker.copy();
            if exchange(&inner.state, seen, next.wrapping_add(EPOCH)) {
                if waits {
                    // SAFETY: the exchange cleared the bit, on the value read before the copy.
                    unsafe { words.into_waker() }.wake();
                }
                return Ok(());
            }
        }
    }

    /// Sends one message, waiting while the place is full.
    ///
    /// Cancelling (dropping the future) before it is ready drops the message, which was not sent.
    ///
    /// # Errors
    ///
    /// The future gives the message back when the receiver is gone.
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

    /// Takes the message and sends it once the place is empty; until then `cx` is woken when it
    /// is. For futures written by hand.
    ///
    /// # Errors
    ///
    /// The message back when the receiver is gone.
    ///
    /// # Panics
    ///
    /// Without a message.
    #[inline]
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

    /// Sends one message, blocking the calling thread while the place is full.
    ///
    /// # Errors
    ///
    /// The message back when the receiver is gone.
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

/// The future of [`Sender::send`].
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

    #[inline]
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = &mut *self;
        this.sender.poll_send(cx, &mut this.message)
    }
}

impl<T> Drop for Sender<T> {
    fn drop(&mut self) {
        let seen = self.inner().leave(TX_GONE, 0);
        if seen.is_some_and(|seen| seen & RX_GONE != 0) {
            // SAFETY: the second half; the receiver emptied the place before it left.
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
    /// [`TryRecvError::Empty`] while the sender lives, else [`TryRecvError::Closed`].
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

    /// Takes the oldest message, or gives the word that says that there is none.
    #[inline]
    fn take(&mut self) -> Result<T, u64> {
        let inner = self.inner();
        loop {
            let seen = inner.state.load(Ordering::Acquire);
            if seen & HANDED != 0 && !self.taken {
                // SAFETY: `HANDED`.
                let message = unsafe { Inner::copy(&inner.handoff) };
                self.taken = true;
                // SAFETY: it is there, and not taken twice.
                return Ok(unsafe { message.assume_init() });
            }
            if seen & FULL == 0 {
                return Err(seen);
            }
            // SAFETY: `FULL`; it is moved only once the exchange is won.
            let message = unsafe { Inner::copy(&inner.place) };
            let words = inner.tx_waker.copy();
            let empty = (seen & !(FULL | TX_WAITING)).wrapping_add(EPOCH);
            if exchange(&inner.state, seen, empty) {
                // SAFETY: the place was full and the exchange made the message ours.
                let message = unsafe { message.assume_init() };
                if seen & TX_WAITING != 0 {
                    // SAFETY: the exchange cleared the bit, on the value read before the copy.
                    unsafe { words.into_waker() }.wake_quietly();
                }
                return Ok(message);
            }
        }
    }

    /// Receives one message, waiting for it.
    ///
    /// Cancel-safe: a future dropped before it is ready has taken nothing.
    ///
    /// # Errors
    ///
    /// The future gives [`Closed`] when the sender is gone and the place is empty.
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

    /// The message, once it is there; until then `cx` is woken when it is. For futures written by
    /// hand.
    ///
    /// # Errors
    ///
    /// [`Closed`] when the sender is gone and the place is empty.
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
    #[inline]
    pub fn poll_recv(&mut self, cx: &mut Context<'_>) -> Poll<Result<T, Closed>> {
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
                    return Poll::Ready(Err(Closed));
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

    /// Receives one message, blocking the calling thread until it is there.
    ///
    /// # Errors
    ///
    /// [`Closed`] when the sender is gone and the place is empty.
    ///
    /// ```
    /// let (mut tx, mut rx) = creel::channel::spsc::channel();
    /// tx.try_send(1).unwrap();
    /// assert_eq!(rx.recv_blocking(), Ok(1));
    /// ```
    pub fn recv_blocking(&mut self) -> Result<T, Closed> {
        blocking::wait(self.recv())
    }
}

/// The future of [`Receiver::recv`].
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
    type Output = Result<T, Closed>;

    #[inline]
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        self.receiver.poll_recv(cx)
    }
}

impl<T> Drop for Receiver<T> {
    fn drop(&mut self) {
        // Handoff and place must be empty before the bit is set: from then on the sender may free
        // the channel.
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
            // SAFETY: the second half, and the place is empty.
            unsafe { free(self.inner) };
        }
        drop(left);
    }
}
