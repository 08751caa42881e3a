//! Tests of streams of all kinds as a server uses them: their ends, halves, floods, and peers that
//! disconnect.

#![cfg(all(unix, not(miri)))]

mod retry;

use creel::{
    JoinError, Pool,
    net::{Connection, Stream, TcpListener, TcpStream, UnixDatagram, UnixListener, UnixStream},
    task::{self, CancellationToken, JoinSet},
    time,
};
use retry::retry;
use std::{
    future::poll_fn,
    io::{ErrorKind, IoSlice, IoSliceMut, Read, Write},
    mem::MaybeUninit,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

fn pool(workers: usize) -> Pool {
    Pool::builder().workers(workers).build().unwrap()
}

/// Returns the two ends of a TCP connection. The first end is a socket of `std`.
async fn tcp() -> (std::net::TcpStream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let other = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    (other, listener.accept().await.unwrap().0)
}

/// Reads to the end of the stream, with a buffer that is larger than each piece of data.
async fn read_all<S: Connection>(stream: &Stream<S>) -> Vec<u8> {
    let (mut all, mut piece) = (Vec::new(), [0; 4096]);
    loop {
        match stream.read(&mut piece).await.unwrap() {
            0 => return all,
            read => all.extend_from_slice(&piece[..read]),
        }
    }
}

/// After a short read, a stream assumes that there is no more data for now, and waits for the next
/// event. It must still see the end of the stream, whether the end comes with the last bytes or
/// after them.
#[test]
fn the_end_of_a_stream_is_seen_with_or_after_its_last_bytes() {
    for workers in [1, 2] {
        let pool = pool(workers);
        for round in 0..200 {
            pool.block_on(async {
                let (mut other, stream) = tcp().await;
                let (mut unix, peer) = std::os::unix::net::UnixStream::pair().unwrap();
                let peer = UnixStream::from_std(peer).unwrap();
                let reads = task::spawn(async move {
                    let first = read_all(&stream).await;
                    (first, read_all(&peer).await)
                });
                task::yield_now().await;
                if round % 3 == 0 {
                    time::sleep(Duration::from_micros(200)).await;
                }
                other.write_all(b"some").unwrap();
                if round % 2 == 0 {
                    task::yield_now().await;
                    time::sleep(Duration::from_micros(100)).await;
                }
                drop(other);
                unix.write_all(b"more").unwrap();
                drop(unix);
                let read = time::timeout(Duration::from_secs(60), reads).await;
                let (first, second) = read.expect("the end is seen").unwrap();
                assert_eq!((&first[..], &second[..]), (&b"some"[..], &b"more"[..]));
            });
        }
    }
}

#[test]
fn a_connection_reset_is_an_error_and_does_not_wait() {
    let pool = pool(2);
    pool.block_on(async {
        let (other, stream) = tcp().await;
        let reads = task::spawn(async move { stream.read(&mut [0; 64]).await });
        time::sleep(Duration::from_millis(1)).await;
        socket2::SockRef::from(&other)
            .set_linger(Some(Duration::ZERO))
            .unwrap();
        drop(other);
        let read = time::timeout(Duration::from_secs(60), reads).await;
        let error = read.expect("the read returns").unwrap().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::ConnectionReset);
    });
}

#[test]
fn vectored_reads_and_reads_into_uninitialized_memory_work() {
    let pool = pool(1);
    pool.block_on(async {
        let (mut other, stream) = tcp().await;
        other.write_all(b"abcdefgh").unwrap();
        let mut place = [MaybeUninit::uninit(); 3];
        let read = poll_fn(|cx| stream.poll_read_uninit(cx, &mut place)).await;
        assert_eq!(read.unwrap(), 3);
        // SAFETY: the read has initialized three bytes.
        assert_eq!(unsafe { place[2].assume_init() }, b'c');
        let (mut one, mut two) = ([0; 2], [0; 8]);
        let mut places = [IoSliceMut::new(&mut one), IoSliceMut::new(&mut two)];
        let read = poll_fn(|cx| stream.poll_read_vectored(cx, &mut places)).await;
        assert_eq!(read.unwrap(), 5);
        assert_eq!((&one[..], &two[..3]), (&b"de"[..], &b"fgh"[..]));
        let pieces = [IoSlice::new(b"12"), IoSlice::new(b"345")];
        let written = poll_fn(|cx| stream.poll_write_vectored(cx, &pieces)).await;
        assert_eq!(written.unwrap(), 5);
        let mut back = [0; 5];
        other.read_exact(&mut back).unwrap();
        assert_eq!(&back, b"12345");
        // We ask for no bytes, so the read does not wait.
        assert_eq!(stream.read(&mut []).await.unwrap(), 0);
    });
}

