//! Wakers of another executor that panic or call back when they are cloned, woken or dropped.
//!
//! Each object that keeps a waker meets each of these wakers. It must neither hang nor lose a
//! wake-up, and it must work with an ordinary waker afterwards.

mod deadline;

use creel::Pool;
use creel::channel::{bounded, leaky, oneshot, spsc};
use creel::net::{SendQueue, UdpSocket};
use creel::task::control::{Changes, Control, Flow, Trigger, Work};
use creel::task::{CancellationToken, JoinSet, yield_now};
use creel::time::{Clock, interval, sleep};
use deadline::bounded;
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::task::{Context, Poll, RawWaker, RawWakerVTable, Waker};
use std::time::Duration;

const SECOND: Duration = Duration::from_secs(1);

/// The moment at which a waker misbehaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Clone,
    Wake,
    Drop,
}

/// Misbehaves at its step while it is armed.
struct Hostile {
    step: Option<Step>,
    act: Box<dyn Fn() + Send + Sync>,
    armed: AtomicBool,
    wakes: AtomicUsize,
}

impl Hostile {
    fn new(step: Option<Step>, act: Box<dyn Fn() + Send + Sync>) -> Arc<Self> {
        Arc::new(Hostile {
            step,
            act,
            armed: AtomicBool::new(true),
            wakes: AtomicUsize::new(0),
        })
    }

    fn tame() -> Arc<Self> {
        Self::new(None, Box::new(|| ()))
    }

    fn panics(step: Step) -> Arc<Self> {
        Self::new(Some(step), Box::new(|| panic!("a hostile waker")))
    }

    /// Acts only once per arming. A callback that arrives here again does nothing.
    fn reach(&self, step: Step) {
        if self.step == Some(step) && self.armed.swap(false, Ordering::SeqCst) {
            let rearm = Rearm(&self.armed);
            (self.act)();
            drop(rearm);
        }
    }

    fn disarm(&self) {
        self.armed.store(false, Ordering::SeqCst);
    }

    fn is_woken(&self) -> bool {
        self.wakes.load(Ordering::SeqCst) > 0
    }

    fn waker(self: &Arc<Self>) -> Waker {
        let data = Arc::into_raw(Arc::clone(self)).cast();
        // SAFETY: the functions of the table expect a pointer to an `Arc<Hostile>`.
        unsafe { Waker::from_raw(RawWaker::new(data, &TABLE)) }
    }
}

struct Rearm<'a>(&'a AtomicBool);

impl Drop for Rearm<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

static TABLE: RawWakerVTable = RawWakerVTable::new(
    |data| {
        let hostile = borrowed(data);
        hostile.reach(Step::Clone);
        RawWaker::new(Arc::into_raw(hostile).cast(), &TABLE)
    },
    |data| woken(&owned(data)),
    |data| woken(&borrowed(data)),
    |data| owned(data).reach(Step::Drop),
);

fn woken(hostile: &Hostile) {
    hostile.wakes.fetch_add(1, Ordering::SeqCst);
    hostile.reach(Step::Wake);
}

/// Takes over the reference count that a waker's pointer owns.
fn owned(data: *const ()) -> Arc<Hostile> {
    // SAFETY: a waker's pointer comes from `Arc::into_raw`, and the caller does not use this one
    // again.
    unsafe { Arc::from_raw(data.cast()) }
}

/// Returns an additional reference.
fn borrowed(data: *const ()) -> Arc<Hostile> {
    // SAFETY: the pointer belongs to a live waker, so the reference count is at least one.
    unsafe { Arc::increment_strong_count(data.cast::<Hostile>()) };
    owned(data)
}

type Wait = Box<dyn FnMut(&mut Context<'_>) -> Poll<()>>;
type Act = Arc<dyn Fn() + Send + Sync>;

/// An object that keeps a waker.
struct Case {
    /// Waits for `event`.
    wait: Wait,
    event: Act,
    /// Uses the object from inside its waker.
    touch: Act,
}

/// Waits by polling a future, and makes a new future after a panic.
fn by<F: Future<Output = ()> + 'static>(make: impl Fn() -> F + 'static) -> Wait {
    let mut kept = None;
    Box::new(move |cx| {
        let mut future = kept.take().unwrap_or_else(|| Box::pin(make()));
        let poll = future.as_mut().poll(cx);
        kept = poll.is_pending().then_some(future);
        poll
    })
}

