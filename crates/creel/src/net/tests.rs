//! Tests of the sockets on the loopback interface. They poll the driver themselves, as the loop of
//! a worker would.

use super::driver::Driver;
use super::io;
use super::io::Left;
use super::*;
use crate::worker::parker::{Parker, Poller};
use crate::worker::woken::wake_all;
use std::future::{Future, poll_fn};
use std::io::{ErrorKind, IoSliceMut};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

const LOOPBACK: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 0);
const LOOPBACK_V6: SocketAddr = SocketAddr::new(std::net::IpAddr::V6(Ipv6Addr::LOCALHOST), 0);

struct Flag(AtomicBool);

impl Wake for Flag {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::SeqCst);
    }
}

/// Polls a future until it is ready. Sleeps in the driver while the future waits.
///
/// # Panics
///
/// Panics if no event arrives for a minute.
fn run<T>(driver: &Arc<Driver>, future: impl Future<Output = T>) -> T {
    let _entered = io::enter(Arc::clone(driver));
    let flag = Arc::new(Flag(AtomicBool::new(true)));
    let waker = Waker::from(Arc::clone(&flag));
    let mut future = pin!(future);
    loop {
        while flag.0.swap(false, Ordering::SeqCst) {
            if let Poll::Ready(value) = future.as_mut().poll(&mut Context::from_waker(&waker)) {
                return value;
            }
        }
        let found = driver.wait(Some(Duration::from_secs(60)), || false);
        let found = found.filter(|found| found.count > 0);
        found.expect("an event arrives in time").due.run(wake_all);
    }
}

/// Polls both futures until both are ready.
async fn both<A, B>(a: impl Future<Output = A>, b: impl Future<Output = B>) -> (A, B) {
    let (mut a, mut b) = (pin!(a), pin!(b));
    let (mut a_done, mut b_done) = (None, None);
    std::future::poll_fn(move |cx| {
        if a_done.is_none()
            && let Poll::Ready(value) = a.as_mut().poll(cx)
        {
            a_done = Some(value);
        }
        if b_done.is_none()
            && let Poll::Ready(value) = b.as_mut().poll(cx)
        {
            b_done = Some(value);
        }
        if a_done.is_none() || b_done.is_none() {
            return Poll::Pending;
        }
        Poll::Ready(a_done.take().zip(b_done.take()))
    })
    .await
    .expect("both futures are done")
}

/// Returns two drivers. The first one reports all sockets by edge. The second one reports a socket
/// by level if it is not a stream and no task has waited to write to it.
fn drivers() -> [Arc<Driver>; 2] {
    [false, true].map(|alone| {
        let driver = Driver::default();
        driver.set_alone(alone);
        Arc::new(driver)
    })
}

/// Returns a sender, a receiver and the address of the receiver.
fn pair() -> (UdpSocket, UdpSocket, SocketAddr) {
    let [sender, receiver] = [(); 2].map(|()| UdpSocket::bind(LOOPBACK).unwrap());
    let to = receiver.local_addr().unwrap();
    (sender, receiver, to)
}

/// Polls a future once, which must then wait.
fn begin_to_wait(driver: &Arc<Driver>, future: impl Future) {
    let _entered = io::enter(Arc::clone(driver));
    let mut cx = Context::from_waker(Waker::noop());
    assert!(pin!(future).poll(&mut cx).is_pending());
}

#[test]
fn a_datagram_arrives_with_its_sender() {
    let driver = Arc::new(Driver::default());
    for address in [LOOPBACK, LOOPBACK_V6] {
        let (a, b) = match (UdpSocket::bind(address), UdpSocket::bind(address)) {
            (Ok(a), Ok(b)) => (a, b),
            _ => {
                eprintln!("skipped: no {address} here");
                continue;
            }
        };
        let to = b.local_addr().unwrap();
        let mut bytes = [0; 16];
        let (received, sent) = run(
            &driver,
            both(b.recv_from(&mut bytes), a.send_to(b"hello", to)),
        );
        assert_eq!(sent.unwrap(), 5);
        assert_eq!(received.unwrap(), (5, a.local_addr().unwrap()));
        assert_eq!(&bytes[..5], b"hello");
    }
    assert!(driver.is_empty(), "closed sockets leave the driver");
}

