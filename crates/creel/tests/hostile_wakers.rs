//! Tests with wakers of another executor that panic or call back when they are cloned, woken or
//! dropped.
//!
//! Each object that keeps a waker is tested with each of these wakers. It must neither hang nor
//! lose a wake-up, and it must work with an ordinary waker afterwards.

mod deadline;
mod hostile;

use creel::channel::{bounded, oneshot, spsc};
use creel::net::UdpSocket;
use creel::task::{CancellationToken, JoinSet};
use creel::time::{interval, sleep};
use hostile::{Act, Case, Hostile, Step, by, meets_all, with};
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::task::{Context, Waker};
use std::time::Duration;

const SECOND: Duration = Duration::from_secs(1);

fn nothing() -> Act {
    Arc::new(|| ())
}

#[test]
fn oneshot_survives_hostile_wakers() {
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
fn spsc_receiver_survives_hostile_wakers() {
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
fn spsc_sender_survives_hostile_wakers() {
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
fn bounded_receiver_survives_hostile_wakers() {
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
fn bounded_sender_survives_hostile_wakers() {
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
fn token_survives_hostile_wakers() {
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
fn join_handle_survives_hostile_wakers() {
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
fn join_set_survives_hostile_wakers() {
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
fn sleep_survives_hostile_wakers() {
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
fn interval_survives_hostile_wakers() {
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
fn udp_readiness_survives_hostile_wakers() {
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
fn blocking_call_survives_hostile_wakers() {
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

/// A message that counts how often it was dropped.
struct Counted(Arc<AtomicUsize>);

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

#[test]
fn a_panicking_waker_of_a_sender_loses_no_message() {
    let (bad, drops) = (Hostile::panics(Step::Wake), Arc::new(AtomicUsize::new(0)));
    let waker = bad.waker();
    let mut cx = Context::from_waker(&waker);
    let message = || Counted(Arc::clone(&drops));

    let (mut tx, mut rx) = spsc::channel();
    assert!(tx.try_send(message()).is_ok());
    let mut second = Some(message());
    assert!(tx.poll_send(&mut cx, &mut second).is_pending());
    assert!(rx.try_recv().is_ok(), "spsc");
    drop((tx, rx, second));

    let (tx, rx) = bounded::channel(1);
    let mut sent = 0;
    while tx.try_send(message()).is_ok() {
        sent += 1;
    }
    let mut send = pin!(tx.send(message()));
    assert!(send.as_mut().poll(&mut cx).is_pending());
    let received = std::iter::from_fn(|| rx.try_recv().ok()).count();
    assert_eq!(received, sent, "bounded");
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
fn a_panicking_waker_of_a_token_does_not_keep_others_from_being_woken() {
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
fn a_guard_dropped_by_a_panic_cancels_although_a_waker_panics() {
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
fn closing_a_bounded_channel_wakes_all_receivers_and_then_panics() {
    let (tx, rx) = bounded::channel::<u32>(2);
    let (bad, good) = (Hostile::panics(Step::Wake), Hostile::tame());
    let waits = [&bad, &good, &bad].map(|it| pending(rx.recv(), it));
    let thrown = catch_unwind(AssertUnwindSafe(|| tx.close()));
    assert!(thrown.is_err(), "the first panic is the caller's");
    assert!(good.is_woken());
    drop(waits);
}
