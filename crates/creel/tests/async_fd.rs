//! Tests of `AsyncFd` with descriptors that are not sockets.
#![cfg(all(target_os = "linux", feature = "net"))]

use creel::Pool;
use creel::net::{AsyncFd, Direction};
use creel::time::{sleep, timeout};
use rustix::event::{EventfdFlags, eventfd};
use std::fs::File;
use std::io::{self, ErrorKind, PipeReader, PipeWriter, Read, Write};
use std::os::fd::{FromRawFd, OwnedFd};
use std::sync::Arc;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

/// The timeout of all waits. Only a hang takes this long.
const HANG_TIMEOUT: Duration = Duration::from_secs(60);

fn pool(workers: usize) -> Pool {
    Pool::builder().workers(workers).build().unwrap()
}

fn pipe() -> (AsyncFd<PipeReader>, AsyncFd<PipeWriter>) {
    let (reader, writer) = io::pipe().unwrap();
    rustix::io::ioctl_fionbio(&reader, true).unwrap();
    rustix::io::ioctl_fionbio(&writer, true).unwrap();
    (AsyncFd::new(reader), AsyncFd::new(writer))
}

async fn read(pipe: &AsyncFd<PipeReader>, bytes: &mut [u8]) -> io::Result<usize> {
    let read = |mut pipe: &PipeReader| pipe.read(bytes);
    pipe.async_io(Direction::Read, read).await
}

async fn write_all(pipe: &AsyncFd<PipeWriter>, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        let write = |mut pipe: &PipeWriter| pipe.write(bytes);
        bytes = &bytes[pipe.async_io(Direction::Write, write).await?..];
    }
    Ok(())
}

/// Returns a counter of the kernel (an eventfd). A read returns its value and sets it to 0, and
/// waits while it is 0.
fn counter() -> AsyncFd<OwnedFd> {
    AsyncFd::new(eventfd(0, EventfdFlags::NONBLOCK).unwrap())
}

fn add(counter: &AsyncFd<OwnedFd>, n: u64) {
    rustix::io::write(counter, &n.to_ne_bytes()).unwrap();
}

fn try_take(counter: &OwnedFd) -> io::Result<u64> {
    let mut bytes = [0; 8];
    rustix::io::read(counter, &mut bytes)?;
    Ok(u64::from_ne_bytes(bytes))
}

#[test]
fn a_pipe_carries_more_than_it_holds_and_reports_its_end() {
    for workers in [1, 2] {
        let pool = pool(workers);
        let (reader, writer) = pipe();
        let bytes: Vec<u8> = (0..1_000_000_u32).map(|n| n as u8).collect();
        let sent = bytes.clone();
        let sender = pool.spawn(async move { write_all(&writer, &sent).await });
        let receiver = pool.spawn(async move {
            let (mut all, mut part) = (Vec::new(), [0; 3000]);
            loop {
                match read(&reader, &mut part).await? {
                    0 => break io::Result::Ok(all),
                    count => all.extend_from_slice(&part[..count]),
                }
            }
        });
        assert!(pool.block_on(receiver).unwrap().unwrap() == bytes);
        pool.block_on(sender).unwrap().unwrap();
    }
}

#[test]
fn a_write_fails_when_the_reader_is_dropped_in_the_middle_of_a_wait() {
    let pool = pool(1);
    let (reader, writer) = pipe();
    let writes = pool.spawn(async move { write_all(&writer, &vec![0; 1 << 20]).await });
    let waits = pool.spawn(async move {
        read(&reader, &mut [0; 1]).await?;
        drop(reader);
        io::Result::Ok(())
    });
    pool.block_on(waits).unwrap().unwrap();
    let error = pool.block_on(writes).unwrap().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::BrokenPipe);
}

#[test]
fn try_io_skips_the_operation_until_another_event_is_reported() {
    let pool = pool(1);
    let counter = counter();
    let runs = std::cell::Cell::new(0);
    let take = || {
        counter.try_io(Direction::Read, |counter| {
            runs.set(runs.get() + 1);
            try_take(counter)
        })
    };
    let would_block = |taken: io::Result<u64>| taken.unwrap_err().kind() == ErrorKind::WouldBlock;
    pool.block_on(async {
        assert!(would_block(take()), "not registered yet");
        assert_eq!(runs.get(), 1);
        add(&counter, 7);
        counter.readable().await.unwrap();
        assert_eq!(take().unwrap(), 7);
        counter.readable().await.unwrap(); // there may be more
        assert!(would_block(take()));
        assert_eq!(runs.get(), 3);
        assert!(would_block(take()), "nothing was reported since");
        assert_eq!(runs.get(), 3);
        let limit = Duration::from_millis(5);
        assert!(timeout(limit, counter.readable()).await.is_err());
        add(&counter, 8);
        counter.readable().await.unwrap();
        assert_eq!(take().unwrap(), 8);
    });
}