#[test]
fn a_batch_arrives_complete_in_order_and_at_every_receiver() {
    let driver = Arc::new(Driver::default());
    for address in [LOOPBACK, LOOPBACK_V6] {
        let Ok(sender) = UdpSocket::bind(address) else {
            eprintln!("skipped: no {address} here");
            continue;
        };
        let receivers = [(); 2].map(|()| UdpSocket::bind(address).unwrap());
        let to = receivers.each_ref().map(|r| r.local_addr().unwrap());
        let mut outgoing = Outgoing::new();
        // Some of these runs of datagrams can be one message that the kernel splits (equal lengths,
        // a short last datagram, an empty datagram), and the other runs cannot.
        let lengths = [100, 100, 100, 40, 0, 7, 7, 900, 7];
        for (n, length) in (0..).zip(lengths) {
            outgoing.push(&vec![n; length], to[0]);
        }
        outgoing.push_to_many(b"to all", to);
        let sent = run(&driver, sender.send_batch(&mut outgoing));
        assert_eq!((sent.sent, sent.failed), (11, 0));
        assert!(outgoing.is_empty());
        let mut got = Vec::new();
        let mut received = Received::new(4, 1_000);
        while got.len() < 10 {
            let slots = run(&driver, receivers[0].recv_batch(&mut received)).unwrap();
            assert!((1..=4).contains(&slots));
            assert!(
                received
                    .iter()
                    .all(|d| d.from == sender.local_addr().unwrap())
            );
            got.extend(received.iter().map(|d| d.bytes.to_vec()));
        }
        let mut expected: Vec<Vec<u8>> = (0..)
            .zip(lengths)
            .map(|(n, length)| vec![n; length])
            .collect();
        expected.push(b"to all".to_vec());
        assert_eq!(got, expected);
        run(&driver, receivers[1].recv_batch(&mut received)).unwrap();
        assert!(received.iter().map(|d| d.bytes).eq([b"to all"]));
    }
}

#[test]
fn a_slot_has_room_for_one_datagram_whatever_size_is_requested() {
    let wraps = usize::MAX / 64 + 2; // times 64, this overflows to 64
    for (slots, bytes) in [(64, wraps), (2, usize::MAX / 2), (1, usize::MAX)] {
        let received = Received::new(slots, bytes);
        assert_eq!(received.bytes.len(), slots << 16);
    }
    for (slots, bytes) in [(0, 1), (65, 1), (1, 0)] {
        let refused = std::panic::catch_unwind(|| Received::new(slots, bytes));
        assert!(refused.is_err(), "{slots} slots of {bytes} bytes");
    }
    let received = Received::new(64, 3);
    assert_eq!(received.bytes.len(), 192);
    assert_eq!(received.get(usize::MAX, usize::MAX), None);
}

#[cfg(target_os = "linux")]
#[test]
fn merged_datagrams_are_split() {
    let driver = Arc::new(Driver::default());
    let sender = UdpSocket::bind(LOOPBACK).unwrap();
    let receiver = UdpSocket::bind(LOOPBACK).unwrap();
    if receiver.set_gro(true).is_err() {
        eprintln!("skipped: this kernel does not merge");
        return;
    }
    let mut outgoing = Outgoing::new();
    let packets: Vec<Vec<u8>> = (0..150).map(|n| vec![n; 882]).collect();
    for packet in &packets {
        outgoing.push(packet, receiver.local_addr().unwrap());
    }
    let sent = run(&driver, sender.send_batch(&mut outgoing));
    assert_eq!(sent.sent, 150);
    let mut received = Received::new(2, 65_536);
    let mut got = Vec::new();
    while got.len() < 150 {
        run(&driver, receiver.recv_batch(&mut received)).unwrap();
        got.extend(received.iter().map(|d| d.bytes.to_vec()));
    }
    assert_eq!(got, packets);
}