/// Calls `f` with the contents of the mutex, unless the mutex is locked.
fn with<T: Send + 'static>(
    place: &Arc<Mutex<T>>,
    f: impl Fn(&mut T) + Send + Sync + 'static,
) -> Act {
    let place = Arc::clone(place);
    Arc::new(move || {
        if let Ok(mut value) = place.try_lock() {
            f(&mut value);
        }
    })
}

/// Runs the case with a waker that does `act` at `step`.
async fn meet(mut case: Case, step: Step, act: Option<Act>) {
    let hostile = match act {
        None => Hostile::panics(step),
        Some(act) => Hostile::new(Some(step), Box::new(move || act())),
    };
    let (tame, waker) = (Hostile::tame(), hostile.waker());
    let mut wait = |waker: &Waker| {
        let poll = || (case.wait)(&mut Context::from_waker(waker));
        catch_unwind(AssertUnwindSafe(poll)).is_ok_and(|poll| poll.is_ready())
    };
    let mut last = &hostile;
    let mut done = wait(&waker);
    if step == Step::Clone {
        hostile.disarm();
        done = done || wait(&waker);
    }
    if step == Step::Drop {
        last = &tame;
        done = done || wait(&tame.waker());
    }
    if !done {
        // This call can panic, since it may run the hostile waker.
        let _ = catch_unwind(AssertUnwindSafe(|| (case.event)()));
        while !last.is_woken() {
            yield_now().await;
        }
    }
    hostile.disarm();
    let waker = tame.waker();
    while !done {
        done = wait(&waker);
        yield_now().await;
    }
}

/// Runs the case with all hostile wakers, on a pool with a manual clock.
fn meets_all(make: impl Fn(&Clock) -> Case + Send + Sync + 'static) {
    let make = Arc::new(make);
    for step in [Step::Clone, Step::Wake, Step::Drop] {
        for panics in [true, false] {
            let make = Arc::clone(&make);
            bounded(&format!("{step:?}, panics: {panics}"), move || {
                let clock = Clock::manual();
                let pool = Pool::builder().workers(1).clock(clock.clone());
                let pool = pool.build().unwrap();
                pool.block_on(async {
                    let case = make(&clock);
                    let act = (!panics).then(|| Arc::clone(&case.touch));
                    meet(case, step, act).await;
                });
            });
        }
    }
}

fn nothing() -> Act {
    Arc::new(|| ())
}

#[test]
fn oneshot_meets_hostile_wakers() {
    meets_all(|_| {
        let (tx, mut rx) = oneshot::channel::<u32>();
        let send = with(&Arc::new(Mutex::new(Some(tx))), |tx| {
            tx.take().map(|tx| tx.send(7));
        });
        Case {
            wait: Box::new(move |cx| Pin::new(&mut rx).poll(cx).map(|it| assert_eq!(it, Ok(7)))),
            event: Arc::clone(&send),
            touch: send,
        }
    });
}

#[test]
fn slot_s_receiver_meets_hostile_wakers() {
    meets_all(|_| {
        let (tx, mut rx) = spsc::channel();
        let send = with(&Arc::new(Mutex::new(tx)), |tx| _ = tx.try_send(7));
        Case {
            wait: Box::new(move |cx| rx.poll_recv(cx).map(|it| assert_eq!(it, Ok(7)))),
            event: Arc::clone(&send),
            touch: send,
        }
    });
}

#[test]
fn slot_s_sender_meets_hostile_wakers() {
    meets_all(|_| {
        let (mut tx, rx) = spsc::channel();
        tx.try_send(1).unwrap();
        let receive = with(&Arc::new(Mutex::new(rx)), |rx| _ = rx.try_recv());
        let mut message = Some(2);
        Case {
            wait: Box::new(move |cx| tx.poll_send(cx, &mut message).map(Result::unwrap)),
            event: Arc::clone(&receive),
            touch: receive,
        }
    });
}

#[test]
fn ring_s_receiver_meets_hostile_wakers() {
    meets_all(|_| {
        let (tx, rx) = bounded::channel::<u32>(4);
        let tx = Arc::new(tx);
        let (rx, again) = (rx.clone(), Arc::clone(&tx));
        Case {
            wait: by(move || {
                let rx = rx.clone();
                async move { _ = rx.recv().await }
            }),
            event: Arc::new(move || _ = tx.try_send(7)),
            touch: Arc::new(move || _ = again.try_send(7)),
        }
    });
}

#[test]
fn ring_s_sender_meets_hostile_wakers() {
    meets_all(|_| {
        let (tx, rx) = bounded::channel::<u32>(2);
        while tx.try_send(1).is_ok() {}
        let rx = Arc::new(rx);
        let again = Arc::clone(&rx);
        Case {
            wait: by(move || {
                let tx = tx.clone();
                async move { tx.send(7).await.unwrap() }
            }),
            event: Arc::new(move || _ = rx.try_recv()),
            touch: Arc::new(move || _ = again.try_recv()),
        }
    });
}