#[test]
fn more_buffers_than_the_system_accepts_are_written_and_read_in_several_calls() {
    const COUNT: usize = 3_000;
    let pool = pool(2);
    let bytes: Vec<u8> = (0..100 * COUNT).map(|i| (i % 251) as u8).collect();
    let (received, sent) = pool.block_on(async {
        let (other, stream) = tcp().await;
        let other = TcpStream::from_std(other).unwrap();
        let reads = task::spawn(async move {
            let mut bytes = vec![0; 100 * COUNT];
            let mut places: Vec<_> = bytes.chunks_mut(100).map(IoSliceMut::new).collect();
            let mut left = &mut places[..];
            while !left.is_empty() {
                let read = poll_fn(|cx| other.poll_read_vectored(cx, left)).await;
                IoSliceMut::advance_slices(&mut left, read.unwrap());
            }
            bytes
        });
        let mut pieces: Vec<_> = bytes.chunks(100).map(IoSlice::new).collect();
        let (mut left, mut sent) = (&mut pieces[..], 0);
        while !left.is_empty() {
            let written = stream.write_vectored(left).await.unwrap();
            IoSlice::advance_slices(&mut left, written);
            sent += written;
        }
        (reads.await.unwrap(), sent)
    });
    assert_eq!(sent, bytes.len());
    assert!(received == bytes);
}

#[test]
fn stream_halves_and_unix_sockets_carry_a_megabyte_both_ways() {
    let pool = pool(2);
    let path = std::env::temp_dir().join(format!("creel-streams-{}", std::process::id()));
    let listener = {
        let path = path.clone();
        pool.block_on(async move { UnixListener::bind(path) })
            .unwrap()
    };
    pool.block_on(async {
        let server = task::spawn(async move {
            let (stream, _) = listener.accept().await.unwrap();
            let (reads, writes) = stream.into_split();
            let mut piece = vec![0; 10_000];
            loop {
                match reads.read(&mut piece).await.unwrap() {
                    0 => break,
                    read => writes.write_all(&piece[..read]).await.unwrap(),
                }
            }
        });
        let client = Arc::new(UnixStream::connect(&path).await.unwrap());
        let writer = Arc::clone(&client);
        let sent: Vec<u8> = (0..1 << 20).map(|n: u32| n.to_le_bytes()[1]).collect();
        let expected = sent.clone();
        let writing = task::spawn(async move {
            writer.write_all(&sent).await.unwrap();
            writer.shutdown_with(std::net::Shutdown::Write).unwrap();
        });
        assert!(read_all(&client).await == expected);
        writing.await.unwrap();
        server.await.unwrap();
    });
    std::fs::remove_file(path).unwrap();
}

#[test]
fn readiness_is_reported_and_consumed() {
    let pool = pool(1);
    pool.block_on(async {
        let (a, b) = UnixStream::pair().unwrap();
        let mut byte = [0; 1];
        let waits = time::timeout(Duration::from_millis(1), b.readable()).await;
        assert!(waits.is_err());
        assert_eq!(
            b.try_read(&mut byte).unwrap_err().kind(),
            ErrorKind::WouldBlock
        );
        assert_eq!(a.try_write(b"xy").unwrap(), 2);
        b.readable().await.unwrap();
        // `readable` consumes nothing, so the socket is still ready the next time.
        b.readable().await.unwrap();
        assert_eq!(b.try_read(&mut byte).unwrap(), 1);
        b.readable().await.unwrap();
        assert_eq!(b.try_read(&mut byte).unwrap(), 1);
        // We write until the buffer is full.
        let some = [0; 4096];
        while a.try_write(&some).is_ok() {}
        let full = time::timeout(Duration::from_millis(1), a.writable()).await;
        assert!(full.is_err());
        let mut taken = vec![0; 1 << 20];
        while b.try_read(&mut taken).is_ok() {}
        a.writable().await.unwrap();
        assert!(a.try_write(&some).unwrap() > 0);
    });
}