#[cfg(target_os = "linux")]
#[test]
fn datagrams_have_their_time_of_arrival_and_the_drop_count() {
    use std::time::SystemTime;
    let driver = Arc::new(Driver::default());
    let (sender, receiver, to) = pair();
    let mut received = Received::new(4, 2_048);
    run(&driver, sender.send_to(b"before", to)).unwrap();
    run(&driver, receiver.recv_batch(&mut received)).unwrap();
    let first = received.iter().next().unwrap();
    assert_eq!((first.arrived, first.dropped), (None, 0));
    receiver.set_arrival_info(true).unwrap();
    // The first datagram waits for 30 ms before it is received, and still has its own time of
    // arrival. The kernel turns its time stamps on a little after we ask for them, so we repeat
    // this until it has.
    let is_exact = || {
        let begin = SystemTime::now();
        run(&driver, sender.send_to(b"one", to)).unwrap();
        let sent = SystemTime::now();
        std::thread::sleep(Duration::from_millis(30));
        run(&driver, sender.send_to(b"two", to)).unwrap();
        run(&driver, receiver.recv_batch(&mut received)).unwrap();
        let times: Vec<SystemTime> = received.iter().filter_map(|d| d.arrived).collect();
        assert_eq!(times.len(), 2);
        let apart = times[1].duration_since(times[0]).unwrap_or_default();
        begin <= times[0] && times[0] <= sent && apart >= Duration::from_millis(25)
    };
    assert!(
        std::iter::repeat_with(is_exact)
            .take(200)
            .any(|exact| exact)
    );
    // A buffer with one slot reports the same time and count, and can leave out the address.
    let mut single = Received::new(1, 8).without_addresses();
    run(&driver, sender.send_to(b"three", to)).unwrap();
    run(&driver, receiver.recv_batch(&mut single)).unwrap();
    let third = single.iter().next().unwrap();
    assert_eq!((third.bytes, third.truncated), (&b"three"[..], false));
    assert!(third.arrived.is_some() && third.from.port() == 0);
    let mut single = Received::new(1, 3);
    run(&driver, sender.send_to(b"four", to)).unwrap();
    run(&driver, receiver.recv_batch(&mut single)).unwrap();
    let fourth = single.iter().next().unwrap();
    assert_eq!((fourth.bytes, fourth.truncated), (&b"fou"[..], true));
    assert_eq!(fourth.from, sender.local_addr().unwrap());
    // A full buffer drops datagrams. The next datagram that fits has the count.
    let size = receiver.set_recv_buffer(1).unwrap();
    let (sent, mut taken, mut dropped) = (size / 512, 0, 0);
    for _ in 0..sent {
        run(&driver, sender.send_to(&[0; 1_024], to)).unwrap();
    }
    let mut cx = Context::from_waker(Waker::noop());
    let _entered = io::enter(Arc::clone(&driver));
    while receiver.poll_recv_batch(&mut cx, &mut received).is_ready() {
        taken += received.iter().count();
    }
    run(&driver, sender.send_to(b"after", to)).unwrap();
    run(&driver, receiver.recv_batch(&mut received)).unwrap();
    received.iter().for_each(|d| dropped = d.dropped as usize);
    assert!(dropped > 0);
    assert_eq!(dropped + taken, sent);
}

#[cfg(target_os = "linux")]
#[test]
fn an_icmp_error_about_an_earlier_datagram_loses_no_datagram() {
    let driver = Arc::new(Driver::default());
    let (_, receiver, to) = pair();
    let closed = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    let address = closed.local_addr().unwrap();
    drop(closed);
    let socket = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.connect(address).unwrap();
    // No socket has this port, so an ICMP error arrives before the call returns. It makes the next
    // call on this socket fail.
    socket.send(b"lost").unwrap();
    let sender = UdpSocket::from_std(socket).unwrap();
    let mut outgoing = Outgoing::new();
    outgoing.push(b"kept", to);
    let sent = run(&driver, sender.send_batch(&mut outgoing));
    assert_eq!((sent.sent, sent.failed), (1, 0));
    let mut received = Received::new(1, 16);
    run(&driver, receiver.recv_batch(&mut received)).unwrap();
    assert_eq!(received.iter().next().unwrap().bytes, b"kept");
}

#[test]
fn a_datagram_that_cannot_be_sent_is_skipped() {
    let driver = Arc::new(Driver::default());
    let (sender, receiver, to) = pair();
    let mut outgoing = Outgoing::new();
    outgoing.push(b"first", to);
    outgoing.push(&[0; 70_000], to);
    outgoing.push(b"third", to);
    let sent = run(&driver, sender.send_batch(&mut outgoing));
    assert_eq!((sent.sent, sent.failed), (2, 1));
    assert!(sent.error.is_some());
    let mut received = Received::new(2, 3);
    run(&driver, receiver.recv_batch(&mut received)).unwrap();
    assert!(
        received
            .iter()
            .map(|d| (d.bytes, d.truncated))
            .eq([(&b"fir"[..], true), (b"thi", true)])
    );
}