#[test]
fn leaky_s_receiver_meets_hostile_wakers() {
    meets_all(|_| {
        let (tx, mut rx) = leaky::channel(2, leaky::Leak::Old);
        let send = with(&Arc::new(Mutex::new(tx)), |tx| _ = tx.try_send(7));
        Case {
            wait: Box::new(move |cx| rx.poll_recv(cx).map(|it| assert_eq!(it, Ok(7)))),
            event: Arc::clone(&send),
            touch: send,
        }
    });
}

#[test]
fn leaky_s_sender_meets_hostile_wakers() {
    meets_all(|_| {
        let (mut tx, rx) = leaky::channel(1, leaky::Leak::No);
        tx.try_send(1).unwrap();
        let receive = with(&Arc::new(Mutex::new(rx)), |rx| _ = rx.try_recv());
        let mut message = Some(2);
        Case {
            wait: Box::new(move |cx| tx.poll_send(cx, &mut message).map(Result::unwrap)),
            event: Arc::clone(&receive),
            touch: receive,
        }
    });
}

#[test]
fn send_queue_meets_hostile_wakers() {
    meets_all(|_| {
        let socket = UdpSocket::bind("127.0.0.1:0".parse().unwrap()).unwrap();
        let to = socket.as_std().local_addr().unwrap();
        let queue = Arc::new(SendQueue::new(Arc::new(socket), 100));
        let (closes, pushes) = (Arc::clone(&queue), Arc::clone(&queue));
        Case {
            wait: by(move || {
                let queue = Arc::clone(&queue);
                async move { queue.run().await }
            }),
            event: Arc::new(move || closes.close()),
            touch: Arc::new(move || pushes.push(b"a buffer", [to])),
        }
    });
}

#[test]
fn a_send_queue_may_be_used_by_the_iterator_of_receivers() {
    let socket = UdpSocket::bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let to = socket.as_std().local_addr().unwrap();
    let queue = Arc::new(SendQueue::new(Arc::new(socket), 1));
    let written = Arc::clone(&queue);
    bounded("pushing while pushing", move || {
        let receivers = [to].into_iter();
        written.push(
            b"a buffer",
            receivers.inspect(|&to| written.push(b"another", [to])),
        );
    });
    // The queue has room for the inner one.
    assert_eq!(queue.dropped(), 1);
}

/// Work that never has anything to do.
struct Nothing;

