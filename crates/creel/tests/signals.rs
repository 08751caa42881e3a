//! Tests a pool during a storm of signals, each of which interrupts the system call that a thread
//! is in.
//!
//! The test is alone in its program, because it sets the signal handlers of the process.

#![cfg(all(target_os = "linux", not(miri)))]

mod deadline;

use creel::{Pool, Wait, net::UdpSocket, task, time};
use deadline::{block_on, bounded};
use std::{
    net::SocketAddr,
    sync::{
        Arc, Barrier,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::Duration,
};

extern "C" fn nothing(_: libc::c_int) {}

/// Interrupts each thread of the process again and again until the flag is set.
fn interrupt_all(over: &AtomicBool) {
    // SAFETY: all zeroes are a valid value of this plain struct.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    // Without SA_RESTART, an interrupted system call fails.
    action.sa_sigaction = nothing as extern "C" fn(libc::c_int) as usize;
    // SAFETY: the action is valid, and its handler does nothing.
    let set = unsafe { libc::sigaction(libc::SIGUSR1, &action, std::ptr::null_mut()) };
    assert_eq!(set, 0);
    // SAFETY: the call takes no arguments.
    let own = unsafe { libc::gettid() };
    // SAFETY: the call takes no arguments.
    let process = unsafe { libc::getpid() };
    while !over.load(Ordering::Relaxed) {
        for thread in std::fs::read_dir("/proc/self/task").unwrap().flatten() {
            let id: libc::pid_t = thread.file_name().to_str().unwrap().parse().unwrap();
            if id != own {
                // SAFETY: the call takes integers only. A thread that has ended causes an error,
                // which we ignore.
                unsafe { libc::syscall(libc::SYS_tgkill, process, id, libc::SIGUSR1) };
            }
        }
        thread::sleep(Duration::from_micros(300));
    }
}

fn everything(pool: &Pool) {
    let all = Arc::new(Barrier::new(pool.workers()));
    let meeting: Vec<_> = (0..pool.workers())
        .map(|_| {
            let all = Arc::clone(&all);
            pool.spawn_fn(move || _ = all.wait())
        })
        .collect();
    meeting.into_iter().for_each(|met| block_on(met).unwrap());
    assert_eq!(pool.broadcast(|i| i).len(), pool.workers());
    assert_eq!(pool.map(&[1; 500], |x| x + 1), [2; 500]);
    assert_eq!(pool.join(|| 1, || 2), (1, 2));
    pool.block_on(async {
        time::sleep(Duration::from_micros(300)).await;
        let loopback: SocketAddr = ([127, 0, 0, 1], 0).into();
        let (here, there) = (UdpSocket::bind(loopback), UdpSocket::bind(loopback));
        let (here, there) = (here.unwrap(), there.unwrap());
        let to = here.local_addr().unwrap();
        let sends = task::spawn(async move { there.send_to(b"packet", to).await.unwrap() });
        assert_eq!(here.recv(&mut [0; 8]).await.unwrap(), 6);
        sends.await.unwrap();
    });
}

#[test]
fn interrupted_system_calls_lose_nothing() {
    let over = Arc::new(AtomicBool::new(false));
    let inner = Arc::clone(&over);
    let storm = thread::spawn(move || interrupt_all(&inner));
    bounded("all kinds of work under signals", || {
        for wait in [
            Wait::Park,
            Wait::Adaptive,
            Wait::Throttle(Duration::from_micros(500)),
        ] {
            for workers in [1, 2, 4] {
                let pool = Pool::builder().workers(workers).wait(wait).build().unwrap();
                (0..20).for_each(|_| everything(&pool));
            }
        }
    });
    over.store(true, Ordering::Relaxed);
    storm.join().unwrap();
}
