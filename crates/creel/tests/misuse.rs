//! Tests that a panic caused by misuse points to the caller's line, and not into the library.
//!
//! This is a single test, because the panic hook belongs to the whole process.

#![cfg(not(miri))]

use creel::{
    Outbox, Pool,
    channel::{bounded, spsc},
    loops::Tiles,
    net, task, time,
};
use std::{
    future::Future,
    panic::{self, AssertUnwindSafe, Location, catch_unwind},
    pin::pin,
    sync::{Arc, Mutex},
    task::{Context, Waker},
    time::{Duration, Instant},
};

/// The name of a misuse of the library, and a closure that misuses the library in this way.
type Case<'a> = (&'static str, Box<dyn FnOnce() + 'a>);

/// Polls the future once on a thread without a pool.
#[track_caller]
fn poll<F: Future>(future: F) {
    let mut context = Context::from_waker(Waker::noop());
    let _ = pin!(future).as_mut().poll(&mut context);
}

#[test]
fn misuse_panics_at_the_callers_line() {
    let pool = Pool::builder().workers(2).build().unwrap();
    let gone = Pool::builder().workers(1).build().unwrap().handle();
    let items = [0; 10];
    let cases: Vec<Case<'_>> = vec![
        (
            "broadcast after the end",
            Box::new(|| drop(gone.broadcast(|_| ()))),
        ),
        (
            "block_on after the end",
            Box::new(|| gone.block_on(async {})),
        ),
        (
            "block_on inside",
            Box::new(|| pool.block_on(async { pool.block_on(async {}) })),
        ),
        ("task::spawn", Box::new(|| task::spawn(async {}).detach())),
        (
            "task::spawn_local",
            Box::new(|| task::spawn_local(async {}).detach()),
        ),
        (
            "JoinSet::spawn",
            Box::new(|| task::JoinSet::new().spawn(async {})),
        ),
        ("bounded", Box::new(|| drop(bounded::channel::<u8>(0)))),
        (
            "spsc::poll_send",
            Box::new(|| {
                let (mut tx, _rx) = spsc::channel::<u8>();
                let _ = tx.poll_send(&mut Context::from_waker(Waker::noop()), &mut None);
            }),
        ),
        (
            "interval",
            Box::new(|| drop(time::interval(Duration::ZERO))),
        ),
        (
            "Interval::poll_tick",
            Box::new(|| {
                let mut ticks = time::interval(Duration::from_secs(1));
                let _ = ticks.poll_tick(&mut Context::from_waker(Waker::noop()));
            }),
        ),
        (
            "sleep",
            Box::new(|| {
                let mut sleep = pin!(time::sleep(Duration::from_secs(1)));
                let _ = sleep.as_mut().poll(&mut Context::from_waker(Waker::noop()));
            }),
        ),
        (
            "sleep, awaited",
            Box::new(|| poll(async { time::sleep_until(Instant::now()).await })),
        ),
        (
            "timeout",
            Box::new(|| {
                let limit = Duration::from_secs(1);
                poll(async { _ = time::timeout(limit, std::future::pending::<()>()).await });
            }),
        ),
        (
            "Clock::advance",
            Box::new(|| time::Clock::default().advance(Duration::ZERO)),
        ),
        (
            "JoinHandle",
            Box::new(|| {
                let mut task = pool.spawn(async {});
                pool.block_on(async { (&mut task).await.unwrap() });
                let _ = pin!(task).poll(&mut Context::from_waker(Waker::noop()));
            }),
        ),
        (
            "Blocking",
            Box::new(|| {
                let mut call = creel::blocking(|| ());
                pool.block_on(&mut call);
                let _ = pin!(call).poll(&mut Context::from_waker(Waker::noop()));
            }),
        ),
        (
            "set_max_blocking_threads",
            Box::new(|| creel::set_max_blocking_threads(0)),
        ),
        #[cfg(unix)]
        (
            "signal",
            Box::new(|| drop(creel::signal::signal(libc::SIGBUS))),
        ),
        #[cfg(unix)]
        (
            "signal that stops",
            Box::new(|| drop(creel::signal::signal(libc::SIGKILL))),
        ),
        (
            "UdpSocket::poll_recv",
            Box::new(|| {
                let socket = net::UdpSocket::bind("127.0.0.1:0".parse().unwrap()).unwrap();
                let mut context = Context::from_waker(Waker::noop());
                let _ = socket.poll_recv(&mut context, &mut [0; 8]);
            }),
        ),
        (
            "TcpListener::poll_accept",
            Box::new(|| {
                let listener = net::TcpListener::bind("127.0.0.1:0".parse().unwrap()).unwrap();
                let mut context = Context::from_waker(Waker::noop());
                let _ = listener.poll_accept(&mut context);
            }),
        ),
        ("Received", Box::new(|| drop(net::Received::new(0, 1)))),
        (
            "for_each",
            Box::new(|| pool.for_each((&[1][..], &[1, 2][..]), |_| ())),
        ),
        (
            "map_chunks",
            Box::new(|| drop(pool.map_chunks(&[1, 2], 0, |_| ()))),
        ),
        (
            "fold_with_leaves",
            Box::new(|| _ = pool.fold_with_leaves(0, &[1], || 0, |a, n| *a += n, |a, b| a + b)),
        ),
        ("Tiles", Box::new(|| _ = Tiles::new(&items, 3, (1, 1)))),
        (
            "Outbox",
            Box::new(|| {
                let mut outbox = Outbox::<u8>::new();
                let _ = outbox.for_receivers(2);
                pool.deliver(&mut outbox, &mut [0; 3], |_, _| ());
            }),
        ),
    ];
    let at = Arc::new(Mutex::new(None));
    let seen = Arc::clone(&at);
    let before = panic::take_hook();
    panic::set_hook(Box::new(move |info| {
        let place = info.location().map(Location::to_string);
        seen.lock()
            .unwrap()
            .get_or_insert((place, info.to_string()));
    }));
    let mut wrong = Vec::new();
    for (name, misuse) in cases {
        let outcome = catch_unwind(AssertUnwindSafe(misuse));
        match at.lock().unwrap().take() {
            Some((Some(place), _)) if outcome.is_err() && place.starts_with(file!()) => {}
            other => wrong.push((name, other)),
        }
    }
    panic::set_hook(before);
    assert!(wrong.is_empty(), "{wrong:#?}");
}