#[test]
fn unix_datagrams_wait_for_buffer_space() {
    let pool = pool(2);
    pool.block_on(async {
        let (a, b) = UnixDatagram::pair().unwrap();
        let sends = task::spawn(async move {
            for n in 0..1_000_u32 {
                a.send(&n.to_le_bytes()).await.unwrap();
            }
        });
        for n in 0..1_000_u32 {
            let mut bytes = [0; 8];
            assert_eq!(b.recv(&mut bytes).await.unwrap(), 4);
            assert_eq!(bytes[..4], n.to_le_bytes());
        }
        sends.await.unwrap();
    });
}

#[test]
fn host_names_are_looked_up() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let pool = pool(1);
    let stream = pool.block_on(TcpStream::connect_to(("localhost", port)));
    assert_eq!(stream.unwrap().peer_addr().unwrap().port(), port);
    let nobody = pool.block_on(creel::net::lookup_host("no such name:1"));
    assert!(nobody.is_err());
}

#[test]
fn blocking_calls_run_concurrently_and_return_their_panics() {
    let pool = pool(1);
    pool.block_on(async {
        // All calls must be running before any of them returns.
        let barrier = Arc::new(std::sync::Barrier::new(50));
        let calls: Vec<_> = (0..50)
            .map(|n| {
                let barrier = Arc::clone(&barrier);
                creel::blocking(move || {
                    barrier.wait();
                    n
                })
            })
            .collect();
        let mut sum = 0;
        for call in calls {
            sum += call.await;
        }
        assert_eq!(sum, 49 * 50 / 2);
        let thrown = task::spawn(creel::blocking(|| panic!("in a call"))).await;
        let Err(JoinError::Panicked(panic)) = thrown else {
            panic!("the panic does not reach the task that awaits the call");
        };
        assert_eq!(panic.message(), Some("in a call"));
    });
}

#[test]
fn a_join_set_returns_tasks_in_completion_order_and_cancels_the_rest() {
    let pool = pool(2);
    let alive = Arc::new(());
    pool.block_on(async {
        let mut set = JoinSet::new();
        let gates: Vec<_> = (0..10)
            .map(|n| {
                let (open, gate) = creel::channel::oneshot::channel();
                set.spawn(async move {
                    gate.await.unwrap();
                    n
                });
                open
            })
            .collect();
        for (n, open) in gates.into_iter().enumerate().rev() {
            open.send(()).unwrap();
            assert_eq!(set.join_next().await.unwrap().unwrap(), n);
        }
        assert!(set.join_next().await.is_none());
        // The set reuses the slots of tasks that have ended.
        for _ in 0..1_000 {
            set.spawn(async { 1 });
        }
        let mut sum = 0;
        while let Some(one) = set.join_next().await {
            sum += one.unwrap();
        }
        assert_eq!(sum, 1_000);
        let mut set = JoinSet::new();
        for _ in 0..10 {
            let guard = Arc::clone(&alive);
            set.spawn(async move {
                let _guard = guard;
                std::future::pending::<()>().await;
            });
        }
        set.abort_all();
        let first = set.join_next().await.unwrap();
        assert!(matches!(first, Err(JoinError::Cancelled)));
    });
    drop(pool);
    assert_eq!(Arc::strong_count(&alive), 1);
}

#[test]
fn a_token_wakes_all_waiters_and_keeps_none() {
    let pool = pool(2);
    let token = CancellationToken::new();
    let woken = Arc::new(AtomicUsize::new(0));
    let mut set = JoinSet::new();
    for n in 0..100 {
        let token = if n % 2 == 0 {
            token.clone()
        } else {
            token.child()
        };
        let woken = Arc::clone(&woken);
        set.add(pool.spawn(async move {
            let given_up = time::timeout(Duration::from_micros(1), token.cancelled()).await;
            let _ = given_up;
            assert_eq!(token.run_until(std::future::pending::<()>()).await, None);
            woken.fetch_add(1, Ordering::Relaxed);
        }));
    }
    token.cancel();
    pool.block_on(async { while set.join_next().await.is_some() {} });
    assert_eq!(woken.load(Ordering::Relaxed), 100);
}

