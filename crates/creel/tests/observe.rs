//! Tests of the observation socket: what a pool reports to other processes, and which commands it
//! accepts.

#![cfg(all(target_os = "linux", not(miri)))]

use creel::{BuildError, Observe, Pool, Wait};
use std::{
    error::Error,
    io::{self, Read, Write},
    os::{
        linux::net::SocketAddrExt,
        unix::net::{SocketAddr, UnixListener, UnixStream},
    },
    sync::{Arc, Mutex, MutexGuard},
};

/// The sockets belong to the process, so the tests run one after the other.
static ALONE: Mutex<()> = Mutex::new(());

fn alone() -> MutexGuard<'static, ()> {
    ALONE.lock().unwrap_or_else(|e| e.into_inner())
}

fn address(number: usize) -> SocketAddr {
    let name = format!("creel/{}/{number}", std::process::id());
    SocketAddr::from_abstract_name(name).unwrap()
}

fn connect(number: usize) -> std::io::Result<UnixStream> {
    UnixStream::connect_addr(&address(number))
}

fn ask(number: usize, line: &str) -> String {
    let mut stream = connect(number).unwrap();
    stream.write_all(line.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

fn pool(observe: Observe) -> Pool {
    let builder = Pool::builder().workers(2).name("a \"b\"\n");
    builder.observe(observe).build().unwrap()
}

#[test]
fn the_stats_show_what_workers_do() {
    let _alone = alone();
    let pool = pool(Observe::Look);
    pool.run_on(1, || ()).unwrap();
    let reply = ask(0, "stats\n");
    assert!(reply.contains(r#""pool":"a \"b\"\u000a""#), "{reply}");
    assert!(
        reply.contains(r#"{"worker":0,"state":"unstarted","#),
        "{reply}"
    );
    assert!(reply.contains(r#""inbox":1,"#), "{reply}");
    assert!(reply.contains(r#""resizable":false,"#), "{reply}");
    assert!(ask(0, "workers 1\n").contains("error"));
    assert_eq!(pool.workers(), 2);
}

#[test]
fn the_number_of_workers_can_be_changed_if_allowed() {
    let _alone = alone();
    let pool = pool(Observe::Resize);
    assert_eq!(ask(0, "workers 3\n"), "{\"schema\":1,\"workers\":3}\n");
    assert_eq!(pool.workers(), 3);
    for wrong in ["workers 0\n", "workers x\n", "workers\n", "rubbish", ""] {
        let mut stream = connect(0).unwrap();
        stream.write_all(wrong.as_bytes()).unwrap();
        stream.shutdown(std::net::Shutdown::Write).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        assert!(answer.contains("error"), "{wrong:?}: {answer}");
    }
    assert_eq!(pool.workers(), 3);
}

#[test]
fn an_observation_socket_closes_with_its_pool_or_before() {
    let _alone = alone();
    let off = pool(Observe::Off);
    assert!(connect(0).is_err(), "a pool with Observe::Off has a socket");
    let (one, two) = (pool(Observe::Look), pool(Observe::Look));
    assert!(connect(0).is_ok() && connect(1).is_ok());
    // A client that connects and sends nothing does not delay the others for long.
    let silent = connect(0).unwrap();
    drop(one);
    assert!(connect(0).is_err());
    two.observe(Observe::Off).unwrap();
    assert!(connect(1).is_err());
    drop((two, silent, off));
}

#[test]
fn a_handle_of_a_dropped_pool_opens_no_socket() {
    let _alone = alone();
    let pool = pool(Observe::Off);
    let handle = pool.handle();
    drop(pool);
    let refused = handle.observe(Observe::Look).unwrap_err();
    assert!(matches!(refused, BuildError::Ended), "{refused}");
    assert!(connect(0).is_err());
    handle.observe(Observe::Off).unwrap();
}

#[test]
fn loops_are_counted_whether_or_not_they_are_shared() {
    // The workers park, because an adaptive pool on one CPU behaves like a pool of one worker.
    let builder = Pool::builder().workers(2).wait(Wait::Park);
    let pool = builder.build().unwrap();
    for _ in 0..100 {
        // This loop is so small that waking a worker does not pay. The caller runs it in place of
        // worker 0.
        pool.for_each(&mut [0_u8; 10], |item| *item += 1);
    }
    let workers = pool.stats().workers;
    assert_eq!(workers.iter().map(|w| w.loop_items).sum::<u64>(), 1000);
}

#[test]
fn a_pool_dropped_on_its_own_worker_closes_its_socket() {
    let _alone = alone();
    let pool = pool(Observe::Look);
    let handle = pool.handle();
    handle.spawn(async move { drop(pool) }).detach();
    // We wait until the name is free again.
    while UnixListener::bind_addr(&address(0)).is_err() {
        std::thread::yield_now();
    }
}

#[test]
fn a_failure_to_observe_is_reported() {
    let refused = Arc::new(io::Error::other("no"));
    let error = BuildError::Observe(refused);
    assert_eq!(
        error.to_string(),
        "cannot let other programs observe the pool"
    );
    assert_eq!(error.source().unwrap().to_string(), "no");
}
