//! Tests of timers on workers with a manual clock, and how a throttled worker waits.

use creel::channel::bounded;
use creel::net::UdpSocket;
use creel::time::{Clock, Sleep, sleep};
use creel::{Pool, Wait};
use std::{
    future::Future,
    pin::Pin,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
        mpsc,
    },
    task::{Context, Poll, Wake, Waker},
    time::Duration,
};

const MS: Duration = Duration::from_millis(1);

/// A waker that sends a message to a channel.
struct NotifyWaker(Mutex<mpsc::Sender<()>>);

impl Wake for NotifyWaker {
    fn wake(self: Arc<Self>) {
        let _ = self.0.lock().unwrap().send(());
    }
}

struct Bench {
    pool: Pool,
    clock: Clock,
    woken: mpsc::Receiver<()>,
    waker: Waker,
}

impl Bench {
    fn new(wait: Wait) -> Self {
        let clock = Clock::manual();
        let builder = Pool::builder().workers(1).wait(wait);
        let pool = builder.clock(clock.clone()).build().unwrap();
        let (wakes, woken) = mpsc::channel();
        Bench {
            pool,
            clock,
            woken,
            waker: Waker::from(Arc::new(NotifyWaker(Mutex::new(wakes)))),
        }
    }

    /// Polls the sleep on the worker.
    fn poll(&self, sleep: &mut Sleep) -> Poll<()> {
        let waker = &self.waker;
        self.pool
            .run_on(0, || Pin::new(sleep).poll(&mut Context::from_waker(waker)))
            .unwrap()
    }

    /// Returns a sleep that is armed on the worker.
    fn sleep(&self, duration: Duration) -> Sleep {
        let mut sleep = self.pool.run_on(0, || sleep(duration)).unwrap();
        assert!(self.poll(&mut sleep).is_pending());
        sleep
    }
}

#[test]
fn a_worker_fires_its_timers_however_it_waits() {
    let waits = [
        Wait::Park,
        Wait::Spin(MS),
        Wait::Adaptive,
        Wait::Throttle(2 * MS),
        Wait::Throttle(Duration::ZERO),
    ];
    for wait in waits {
        let bench = Bench::new(wait);
        let mut sleep = bench.sleep(20 * MS);
        assert!(bench.woken.try_recv().is_err(), "{wait}");
        bench.clock.advance(19 * MS);
        assert!(bench.poll(&mut sleep).is_pending(), "{wait}");
        bench.clock.advance(3 * MS);
        bench
            .woken
            .recv_timeout(60_000 * MS)
            .expect("the timer fires");
        assert!(bench.poll(&mut sleep).is_ready(), "{wait}");
    }
}

#[test]
fn a_throttled_worker_fires_timers_once_per_quantum() {
    let bench = Bench::new(Wait::Throttle(10 * MS));
    let (mut early, _late) = (bench.sleep(MS), bench.sleep(4 * MS));
    bench.clock.advance(11 * MS);
    bench
        .woken
        .recv_timeout(60_000 * MS)
        .expect("both timers are due");
    bench
        .woken
        .recv_timeout(60_000 * MS)
        .expect("both timers are due");
    assert!(bench.poll(&mut early).is_ready());
    // The worker has reacted in this quantum. Timers that become due wait for the next quantum, but
    // inbox jobs do not wait.
    let _next = bench.sleep(MS);
    bench.clock.advance(5 * MS);
    assert_eq!(bench.pool.run_on(0, || 7).unwrap(), 7);
    assert!(bench.woken.try_recv().is_err());
    bench.clock.advance(5 * MS);
    bench
        .woken
        .recv_timeout(60_000 * MS)
        .expect("the quantum is over");
}

#[test]
fn an_idle_worker_keeps_sleeping_however_short_its_quantum() {
    let wait = Wait::Throttle(Duration::from_micros(1));
    let pool = Pool::builder().workers(1).wait(wait).build().unwrap();
    pool.run_on(0, || ()).unwrap();
    let before = pool.stats().workers[0].parks;
    let (wakes, woken) = mpsc::channel::<()>();
    // The test would be correct without this sleep. The sleep gives a worker that wrongly spins the
    // time to be detected.
    assert!(woken.recv_timeout(50 * MS).is_err());
    drop(wakes);
    let parks = pool.stats().workers[0].parks - before;
    assert!(parks <= 3, "{parks} sleeps in 50 ms of idleness");
}

#[test]
fn a_throttled_worker_reads_all_data_of_a_socket_in_one_quantum() {
    let bench = Bench::new(Wait::Throttle(20 * MS));
    let socket = UdpSocket::bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let to = socket.local_addr().unwrap();
    let (got, comes) = mpsc::channel();
    let task =
        async move { while socket.recv(&mut [0; 8]).await.is_ok() && got.send(()).is_ok() {} };
    bench.pool.spawn(task).detach();
    let sender = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    for _ in 0..20 {
        // After the first burst, the worker sleeps until the clock moves.
        for burst in [1, 3] {
            for _ in 0..burst {
                sender.send_to(b"one", to).unwrap();
            }
            bench.clock.advance(20 * MS);
            for _ in 0..burst {
                comes
                    .recv_timeout(60_000 * MS)
                    .expect("the datagram is read in the same quantum");
            }
        }
    }
}