#[test]
fn functions_without_batch_calls_send_and_receive_the_same_datagrams() {
    // The functions of `single.rs` replace `sendmmsg` and `recvmmsg` on systems other than Linux.
    let sender = std::net::UdpSocket::bind(LOOPBACK).unwrap();
    let receiver = std::net::UdpSocket::bind(LOOPBACK).unwrap();
    receiver.set_nonblocking(true).unwrap();
    let to = receiver.local_addr().unwrap();
    let mut outgoing = Outgoing::new();
    for n in 0..5 {
        outgoing.push(&[n; 10], to);
    }
    assert_eq!(super::single::send(&sender, &outgoing, true).unwrap(), 5);
    let mut received = Received::new(8, 20);
    super::single::receive(&receiver, &mut received).unwrap();
    assert_eq!(received.filled, 5);
    assert!(received.iter().zip(0..).all(|(d, n)| d.bytes == [n; 10]));
    assert!(!super::single::can_split(&sender));
    assert!(super::single::set_merging(&receiver, false).is_ok());
    assert!(super::single::set_arrival_info(&receiver, false).is_ok());
    let error = super::single::receive(&receiver, &mut received).unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::WouldBlock);
}

/// The size of the buffer that receives, in bytes.
const ROOM: usize = 20;
/// The sizes of datagrams in bytes, in the order in which they are sent. Two of them are too large
/// for the buffer: the first datagram and a later one.
const SIZES: [usize; 6] = [ROOM + 1, ROOM, ROOM - 1, 0, ROOM + 40, 1];

#[test]
fn a_batch_marks_exactly_the_datagrams_that_do_not_fit() {
    let receivers = [super::single::receive, super::mmsg::receive];
    for receive in receivers {
        let sender = std::net::UdpSocket::bind(LOOPBACK).unwrap();
        let receiver = std::net::UdpSocket::bind(LOOPBACK).unwrap();
        receiver.set_nonblocking(true).unwrap();
        for size in SIZES {
            let to = receiver.local_addr().unwrap();
            sender.send_to(&vec![7; size], to).unwrap();
        }
        let mut received = Received::new(8, ROOM);
        assert_eq!(receive(&receiver, &mut received).unwrap(), Left::Nothing);
        let got: Vec<_> = received
            .iter()
            .map(|d| (d.bytes.len(), d.truncated, d.from))
            .collect();
        let from = sender.local_addr().unwrap();
        let expected = SIZES.map(|size| (size.min(ROOM), size > ROOM, from));
        assert_eq!(got, expected);
    }
}

#[test]
fn a_single_receive_truncates_the_datagrams_that_do_not_fit() {
    for (recv, recv_from) in [
        (
            super::single::recv as fn(&_, &mut _) -> _,
            super::single::recv_from as fn(&_, &mut _) -> _,
        ),
        (super::mmsg::recv, super::mmsg::recv_from),
    ] {
        let sender = std::net::UdpSocket::bind(LOOPBACK).unwrap();
        let receiver = std::net::UdpSocket::bind(LOOPBACK).unwrap();
        let from = sender.local_addr().unwrap();
        let mut bytes = [0; ROOM];
        for size in SIZES {
            let to = receiver.local_addr().unwrap();
            sender.send_to(&vec![7; size], to).unwrap();
            assert_eq!(recv(&receiver, &mut bytes).unwrap(), size.min(ROOM));
            sender.send_to(&vec![7; size], to).unwrap();
            let got = recv_from(&receiver, &mut bytes).unwrap();
            assert_eq!(got, (size.min(ROOM), from));
        }
    }
}

#[test]
fn a_cancelled_receive_loses_nothing() {
    for driver in drivers() {
        let (sender, receiver, to) = pair();
        let mut bytes = [0; 8];
        begin_to_wait(&driver, receiver.recv(&mut bytes));
        run(&driver, sender.send_to(b"kept", to)).unwrap();
        assert_eq!(run(&driver, receiver.recv(&mut bytes)).unwrap(), 4);
    }
}