#[test]
fn a_signal_reaches_all_its_listeners() {
    use creel::signal::{SIGUSR2, signal};
    let pool = pool(1);
    pool.block_on(async {
        let (mut one, mut other) = (signal(SIGUSR2).unwrap(), signal(SIGUSR2).unwrap());
        for _ in 0..3 {
            raise(SIGUSR2);
            one.recv().await.unwrap();
            other.recv().await.unwrap();
        }
        drop(other);
        raise(SIGUSR2);
        one.recv().await.unwrap();
    });
}

fn raise(number: i32) {
    // SAFETY: the process handles this signal.
    assert_eq!(unsafe { libc::raise(number) }, 0);
}

#[test]
fn a_stream_that_is_always_ready_starves_no_other_task() {
    let pool = pool(1);
    let (one, other) = UnixStream::pair().unwrap();
    let ticked = Arc::new(AtomicUsize::new(0));
    let seen = Arc::clone(&ticked);
    let hog = pool.spawn(async move {
        let mut byte = [0; 1];
        // The loop is long enough for the other task to get its turn many times over.
        for _ in 0..2_000_000 {
            if seen.load(Ordering::Relaxed) == 5 {
                return true;
            }
            one.write(b"x").await.unwrap();
            other.read(&mut byte).await.unwrap();
        }
        false
    });
    let ticks = pool.spawn(async move {
        for _ in 0..5 {
            time::sleep(Duration::from_millis(1)).await;
            ticked.fetch_add(1, Ordering::Relaxed);
        }
    });
    // We wait in another pool's `block_on`, so that this thread takes no turns in the pool under
    // test.
    let waits = Pool::builder().workers(1).build().unwrap();
    assert!(waits.block_on(hog).unwrap(), "the other task had no turn");
    waits.block_on(ticks).unwrap();
}

#[test]
fn a_path_with_a_nul_inside_is_rejected() {
    let pool = pool(1);
    let path = std::env::temp_dir().join(format!("creel-{}-nul\0more", std::process::id()));
    let refused = |error: std::io::Error| assert_eq!(error.kind(), ErrorKind::InvalidInput);
    refused(UnixListener::bind(&path).unwrap_err());
    refused(pool.block_on(UnixStream::connect(&path)).unwrap_err());
    refused(UnixDatagram::bind(&path).unwrap_err());
}

#[test]
fn a_sender_to_a_full_queue_sleeps() {
    let path = std::env::temp_dir().join(format!("creel-{}-full", std::process::id()));
    let receives = std::os::unix::net::UnixDatagram::bind(&path).unwrap();
    let pool = pool(1);
    const SENT: u32 = 1_000;
    let to = path.clone();
    let sends = pool.spawn(async move {
        let socket = UnixDatagram::unbound().unwrap();
        for number in 0..SENT {
            socket.send_to(&number.to_le_bytes(), &to).await.unwrap();
        }
    });
    // The kernel's queue is much shorter than the number of datagrams, so the sender must sleep.
    let full = || pool.stats().workers[0].parks > 3;
    while !full() {
        std::thread::yield_now();
    }
    let (begin, before) = (Instant::now(), pool.stats().tasks.polls);
    std::thread::sleep(Duration::from_millis(50));
    let polls = pool.stats().tasks.polls - before;
    // This thread may have been suspended during the sleep, so the limit grows with the time that
    // has passed.
    let most = 10 + begin.elapsed().as_millis();
    assert!(u128::from(polls) < most, "{polls} useless polls");
    for number in 0..SENT {
        let mut bytes = [0; 8];
        assert_eq!(retry(|| receives.recv(&mut bytes)).unwrap(), 4);
        assert_eq!(bytes[..4], number.to_le_bytes());
    }
    pool.block_on(sends).unwrap();
    std::fs::remove_file(path).unwrap();
}
