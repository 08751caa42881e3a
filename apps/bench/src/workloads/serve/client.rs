//! The client: one thread with many connections, and at most one request in flight on each.

use std::collections::VecDeque;
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use rustix::buffer::spare_capacity;
use rustix::event::{Timespec, epoll};
use rustix::time::{Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags};

use super::exchange::Exchange;

/// The longest time that the client waits for any answer. After that, the sample fails.
const TIMEOUT: Timespec = Timespec {
    tv_sec: 10,
    tv_nsec: 0,
};
/// The key of the timer among the events. Connections have smaller keys.
const TIMER: u64 = u64::MAX;

/// The answers that the client received in a run.
pub struct Answers {
    /// The latencies in nanoseconds, sorted.
    pub waits: Vec<u32>,
    /// The duration of the run.
    pub took: Duration,
}

impl Answers {
    fn new(mut waits: Vec<u32>, took: Duration) -> Self {
        waits.sort_unstable();
        Answers { waits, took }
    }

    /// Returns a quantile of the latencies in microseconds.
    pub fn wait_us(&self, quantile: f64) -> f64 {
        let last = self.waits.len().saturating_sub(1);
        let index = (last as f64 * quantile) as usize;
        self.waits
            .get(index)
            .map_or(f64::NAN, |&ns| f64::from(ns) / 1e3)
    }
}

/// The connections to a server.
pub struct Client {
    epoll: rustix::fd::OwnedFd,
    timer: rustix::fd::OwnedFd,
    connections: Vec<Connection>,
    buffer: Vec<u8>,
}

struct Connection {
    stream: TcpStream,
    exchange: Box<dyn Exchange>,
    /// The time from which the latency of the request in flight counts.
    since: Instant,
    /// The bytes to send that the system has not accepted yet.
    out: Vec<u8>,
}