#[test]
fn every_datagram_of_a_burst_arrives_in_order() {
    for driver in drivers() {
        let (sender, receiver, to) = pair();
        let mut bytes = [0; 8];
        begin_to_wait(&driver, receiver.recv(&mut bytes));
        for length in [1, 1, 50, 2, 50, 1, 1] {
            let sent: Vec<u8> = (0..length).collect();
            for n in &sent {
                run(&driver, sender.send_to(&[*n], to)).unwrap();
            }
            let mut got = Vec::new();
            while got.len() < sent.len() {
                run(&driver, receiver.recv(&mut bytes)).unwrap();
                got.push(bytes[0]);
            }
            assert_eq!(got, sent);
            begin_to_wait(&driver, receiver.recv(&mut bytes));
        }
    }
}

#[test]
fn unread_data_does_not_keep_the_driver_awake() {
    for driver in drivers() {
        let (sender, receiver, to) = pair();
        let mut bytes = [0; 8];
        begin_to_wait(&driver, receiver.recv(&mut bytes));
        for _ in 0..3 {
            run(&driver, sender.send_to(b"one", to)).unwrap();
            run(&driver, sender.send_to(b"two", to)).unwrap();
            let ask = |_: &usize| driver.turn(false).is_some_and(|found| found.count > 0);
            assert!((0..1_000).take_while(ask).count() < 100);
            for _ in 0..2 {
                assert_eq!(run(&driver, receiver.recv(&mut bytes)).unwrap(), 3);
            }
        }
    }
}

#[test]
fn a_socket_that_reads_may_also_wait_to_write() {
    for driver in drivers() {
        let listener = std::net::TcpListener::bind(LOOPBACK).unwrap();
        let peer = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let stream = TcpStream::from_std(listener.accept().unwrap().0).unwrap();
        let peer = TcpStream::from_std(peer).unwrap();
        begin_to_wait(&driver, stream.read(&mut [0; 8]));
        let sent = vec![7; 8_000_000];
        let write = async {
            stream.write_all(&sent).await.unwrap();
            let mut answer = [0; 4];
            stream.read_exact(&mut answer).await.unwrap();
            answer
        };
        let read = async {
            let mut got = vec![0; sent.len()];
            peer.read_exact(&mut got).await.unwrap();
            peer.write_all(b"done").await.unwrap();
            got
        };
        let (answer, got) = run(&driver, both(write, read));
        assert_eq!(&answer, b"done");
        assert!(got == sent);
        // The poller must not report that a socket can be written to if no task waits to write.
        let ask = |_: &usize| driver.turn(false).is_some_and(|found| found.count > 0);
        assert!((0..1_000).take_while(ask).count() < 100);
    }
}

#[test]
fn two_tasks_on_one_socket_both_make_progress() {
    for driver in drivers() {
        let (sender, receiver, to) = pair();
        let (mut a, mut b) = ([0; 8], [0; 8]);
        let receive = both(receiver.recv(&mut a), receiver.recv(&mut b));
        let send = async {
            sender.send_to(b"1", to).await.unwrap();
            sender.send_to(b"2", to).await.unwrap();
        };
        let ((first, second), ()) = run(&driver, both(receive, send));
        assert_eq!((first.unwrap(), second.unwrap()), (1, 1));
        assert_eq!(a[0] ^ b[0], b'1' ^ b'2');
    }
}

#[test]
fn members_of_a_multicast_group_receive_its_datagrams() {
    let driver = Arc::new(Driver::default());
    let group: std::net::IpAddr = "239.255.83.17".parse().unwrap();
    let receiver = UdpSocket::bind("0.0.0.0:0".parse().unwrap()).unwrap();
    let sender = UdpSocket::bind(LOOPBACK).unwrap();
    if receiver.join_multicast(group, LOOPBACK.ip()).is_err() {
        eprintln!("skipped: no multicast on loopback here");
        return;
    }
    sender.as_std().set_multicast_loop_v4(true).unwrap();
    let to = SocketAddr::new(group, receiver.local_addr().unwrap().port());
    let mut bytes = [0; 8];
    match run(&driver, sender.send_to(b"all", to)) {
        Ok(_) => assert_eq!(run(&driver, receiver.recv(&mut bytes)).unwrap(), 3),
        Err(error) => eprintln!("skipped: multicast is not routed here: {error}"),
    }
    receiver.leave_multicast(group, LOOPBACK.ip()).unwrap();
}