#[test]
fn a_throttled_worker_serves_all_sockets_in_one_quantum() {
    let bench = Bench::new(Wait::Throttle(20 * MS));
    let (got, comes) = mpsc::channel();
    let listen = |_| {
        let socket = UdpSocket::bind("127.0.0.1:0".parse().unwrap()).unwrap();
        let (to, got) = (socket.local_addr().unwrap(), got.clone());
        let task =
            async move { while socket.recv(&mut [0; 8]).await.is_ok() && got.send(()).is_ok() {} };
        bench.pool.spawn(task).detach();
        to
    };
    let all: Vec<_> = (0..400).map(listen).collect();
    let sender = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    for _ in 0..5 {
        // After the first burst, the worker sleeps until the clock moves.
        for to in [&all[..1], &all[..]] {
            for to in to {
                sender.send_to(b"one", to).unwrap();
            }
            bench.clock.advance(20 * MS);
            for _ in to {
                comes
                    .recv_timeout(60_000 * MS)
                    .expect("the datagram is read in the same quantum");
            }
        }
    }
}

#[test]
fn a_wake_of_the_pool_ends_the_sleep_until_the_end_of_the_quantum() {
    let bench = Bench::new(Wait::Throttle(20 * MS));
    let (sender, receiver) = bounded::channel(1);
    let (got, comes) = mpsc::channel();
    let echo = async move { while receiver.recv().await.is_ok() && got.send(()).is_ok() {} };
    bench.pool.spawn_on(0, echo).detach();
    // The clock stands still, so the quantum does not end by itself.
    for _ in 0..100 {
        sender.send_blocking(()).unwrap();
        bench.pool.wake(0).unwrap();
        comes.recv_timeout(60_000 * MS).expect("the task runs");
    }
}

#[test]
fn a_message_passes_through_bound_tasks_before_the_next_timer_fires() {
    const STREAMS: usize = 100;
    let bench = Bench::new(Wait::Throttle(20 * MS));
    let order = Arc::new(Mutex::new(Vec::new()));
    let (done, all) = mpsc::channel();
    for stream in 0..STREAMS {
        let (to_second, from_first) = bounded::channel(1);
        let (to_third, from_second) = bounded::channel(1);
        let (first, second, third) = (order.clone(), order.clone(), order.clone());
        let done = done.clone();
        let first = bench.pool.spawn_on(0, async move {
            sleep(MS).await;
            first.lock().unwrap().push((stream, 1));
            to_second.try_send(()).unwrap();
        });
        let second = bench.pool.spawn_on(0, async move {
            from_first.recv().await.unwrap();
            second.lock().unwrap().push((stream, 2));
            to_third.try_send(()).unwrap();
        });
        let third = bench.pool.spawn_on(0, async move {
            from_second.recv().await.unwrap();
            third.lock().unwrap().push((stream, 3));
            done.send(()).unwrap();
        });
        for task in [first, second, third] {
            task.detach();
        }
    }
    while bench.pool.stats().tasks.polls < 3 * STREAMS as u64 {
        std::thread::yield_now();
    }
    bench.clock.advance(20 * MS);
    for _ in 0..STREAMS {
        all.recv_timeout(60_000 * MS).expect("the messages arrive");
    }
    let order = order.lock().unwrap();
    for steps in order.chunks(3) {
        let stream = steps[0].0;
        assert_eq!(steps, [(stream, 1), (stream, 2), (stream, 3)]);
    }
}

#[test]
fn two_bound_tasks_that_wake_each_other_do_not_hold_up_a_third() {
    let bench = Bench::new(Wait::Throttle(20 * MS));
    let over = Arc::new(AtomicBool::new(false));
    let (to_left, to_right) = (bounded::channel(1), bounded::channel(1));
    let play = |from: bounded::Receiver<()>, to: bounded::Sender<()>| {
        let over = Arc::clone(&over);
        async move {
            while from.recv().await.is_ok() && !over.load(Ordering::SeqCst) {
                let _ = to.try_send(());
            }
        }
    };
    to_left.0.try_send(()).unwrap();
    let left = bench.pool.spawn_on(0, play(to_left.1, to_right.0));
    let right = bench.pool.spawn_on(0, play(to_right.1, to_left.0));
    let (done, comes) = mpsc::channel();
    let third = bench.pool.spawn_on(0, async move {
        for _ in 0..100 {
            creel::task::yield_now().await;
        }
        done.send(()).unwrap();
    });
    for task in [left, right, third] {
        task.detach();
    }
    comes
        .recv_timeout(60_000 * MS)
        .expect("the third task runs");
    over.store(true, Ordering::SeqCst);
}

#[test]
fn bound_tasks_read_their_sockets_before_the_next_poll_of_the_sockets() {
    const SOCKETS: usize = 100;
    let pool = Pool::builder().workers(1).wait(Wait::Park).build().unwrap();
    let (got, comes) = mpsc::channel();
    let listen = |_| {
        let socket = UdpSocket::bind("127.0.0.1:0".parse().unwrap()).unwrap();
        let (to, got) = (socket.local_addr().unwrap(), got.clone());
        let task =
            async move { while socket.recv(&mut [0; 8]).await.is_ok() && got.send(()).is_ok() {} };
        pool.spawn_on(0, task).detach();
        to
    };
    let all: Vec<_> = (0..SOCKETS).map(listen).collect();
    while pool.stats().tasks.polls < SOCKETS as u64 {
        std::thread::yield_now();
    }
    // The worker sends the datagrams itself, so it polls for the first time when all have arrived.
    let sent = pool.run_on(0, || {
        let sender = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        for to in &all {
            sender.send_to(b"one", to).unwrap();
        }
    });
    sent.unwrap();
    for _ in 0..SOCKETS {
        comes.recv_timeout(60_000 * MS).expect("it is read");
    }
    pool.run_on(0, || ()).unwrap();
    assert_eq!(pool.stats().workers[0].events, SOCKETS as u64);
}