impl Client {
    /// Opens `count` connections.
    pub fn connect(
        to: SocketAddr,
        count: usize,
        exchange: impl Fn() -> anyhow::Result<Box<dyn Exchange>>,
    ) -> anyhow::Result<Self> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let timer = rustix::time::timerfd_create(
            TimerfdClockId::Monotonic,
            TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK,
        )?;
        let key = epoll::EventData::new_u64(TIMER);
        epoll::add(
            &epoll,
            &timer,
            key,
            epoll::EventFlags::IN | epoll::EventFlags::ET,
        )?;
        let mut connections = Vec::with_capacity(count);
        for key in 0..count {
            let stream =
                TcpStream::connect(to).with_context(|| format!("cannot open connection {key}"))?;
            stream.set_nodelay(true)?;
            // With a linger time of zero, closing resets the connection and leaves no port in
            // TIME_WAIT. Otherwise many samples would use up the ports.
            socket2::SockRef::from(&stream).set_linger(Some(Duration::ZERO))?;
            stream.set_nonblocking(true)?;
            let flags = epoll::EventFlags::IN | epoll::EventFlags::OUT | epoll::EventFlags::ET;
            epoll::add(
                &epoll,
                &stream,
                epoll::EventData::new_u64(key as u64),
                flags,
            )?;
            connections.push(Connection {
                stream,
                exchange: exchange()?,
                since: Instant::now(),
                out: Vec::new(),
            });
        }
        Ok(Client {
            epoll,
            timer,
            connections,
            buffer: vec![0; 256 << 10],
        })
    }

    /// Keeps a request in flight on each connection for `time`, and then waits for the answers that
    /// are still missing.
    pub fn run(&mut self, time: Duration) -> anyhow::Result<Answers> {
        let begin = Instant::now();
        self.run_until(|| begin.elapsed() >= time)
    }

    /// Sends one request on each connection and waits for the answers.
    pub fn run_once(&mut self) -> anyhow::Result<Answers> {
        self.run_until(|| true)
    }

    fn run_until(&mut self, mut is_over: impl FnMut() -> bool) -> anyhow::Result<Answers> {
        let begin = Instant::now();
        let mut waits = Vec::new();
        for connection in &mut self.connections {
            connection.ask(Instant::now())?;
        }
        let mut under_way = self.connections.len();
        let mut events = Vec::with_capacity(256);
        let mut over = false;
        while under_way > 0 {
            self.wait(&mut events, under_way)?;
            over = over || is_over();
            for event in &events {
                let data = event.data;
                let Some(connection) = self.connections.get_mut(data.u64() as usize) else {
                    continue;
                };
                if !connection.take(&mut self.buffer)? {
                    continue;
                }
                let now = Instant::now();
                waits.push(connection.latency(now));
                match over {
                    true => under_way -= 1,
                    false => connection.ask(now)?,
                }
            }
        }
        Ok(Answers::new(waits, begin.elapsed()))
    }

    /// Sends `rate` requests per second for `time`, and then waits for the answers that are still
    /// missing.
    ///
    /// The requests have fixed times. A request whose time comes while all connections have one in
    /// flight waits in the client, and this wait is a part of its latency. Therefore a server that
    /// stalls cannot lower the load.
    pub fn run_at(&mut self, rate: f64, time: Duration) -> anyhow::Result<Answers> {
        let begin = Instant::now();
        let all = (rate * time.as_secs_f64()) as u32;
        let due = |number: u32| begin + Duration::from_secs_f64(f64::from(number) / rate);
        let mut free: VecDeque<usize> = (0..self.connections.len()).collect();
        let (mut asked, mut waits) = (0, Vec::with_capacity(all as usize));
        let mut events = Vec::with_capacity(256);
        while waits.len() < all as usize {
            let mut now = Instant::now();
            while asked < all && due(asked) <= now {
                let Some(key) = free.pop_front() else { break };
                self.connections[key].ask(due(asked))?;
                asked += 1;
                now = Instant::now();
            }
            // If no connection is free, an answer wakes us.
            if asked < all && !free.is_empty() {
                self.set_timer(due(asked).saturating_duration_since(now))?;
            }
            self.wait(&mut events, asked as usize - waits.len())?;
            for event in &events {
                let key = event.data.u64() as usize;
                let Some(connection) = self.connections.get_mut(key) else {
                    continue;
                };
                if connection.take(&mut self.buffer)? {
                    waits.push(connection.latency(Instant::now()));
                    free.push_back(key);
                }
            }
        }
        Ok(Answers::new(waits, begin.elapsed()))
    }

    /// Waits for events. Fails if there are none for a long time.
    fn wait(&self, events: &mut Vec<epoll::Event>, under_way: usize) -> anyhow::Result<()> {
        events.clear();
        epoll::wait(&self.epoll, spare_capacity(events), Some(&TIMEOUT))?;
        if events.is_empty() {
            bail!(
                "the server has not answered {under_way} requests for {} s",
                TIMEOUT.tv_sec
            );
        }
        Ok(())
    }

    /// Adds an event after `pause`. It replaces the one of the last call.
    fn set_timer(&self, pause: Duration) -> anyhow::Result<()> {
        let zero = Timespec {
            tv_sec: 0,
            tv_nsec: 0,
        };
        // A time of zero would disarm the timer.
        let pause = pause.max(Duration::from_nanos(1));
        let spec = Itimerspec {
            it_interval: zero,
            it_value: Timespec {
                tv_sec: pause.as_secs() as i64,
                tv_nsec: i64::from(pause.subsec_nanos()),
            },
        };
        rustix::time::timerfd_settime(&self.timer, TimerfdTimerFlags::empty(), &spec)?;
        Ok(())
    }
}

impl Connection {
    /// Sends a request, whose latency counts from `since`.
    fn ask(&mut self, since: Instant) -> anyhow::Result<()> {
        self.since = since;
        self.exchange.ask(&mut self.out)?;
        self.send()
    }

    /// Returns the latency of the response that was just completed, in nanoseconds.
    fn latency(&self, now: Instant) -> u32 {
        let latency = now.duration_since(self.since).as_nanos();
        u32::try_from(latency).unwrap_or(u32::MAX)
    }

    /// Sends as much as the system accepts.
    fn send(&mut self) -> anyhow::Result<()> {
        let mut sent = 0;
        while sent < self.out.len() {
            match self.stream.write(&self.out[sent..]) {
                Ok(more) => sent += more,
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) => return Err(error.into()),
            }
        }
        self.out.drain(..sent);
        Ok(())
    }

    /// Sends what is left of the request, and reads the available bytes. Returns whether the
    /// response is complete.
    fn take(&mut self, buffer: &mut [u8]) -> anyhow::Result<bool> {
        self.send()?;
        loop {
            match self.stream.read(buffer) {
                Ok(0) => bail!("the server closed a connection before its response was complete"),
                Ok(read) => {
                    let is_complete = self.exchange.take(&buffer[..read], &mut self.out)?;
                    self.send()?;
                    if is_complete {
                        return Ok(true);
                    }
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(false),
                Err(error) => return Err(error.into()),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_cover_all_connections() {
        let answers = Answers::new((1..=101).map(|us| us * 1_000).collect(), Duration::ZERO);
        assert_eq!((answers.wait_us(0.5), answers.wait_us(0.99)), (51.0, 100.0));
    }
}