#[test]
fn the_end_of_a_stream_is_seen_if_it_arrives_with_the_last_bytes() {
    for driver in drivers() {
        let listener = std::net::TcpListener::bind(LOOPBACK).unwrap();
        let mut peer = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let stream = TcpStream::from_std(listener.accept().unwrap().0).unwrap();
        run(&driver, async {
            let mut bytes = [0; 64];
            {
                let mut waits = pin!(stream.read(&mut bytes));
                let once = std::future::poll_fn(|cx| Poll::Ready(waits.as_mut().poll(cx)));
                assert!(once.await.is_pending());
            }
            std::io::Write::write_all(&mut peer, b"end").unwrap();
            drop(peer);
            assert_eq!(stream.read(&mut bytes).await.unwrap(), 3);
            assert_eq!(stream.read(&mut bytes).await.unwrap(), 0);
        });
    }
}

#[test]
fn a_megabyte_goes_through_tcp_and_its_end_is_seen() {
    for driver in drivers() {
        let listener = TcpListener::bind(LOOPBACK).unwrap();
        let to = listener.local_addr().unwrap();
        let text: Vec<u8> = (0..1_000_000_u32)
            .map(|n| n.wrapping_mul(2_654_435_761).to_be_bytes()[0])
            .collect();
        let serve = async {
            let (stream, _) = listener.accept().await.unwrap();
            stream.write_all(&text).await.unwrap();
            let mut answer = [0; 4];
            stream.read_exact(&mut answer).await.unwrap();
            assert_eq!(&answer, b"done");
        };
        let ask = async {
            let stream = TcpStream::connect(to).await.unwrap();
            let mut got = vec![0; 1_000_000];
            stream.read_exact(&mut got).await.unwrap();
            stream.write_all(b"done").await.unwrap();
            assert_eq!(stream.read(&mut [0; 1]).await.unwrap(), 0);
            got
        };
        let serve = async {
            serve.await;
            // The end of the block above closes the connection.
        };
        let ((), got) = run(&driver, both(serve, ask));
        assert_eq!(got, text);
    }
}

#[test]
fn connecting_to_a_closed_port_is_an_error() {
    let driver = Arc::new(Driver::default());
    let listener = TcpListener::bind(LOOPBACK).unwrap();
    let to = listener.local_addr().unwrap();
    drop(listener);
    let error = run(&driver, TcpStream::connect(to)).unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::ConnectionRefused);
}

#[test]
fn a_notified_driver_wakes_up() {
    let driver = Arc::new(Driver::default());
    let socket = UdpSocket::bind(LOOPBACK).unwrap();
    begin_to_wait(&driver, socket.recv(&mut [0; 8]));
    driver.notify();
    assert_eq!(
        driver.wait(None, || false).map(|found| found.count),
        Some(0)
    );
}

#[test]
fn a_socket_whose_driver_has_ended_joins_the_next_driver() {
    for (first, second) in drivers().into_iter().zip(drivers()) {
        let (sender, receiver, to) = pair();
        let mut bytes = [0; 8];
        begin_to_wait(&first, receiver.recv(&mut bytes));
        let before = first.poller().unwrap().expect("the driver has a poller");
        first.end();
        assert_eq!(
            Arc::strong_count(&before),
            1,
            "the driver keeps a reference to the poller"
        );
        drop(before);
        assert!(first.is_empty());
        first.end();
        for _ in 0..2 {
            let receive = both(receiver.recv(&mut bytes), sender.send_to(b"on", to));
            assert_eq!(run(&second, receive).0.unwrap(), 2);
        }
        begin_to_wait(&second, receiver.recv(&mut bytes));
        assert!(!second.is_empty());
        drop(receiver);
        assert!(second.is_empty());
    }
}