#[test]
fn each_event_wakes_all_waiters_and_one_of_them_takes_it() {
    const WAITERS: u64 = 4;
    for workers in [1, 2] {
        let pool = pool(workers);
        let counter = Arc::new(counter());
        let (taken, values) = mpsc::channel();
        let waiters: Vec<_> = (0..WAITERS)
            .map(|_| {
                let (counter, taken) = (Arc::clone(&counter), taken.clone());
                pool.spawn(async move {
                    let value = counter.async_io(Direction::Read, try_take).await?;
                    taken.send(value).unwrap();
                    io::Result::Ok(())
                })
            })
            .collect();
        for value in 1..=WAITERS {
            add(&counter, value);
            assert_eq!(values.recv_timeout(HANG_TIMEOUT).unwrap(), value);
        }
        pool.block_on(async {
            for waiter in waiters {
                waiter.await.unwrap().unwrap();
            }
        });
    }
}

#[test]
fn a_timer_of_the_system_wakes_its_task() {
    // SAFETY: the call takes no pointers.
    let fd = unsafe { libc::timerfd_create(libc::CLOCK_MONOTONIC, libc::TFD_NONBLOCK) };
    assert!(fd >= 0);
    // SAFETY: the descriptor is new and belongs to nobody else.
    let timer = unsafe { OwnedFd::from_raw_fd(fd) };
    let time = |nanos| libc::timespec {
        tv_sec: 0,
        tv_nsec: nanos,
    };
    let spec = libc::itimerspec {
        it_interval: time(1_000_000),
        it_value: time(1_000_000),
    };
    // SAFETY: the descriptor is a timer, the new value is readable, and null is allowed for the old
    // value.
    let set = unsafe { libc::timerfd_settime(fd, 0, &raw const spec, std::ptr::null_mut()) };
    assert_eq!(set, 0);
    let timer = AsyncFd::new(timer);
    pool(1).block_on(async {
        let mut expirations = 0;
        while expirations < 5 {
            expirations += timer.async_io(Direction::Read, try_take).await.unwrap();
        }
    });
}

#[test]
fn a_wait_can_be_dropped_at_any_time() {
    for workers in [1, 2] {
        let pool = pool(workers);
        let counter = Arc::new(counter());
        let waits = Arc::clone(&counter);
        let task = pool.spawn(async move {
            let mut sum = 0;
            // Each future is dropped after a moment, before or after an event.
            for n in 0..200 {
                let take = waits.async_io(Direction::Read, try_take);
                match timeout(Duration::from_micros(n * 5), take).await {
                    Ok(value) => sum += value?,
                    Err(_) => sleep(Duration::from_micros(1)).await,
                }
            }
            while sum < 1000 {
                sum += waits.async_io(Direction::Read, try_take).await?;
            }
            io::Result::Ok(sum)
        });
        for _ in 0..1000 {
            add(&counter, 1);
            thread::yield_now();
        }
        assert_eq!(pool.block_on(task).unwrap().unwrap(), 1000);
    }
}

#[test]
fn a_descriptor_outlives_the_pool_on_which_it_waited() {
    let counter = Arc::new(counter());
    let waits = Arc::clone(&counter);
    let first = pool(1);
    let (begun, has_begun) = mpsc::channel();
    let task = first.spawn(async move {
        begun.send(()).unwrap();
        waits.async_io(Direction::Read, try_take).await
    });
    has_begun.recv_timeout(HANG_TIMEOUT).unwrap();
    drop(first);
    let second = pool(1);
    assert!(second.block_on(task).is_err(), "cancelled with its pool");
    add(&counter, 3);
    let take = counter.async_io(Direction::Read, try_take);
    assert_eq!(second.block_on(take).unwrap(), 3);
}

#[test]
fn an_arc_keeps_the_descriptor_open() {
    let (reader, mut writer) = io::pipe().unwrap();
    let reader = Arc::new(reader);
    let pool = pool(1);
    let waits = AsyncFd::new(Arc::clone(&reader));
    pool.block_on(async {
        let limit = Duration::from_millis(1);
        assert!(timeout(limit, waits.readable()).await.is_err());
    });
    drop(waits);
    writer.write_all(b"x").unwrap();
    // The descriptor is still open, so we can wait for it with a new `AsyncFd`.
    let again = AsyncFd::new(reader);
    pool.block_on(again.readable()).unwrap();
}

#[test]
fn a_regular_file_is_refused() {
    let file = AsyncFd::new(File::open("Cargo.toml").unwrap());
    let refused = pool(1).block_on(file.readable()).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::PermissionDenied);
}
