//! Checks the table of cancel safety in the documentation of `net`.
//!
//! For each class of operations in the table, a test cancels an operation and checks which of its
//! effects have happened.

#![cfg(all(unix, not(miri)))]

mod deadline;

use creel::Pool;
use creel::net::{Outgoing, Received, TcpListener, TcpStream, UdpSocket, UnixStream};
use deadline::bounded;
use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::pin::pin;
use std::task::{Context, Waker};

/// Runs `future` on a pool of its own.
fn run<F>(future: F)
where
    F: Future<Output = io::Result<()>> + Send + 'static,
{
    bounded("cancelled operations", || {
        let pool = Pool::builder().workers(1).build().unwrap();
        pool.block_on(future).unwrap();
    });
}

/// Polls the future once and then cancels it. Returns whether it was still pending.
fn cancel<F: Future>(future: F) -> bool {
    pin!(future)
        .poll(&mut Context::from_waker(Waker::noop()))
        .is_pending()
}

fn any() -> SocketAddr {
    "127.0.0.1:0".parse().unwrap()
}

#[test]
fn receiving_is_safe_to_cancel() {
    run(async {
        let (a, b) = UnixStream::pair()?;
        let mut bytes = [0; 16];
        for _ in 0..3 {
            assert!(cancel(b.read(&mut bytes)));
            assert!(cancel(b.readable()));
        }
        a.write_all(b"hello").await?;
        b.readable().await?;
        assert_eq!(b.read(&mut bytes).await?, 5);

        let (from, to) = (UdpSocket::bind(any())?, UdpSocket::bind(any())?);
        let mut received = Received::new(4, 16);
        for _ in 0..3 {
            assert!(cancel(to.recv(&mut bytes)));
            assert!(cancel(to.recv_from(&mut bytes)));
            assert!(cancel(to.recv_batch(&mut received)));
        }
        from.send_to(b"hello", to.local_addr()?).await?;
        assert_eq!(to.recv_from(&mut bytes).await?, (5, from.local_addr()?));

        let listener = TcpListener::bind(any())?;
        assert!(cancel(listener.accept()));
        let client = TcpStream::connect(listener.local_addr()?).await?;
        let (server, from) = listener.accept().await?;
        assert_eq!(from, client.local_addr()?);
        drop(server);
        Ok(())
    });
}

#[test]
fn a_single_write_is_safe_to_cancel() {
    run(async {
        let (a, b) = UnixStream::pair()?;
        let piece = [7; 4096];
        let mut written = 0;
        loop {
            let mut count = Ok(0);
            let writes = async { count = a.write(&piece).await };
            let waits = cancel(writes);
            written += count?;
            if waits {
                // The write was pending, either because the buffer is full or because it yielded to
                // other tasks. In the second case, this attempt succeeds and we continue.
                match a.try_write(&piece) {
                    Ok(more) => written += more,
                    Err(_) => break,
                }
            }
        }
        drop(a);
        let (mut read, mut bytes) = (0, vec![0; 1 << 16]);
        loop {
            match b.read(&mut bytes).await? {
                0 => break,
                more => read += more,
            }
        }
        assert_eq!(read, written);
        Ok(())
    });
}

#[test]
fn a_cancelled_batch_can_continue() {
    const ALL: usize = 64 * 64 * 2;
    run(async {
        let (from, to) = (UdpSocket::bind(any())?, UdpSocket::bind(any())?);
        // The destinations alternate, so that the kernel takes each datagram separately.
        let to = [to.local_addr()?, from.local_addr()?];
        let mut outgoing = Outgoing::new();
        outgoing.push_to_many(b"a buffer", to.into_iter().cycle().take(ALL));
        // The batch needs many system calls, so it yields to other tasks in between.
        assert!(cancel(from.send_batch(&mut outgoing)));
        let left = outgoing.len();
        assert!(left > 0 && left < ALL, "{left}");
        let sent = from.send_batch(&mut outgoing).await;
        assert_eq!((sent.sent, sent.failed), (left, 0));
        Ok(())
    });
}

#[test]
fn read_exact_is_not_safe_to_cancel() {
    run(async {
        let (a, b) = UnixStream::pair()?;
        let mut bytes = [0; 5];
        a.write_all(b"hel").await?;
        assert!(cancel(b.read_exact(&mut bytes)));
        a.write_all(b"lo").await?;
        // The first three bytes are lost, as documented.
        assert_eq!(b.read(&mut bytes).await?, 2);

        // The documentation advises this instead: keep the count outside the future.
        let mut filled = 0;
        for piece in [&b"hel"[..], b"lo"] {
            a.write_all(piece).await?;
            b.readable().await?;
            let mut read = Ok(0);
            assert!(!cancel(async { read = b.read(&mut bytes[filled..]).await }));
            filled += read?;
            assert!(cancel(b.read(&mut [0; 16])));
        }
        assert_eq!(&bytes, b"hello");
        Ok(())
    });
}

#[test]
fn write_all_is_not_safe_to_cancel() {
    run(async {
        let (a, b) = UnixStream::pair()?;
        let all: Vec<u8> = (0..4_000_000_u32).map(|n| (n % 251) as u8).collect();
        assert!(cancel(a.write_all(&all)));
        drop(a);
        let (mut read, mut bytes) = (Vec::new(), vec![0; 1 << 16]);
        loop {
            match b.read(&mut bytes).await? {
                0 => break,
                more => read.extend_from_slice(&bytes[..more]),
            }
        }
        // The receiver got some part from the beginning, as documented.
        assert!(read.len() < all.len());
        assert_eq!(read, all[..read.len()]);
        Ok(())
    });
}

#[test]
fn connecting_and_looking_up_are_safe_to_cancel() {
    run(async {
        let listener = TcpListener::bind(any())?;
        let address = listener.local_addr()?;
        let mut bytes = [0; 16];
        cancel(TcpStream::connect(address));
        let (server, _) = listener.accept().await?;
        // The server sees either the end of the stream or a broken connection.
        assert_eq!(server.read(&mut bytes).await.unwrap_or(0), 0);

        cancel(creel::net::lookup_host(address));
        assert_eq!(creel::net::lookup_host(address).await?, [address]);
        let stream = TcpStream::connect_to(address).await?;
        assert_eq!(stream.peer_addr()?, address);
        Ok(())
    });
}