#[test]
fn the_end_of_a_driver_wakes_its_waiting_tasks() {
    let [first, second] = drivers();
    let (sender, receiver, to) = pair();
    let flag = Arc::new(Flag(AtomicBool::new(false)));
    let waker = Waker::from(Arc::clone(&flag));
    let mut bytes = [0; 8];
    let mut receive = pin!(receiver.recv(&mut bytes));
    let mut poll = |driver: &Arc<Driver>| {
        let _entered = io::enter(Arc::clone(driver));
        receive.as_mut().poll(&mut Context::from_waker(&waker))
    };
    assert!(poll(&first).is_pending());
    assert!(poll(&second).is_pending());
    assert!(second.is_empty(), "the socket has joined the first driver");
    first.end();
    assert!(flag.0.swap(false, Ordering::SeqCst));
    assert!(poll(&second).is_pending());
    assert!(!second.is_empty());
    run(&second, sender.send_to(b"now", to)).unwrap();
    let found = second.wait(Some(Duration::from_secs(60)), || false);
    found
        .expect("no other worker polls the driver")
        .due
        .run(wake_all);
    assert!(flag.0.load(Ordering::SeqCst));
    assert!(matches!(poll(&second), Poll::Ready(Ok(3))));
}

#[test]
fn waiting_on_an_ended_driver_is_an_error() {
    let driver = Arc::new(Driver::default());
    driver.end();
    let socket = UdpSocket::bind(LOOPBACK).unwrap();
    let _entered = io::enter(Arc::clone(&driver));
    for _ in 0..2 {
        let mut bytes = [0; 8];
        let mut receive = pin!(socket.recv(&mut bytes));
        let poll = receive
            .as_mut()
            .poll(&mut Context::from_waker(Waker::noop()));
        let Poll::Ready(Err(error)) = poll else {
            panic!("{poll:?}");
        };
        assert!(error.to_string().contains("has ended"), "{error}");
    }
}

#[test]
fn the_end_of_a_driver_wakes_a_worker_that_sleeps_in_it() {
    let driver = Arc::new(Driver::default());
    let socket = UdpSocket::bind(LOOPBACK).unwrap();
    begin_to_wait(&driver, socket.recv(&mut [0; 8]));
    std::thread::scope(|scope| {
        let sleeper = scope.spawn(|| driver.wait(None, || false).map(|found| found.count));
        // The sleeper may also return before this thread has seen it ask, because the system may
        // report that a socket is ready although it is not.
        while driver.asking_is_free() && !sleeper.is_finished() {
            std::thread::yield_now();
        }
        driver.end();
        // The sleeper finds no event. If the driver ended before the sleep, it does not poll at
        // all.
        assert!(matches!(sleeper.join().unwrap(), None | Some(0)));
    });
    assert!(driver.wait(None, || false).is_none());
}

#[test]
fn a_cancelled_wait_leaves_no_waker_behind() {
    for driver in drivers() {
        let (sender, receiver, to) = pair();
        let waker = Arc::new(Flag(AtomicBool::new(false)));
        let mut bytes = [0; 8];
        for _ in 0..3 {
            for _ in 0..100 {
                let _entered = io::enter(Arc::clone(&driver));
                let waker = Waker::from(Arc::clone(&waker));
                let mut cx = Context::from_waker(&waker);
                let (mut a, mut b) = ([0; 8], [0; 8]);
                let (mut a, mut b) = (pin!(receiver.recv(&mut a)), pin!(receiver.recv(&mut b)));
                assert!(a.as_mut().poll(&mut cx).is_pending());
                assert!(b.as_mut().poll(&mut cx).is_pending());
            }
            assert_eq!(Arc::strong_count(&waker), 1);
            run(&driver, sender.send_to(b"one", to)).unwrap();
            assert_eq!(run(&driver, receiver.recv(&mut bytes)).unwrap(), 3);
        }
    }
}

#[test]
fn polls_of_the_driver_are_counted_and_any_thread_may_poll() {
    let driver = Arc::new(Driver::default());
    assert!(driver.turn(false).is_none());
    assert_eq!(driver.attended(), 0);
    let (sender, receiver, to) = pair();
    begin_to_wait(&driver, receiver.recv(&mut [0; 8]));
    let mut counts = 0;
    // A system may report a datagram some time after it was sent.
    for n in 1.. {
        std::thread::scope(|scope| {
            let asked = scope.spawn(|| driver.turn(false).map(|found| found.count));
            counts += asked
                .join()
                .unwrap()
                .expect("no other worker polls the driver");
        });
        assert_eq!(driver.attended(), n);
        if n >= 4 && counts > 0 {
            break;
        }
        run(&driver, sender.send_to(b"one", to)).unwrap();
    }
}