impl Work for Nothing {
    fn poll_step(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Flow>> {
        Poll::Pending
    }
}

#[test]
fn control_meets_hostile_wakers() {
    meets_all(|_| {
        let control = Arc::new(Control::started(Changes::default()));
        let mut running = control.run(Nothing);
        let again = Arc::clone(&control);
        Case {
            wait: Box::new(move |cx| Pin::new(&mut running).poll(cx).map(drop)),
            event: Arc::new(move || _ = control.trigger(Trigger::Stop)),
            touch: Arc::new(move || _ = again.trigger(Trigger::Stop)),
        }
    });
}

#[test]
fn token_meets_hostile_wakers() {
    meets_all(|_| {
        let token = CancellationToken::new();
        let (cancels, again) = (token.clone(), token.clone());
        Case {
            wait: by(move || {
                let token = token.clone();
                async move { token.cancelled().await }
            }),
            event: Arc::new(move || cancels.cancel()),
            touch: Arc::new(move || {
                let child = again.child();
                let mut context = Context::from_waker(Waker::noop());
                let _ = pin!(child.cancelled()).poll(&mut context);
                let _ = pin!(again.cancelled()).poll(&mut context);
            }),
        }
    });
}

#[test]
fn join_handle_meets_hostile_wakers() {
    meets_all(|_| {
        let (tx, rx) = oneshot::channel::<u32>();
        let mut task = creel::task::spawn(rx);
        let send = with(&Arc::new(Mutex::new(Some(tx))), |tx| {
            tx.take().map(|tx| tx.send(7));
        });
        Case {
            wait: Box::new(move |cx| Pin::new(&mut task).poll(cx).map(drop)),
            event: Arc::clone(&send),
            touch: send,
        }
    });
}

#[test]
fn join_set_meets_hostile_wakers() {
    meets_all(|_| {
        let (tx, rx) = oneshot::channel::<u32>();
        let mut set = JoinSet::new();
        set.spawn(rx);
        let send = with(&Arc::new(Mutex::new(Some(tx))), |tx| {
            tx.take().map(|tx| tx.send(7));
        });
        Case {
            wait: Box::new(move |cx| set.poll_join_next(cx).map(drop)),
            event: Arc::clone(&send),
            touch: send,
        }
    });
}

/// Arms and drops another timer of this thread, if the thread has timers.
fn another_timer() -> Act {
    Arc::new(|| {
        let mut other = sleep(60 * SECOND);
        let poll = || {
            let _ = Pin::new(&mut other).poll(&mut Context::from_waker(Waker::noop()));
        };
        let _ = catch_unwind(AssertUnwindSafe(poll));
    })
}

#[test]
fn sleep_meets_hostile_wakers() {
    meets_all(|clock| {
        let (mut pause, clock) = (sleep(SECOND), clock.clone());
        // The timer is already on the wheel, with another waker.
        let armed = Pin::new(&mut pause).poll(&mut Context::from_waker(Waker::noop()));
        assert!(armed.is_pending());
        Case {
            wait: Box::new(move |cx| Pin::new(&mut pause).poll(cx)),
            event: Arc::new(move || clock.advance(2 * SECOND)),
            touch: another_timer(),
        }
    });
}

#[test]
fn interval_meets_hostile_wakers() {
    meets_all(|clock| {
        let (mut ticks, clock) = (interval(SECOND), clock.clone());
        let armed = ticks.poll_tick(&mut Context::from_waker(Waker::noop()));
        assert!(armed.is_pending());
        Case {
            wait: Box::new(move |cx| ticks.poll_tick(cx).map(drop)),
            event: Arc::new(move || clock.advance(2 * SECOND)),
            touch: another_timer(),
        }
    });
}

#[test]
fn udp_readiness_meets_hostile_wakers() {
    meets_all(|_| {
        let socket = UdpSocket::bind("127.0.0.1:0".parse().unwrap()).unwrap();
        let to = socket.as_std().local_addr().unwrap();
        let (socket, sender) = (Arc::new(socket), std::net::UdpSocket::bind("127.0.0.1:0"));
        let (again, sender) = (Arc::clone(&socket), sender.unwrap());
        Case {
            wait: by(move || {
                let socket = Arc::clone(&socket);
                async move { socket.readable().await.unwrap() }
            }),
            event: Arc::new(move || drop(sender.send_to(b"a buffer", to))),
            touch: Arc::new(move || {
                let _ = pin!(again.readable()).poll(&mut Context::from_waker(Waker::noop()));
            }),
        }
    });
}

#[test]
fn blocking_call_meets_hostile_wakers() {
    meets_all(|_| {
        let (tx, rx) = mpsc::channel::<()>();
        let mut call = creel::blocking(move || _ = rx.recv());
        Case {
            wait: Box::new(move |cx| Pin::new(&mut call).poll(cx)),
            event: Arc::new(move || _ = tx.send(())),
            touch: nothing(),
        }
    });
}

/// Counts its drops.
struct Counted(Arc<AtomicUsize>);

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

#[test]
fn a_sender_s_waker_that_panics_does_not_lose_a_message() {
    let (bad, drops) = (Hostile::panics(Step::Wake), Arc::new(AtomicUsize::new(0)));
    let waker = bad.waker();
    let mut cx = Context::from_waker(&waker);
    let message = || Counted(Arc::clone(&drops));

    let (mut tx, mut rx) = spsc::channel();
    assert!(tx.try_send(message()).is_ok());
    let mut second = Some(message());
    assert!(tx.poll_send(&mut cx, &mut second).is_pending());
    assert!(rx.try_recv().is_ok(), "slot");
    drop((tx, rx, second));

    let (mut tx, mut rx) = leaky::channel(1, leaky::Leak::No);
    assert!(tx.try_send(message()).is_ok());
    let mut second = Some(message());
    assert!(tx.poll_send(&mut cx, &mut second).is_pending());
    assert!(rx.try_recv().is_ok(), "leaky");
    drop((tx, rx, second));

    let (tx, rx) = bounded::channel(1);
    let mut sent = 0;
    while tx.try_send(message()).is_ok() {
        sent += 1;
    }
    let mut send = pin!(tx.send(message()));
    assert!(send.as_mut().poll(&mut cx).is_pending());
    let received = std::iter::from_fn(|| rx.try_recv().ok()).count();
    assert_eq!(received, sent, "ring");
}

#[test]
fn a_receiver_s_waker_that_panics_when_cloned_does_not_lose_a_message() {
    let bad = Hostile::panics(Step::Clone);
    let waker = bad.waker();
    let mut cx = Context::from_waker(&waker);
    let (mut tx, mut rx) = leaky::channel(2, leaky::Leak::Old);
    tx.try_send(7).unwrap();
    // This poll takes the message and registers the waker in one step.
    let polled = catch_unwind(AssertUnwindSafe(|| {
        rx.poll_recv_or_wait(&mut cx).is_ready()
    }));
    assert!(polled.is_err());
    assert_eq!(rx.try_recv(), Ok(7));
}

/// Polls a future with the hostile waker and returns the future, which is still pending.
fn pending<F: Future>(future: F, hostile: &Arc<Hostile>) -> Pin<Box<F>> {
    let mut future = Box::pin(future);
    let waker = hostile.waker();
    let poll = future.as_mut().poll(&mut Context::from_waker(&waker));
    assert!(poll.is_pending());
    future
}

#[test]
fn a_token_s_waker_that_panics_costs_no_other_its_wake() {
    let token = CancellationToken::new();
    let (child, grandchild) = (token.child(), token.child().child());
    let (bad, good) = (Hostile::panics(Step::Wake), Hostile::tame());
    let waits = [&bad, &good, &bad, &good].map(|it| pending(token.cancelled(), it));
    let below = pending(grandchild.cancelled(), &good);
    let thrown = catch_unwind(AssertUnwindSafe(|| token.cancel()));
    let payload = thrown.expect_err("the first panic is the caller's");
    assert_eq!(payload.downcast_ref(), Some(&"a hostile waker"));
    assert_eq!(good.wakes.load(Ordering::SeqCst), 3);
    assert!(token.is_cancelled() && child.is_cancelled() && grandchild.is_cancelled());
    drop((waits, below));
}

#[test]
fn a_guard_dropped_by_a_panic_cancels_in_spite_of_a_waker_that_panics() {
    let token = CancellationToken::new();
    let (bad, good) = (Hostile::panics(Step::Wake), Hostile::tame());
    let waits = [&bad, &good].map(|it| pending(token.cancelled(), it));
    let guard = token.clone().drop_guard();
    let thrown = catch_unwind(AssertUnwindSafe(move || {
        let _guard = guard;
        panic!("the program's own");
    }));
    let payload = thrown.expect_err("the call panics");
    assert_eq!(payload.downcast_ref(), Some(&"the program's own"));
    assert!(good.is_woken());
    drop(waits);
}

#[test]
fn a_ring_that_is_closed_wakes_all_and_then_throws() {
    let (tx, rx) = bounded::channel::<u32>(2);
    let (bad, good) = (Hostile::panics(Step::Wake), Hostile::tame());
    let waits = [&bad, &good, &bad].map(|it| pending(rx.recv(), it));
    let thrown = catch_unwind(AssertUnwindSafe(|| tx.close()));
    assert!(thrown.is_err(), "the first panic is the caller's");
    assert!(good.is_woken());
    drop(waits);
}

/// A message whose drop panics.
struct Bomb;

impl Drop for Bomb {
    fn drop(&mut self) {
        panic!("a hostile message");
    }
}

#[test]
fn messages_that_panic_when_dropped_cost_no_other_side_its_wake() {
    let good = Hostile::tame();
    let waker = good.waker();
    let mut cx = Context::from_waker(&waker);
    let full = || {
        let (mut tx, rx) = leaky::channel(1, leaky::Leak::No);
        assert!(tx.try_send(Some(Bomb)).is_ok());
        (tx, rx)
    };
    let (mut tx, mut rx) = full();
    assert!(tx.poll_send(&mut cx, &mut Some(None)).is_pending());
    assert!(catch_unwind(AssertUnwindSafe(|| rx.flush())).is_err());
    assert_eq!(good.wakes.load(Ordering::SeqCst), 1, "flush");

    let (mut tx, rx) = full();
    assert!(tx.poll_send(&mut cx, &mut Some(None)).is_pending());
    assert!(catch_unwind(AssertUnwindSafe(|| drop(rx))).is_err());
    assert_eq!(good.wakes.load(Ordering::SeqCst), 2, "drop");

    let (mut tx, mut rx) = leaky::channel(1, leaky::Leak::Old);
    assert!(rx.poll_recv(&mut cx).is_pending());
    assert!(tx.try_send(Some(Bomb)).is_ok());
    assert_eq!(good.wakes.load(Ordering::SeqCst), 3);
    assert!(rx.try_recv().map(std::mem::forget).is_ok());
}