/// A waker that polls the driver when it is woken, like a worker that is woken immediately.
struct Asks(Arc<Driver>, AtomicUsize);

impl Wake for Asks {
    fn wake(self: Arc<Self>) {
        let asked = self.0.wait(Some(Duration::ZERO), || false);
        self.1.fetch_add(asked.is_some().into(), Ordering::SeqCst);
    }
}

#[test]
fn the_last_registered_worker_is_woken_and_may_poll_at_once() {
    let driver = Arc::new(Driver::default());
    let workers = [(); 2].map(|()| Arc::new(Asks(Arc::clone(&driver), AtomicUsize::new(0))));
    for (n, worker) in workers.iter().enumerate() {
        driver.set_wake(Waker::from(Arc::clone(worker)));
        let socket = UdpSocket::bind(LOOPBACK).unwrap();
        begin_to_wait(&driver, socket.recv(&mut [0; 8]));
        let asked = workers
            .each_ref()
            .map(|worker| worker.1.load(Ordering::SeqCst));
        assert_eq!(asked, [1, n], "each waker is called once, in order");
    }
    // The driver drops the wakers, which hold references to it.
    driver.end();
    assert!(workers.iter().all(|worker| Arc::strong_count(worker) == 1));
}

/// Interrupts the thread that is in the driver's poller.
struct Interrupts(Arc<Driver>);

impl Poller for Interrupts {
    fn interrupt(&self) {
        self.0.notify();
    }
}

#[test]
fn a_worker_does_not_wait_for_a_notification_that_another_took() {
    let driver = Arc::new(Driver::default());
    let (_sender, receiver, _to) = pair();
    begin_to_wait(&driver, receiver.recv(&mut [0; 8]));
    let parker = Parker::new(Arc::new(Interrupts(Arc::clone(&driver))));
    let begin = std::time::Instant::now();
    let notified = parker.poll(|| {
        // The worker has announced that it will sleep in the poller. Another worker polls before it
        // does.
        parker.notify();
        std::thread::scope(|s| _ = s.spawn(|| driver.turn(false)).join());
        driver.wait(Some(Duration::from_secs(600)), || parker.notified());
    });
    assert!(notified && begin.elapsed() < Duration::from_secs(300));
}

#[test]
fn datagrams_arrive_in_memory_of_the_caller() {
    let driver = Arc::new(Driver::default());
    let socket = UdpSocket::bind(LOOPBACK).unwrap();
    let own = socket.local_addr().unwrap();
    let mut outgoing = Outgoing::new();
    for length in [3, 0, 9, 5] {
        outgoing.push(&vec![length as u8; length], own);
    }
    assert_eq!(socket.try_send_batch(&mut outgoing).sent, 4);
    let mut memory = [[0; 5], [1; 5], [2; 5]];
    let mut infos = [DatagramInfo::default(); 4];
    let mut receive = |memory: &mut [[u8; 5]]| {
        let received = poll_fn(|cx| {
            let mut memory: Vec<_> = memory.iter_mut().map(|m| IoSliceMut::new(m)).collect();
            socket.poll_recv_into(cx, &mut memory, &mut infos)
        });
        let count = run(&driver, received)?;
        Ok::<_, std::io::Error>(infos[..count].to_vec())
    };
    let first = receive(&mut memory).unwrap();
    assert!(first.iter().map(|info| info.len()).eq([3, 0, 5]));
    assert!(first.iter().all(|info| info.sender() == own));
    // Only Linux reports this for certain.
    #[cfg(target_os = "linux")]
    assert!(
        first
            .iter()
            .map(|info| info.truncated())
            .eq([false, false, true])
    );
    assert_eq!(memory, [[3, 3, 3, 0, 0], [1; 5], [9; 5]]);
    let second = receive(&mut memory).unwrap();
    assert!(second.iter().map(|info| info.len()).eq([5]));
    assert_eq!(
        receive(&mut []).unwrap_err().kind(),
        ErrorKind::InvalidInput
    );
}
