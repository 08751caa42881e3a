//! The Redis client. It uses one connection, and writes all waiting requests at once (pipelining).
//!
//! Invariant: `pending` has one entry for each request whose replies have not arrived, in the order
//! in which they will arrive. An entry stays even if its caller has given up, so a reply never goes
//! to the wrong request.
//!
//! If the server does not answer for [`REPLY_TIMEOUT`], we close the connection and fail all
//! pending requests. We connect again after a pause between [`RECONNECT_MIN`] and
//! [`RECONNECT_MAX`], so we find the server within half a second of its return.
//!
//! A server may answer but reject writes, for example because its memory is full or because it has
//! become a replica. Each connection therefore begins with a write that changes nothing, and
//! repeats it every [`PROBE_INTERVAL`]. These probes also detect a server that has stopped
//! answering while there are no other requests.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::io::{self, ErrorKind};
use std::pin::pin;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Poll;
use std::time::{Duration, Instant};

use bytes::BytesMut;
use creel::channel::{bounded, oneshot};
use creel::net::{Connection, Stream, TcpStream, UnixStream};
use creel::time::{sleep, timeout};

use super::kind::RedisAddr;
use super::request::{Answer, Command, Outcome, State, StoreError, StoreRequest};
use super::resp::{self, Reply};
use crate::metrics::Metrics;

const REPLY_TIMEOUT: Duration = Duration::from_millis(500);
/// How long a connection and its first reply may take.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_millis(250);
const RECONNECT_MIN: Duration = Duration::from_millis(10);
const RECONNECT_MAX: Duration = Duration::from_millis(250);
/// The time between two probes, which are writes that change nothing.
const PROBE_INTERVAL: Duration = Duration::from_secs(1);
/// The number of bytes after which we send a batch.
const WRITE_MAX: usize = 64 << 10;
/// The maximum number of requests that wait for their replies.
const PENDING_MAX: usize = 16 << 10;

/// The client of one server.
pub(super) struct RedisClient {
    address: RedisAddr,
    state: Arc<State>,
    metrics: Arc<Metrics>,
}

/// A request that waits for its replies.
struct PendingReply {
    at: Instant,
    /// The number of replies that arrive before the one that is the answer.
    before: usize,
    error: Option<String>,
    /// Whether the request is a write.
    writes: bool,
    answer: oneshot::Sender<Outcome>,
}

/// The requests on one connection that wait for their replies.
#[derive(Default)]
struct Pipeline(Mutex<VecDeque<PendingReply>>);

impl Pipeline {
    fn lock(&self) -> MutexGuard<'_, VecDeque<PendingReply>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl RedisClient {
    pub(super) fn new(address: RedisAddr, state: Arc<State>, metrics: Arc<Metrics>) -> RedisClient {
        RedisClient {
            address,
            state,
            metrics,
        }
    }

    /// Executes requests until all senders are gone. It connects again whenever a connection ends.
    pub(super) async fn run(self, requests: bounded::Receiver<StoreRequest>) {
        let mut pause = RECONNECT_MIN;
        loop {
            let connected = match &self.address {
                RedisAddr::Tcp(address) => {
                    self.run_connection(TcpStream::connect_to(address.clone()), &requests)
                        .await
                }
                RedisAddr::Unix(path) => {
                    self.run_connection(UnixStream::connect(path), &requests)
                        .await
                }
            };
            match connected {
                Some(Ok(())) => return,
                Some(Err(_)) => pause = RECONNECT_MIN,
                None => {}
            }
            sleep(pause).await;
            pause = (pause * 2).min(RECONNECT_MAX);
        }
    }

    /// Executes requests over one connection until it ends. Returns `None` if it could not connect.
    async fn run_connection<C: Connection>(
        &self,
        connect: impl Future<Output = io::Result<Stream<C>>>,
        requests: &bounded::Receiver<StoreRequest>,
    ) -> Option<io::Result<()>> {
        let connected = async {
            let stream = connect.await?;
            handshake(&stream).await?;
            Ok::<_, io::Error>(stream)
        };
        let stream = timeout(HANDSHAKE_TIMEOUT, connected).await.ok()?.ok()?;
        self.metrics.store_connections.fetch_add(1, Relaxed);
        self.state.is_up.store(true, Relaxed);
        // Dropping the pipeline fails the requests that still wait, because it drops their senders.
        let pipeline = Pipeline::default();
        let ended = either(
            write(&stream, requests, &pipeline),
            read(&stream, &pipeline, &self.state),
        )
        .await;
        self.state.is_up.store(false, Relaxed);
        self.state.is_writable.store(false, Relaxed);
        Some(ended)
    }
}

/// Checks that the other side is a Redis server that answers. Disables Nagle's algorithm, because
/// we send small requests.
async fn handshake<C: Connection>(stream: &Stream<C>) -> io::Result<()> {
    let _ = stream.as_std().without_delay();
    stream.write_all(b"*1\r\n$4\r\nPING\r\n").await?;
    let mut pong = [0; 7];
    stream.read_exact(&mut pong).await?;
    match &pong {
        b"+PONG\r\n" => Ok(()),
        _ => Err(ErrorKind::InvalidData.into()),
    }
}

/// Runs two futures until one of them ends, and returns its outcome.
async fn either<T>(one: impl Future<Output = T>, other: impl Future<Output = T>) -> T {
    let (mut one, mut other) = (pin!(one), pin!(other));
    poll_fn(|cx| match one.as_mut().poll(cx) {
        Poll::Pending => other.as_mut().poll(cx),
        ready => ready,
    })
    .await
}

/// Sends requests. Returns when all senders are gone.
async fn write<C: Connection>(
    stream: &Stream<C>,
    requests: &bounded::Receiver<StoreRequest>,
    pipeline: &Pipeline,
) -> io::Result<()> {
    let mut bytes = Vec::new();
    let mut probe = Instant::now();
    loop {
        let left = probe.saturating_duration_since(Instant::now());
        let mut next = match timeout(left, requests.recv()).await {
            Ok(Ok(request)) => Some(request),
            Ok(Err(_)) => break,
            Err(_) => None,
        };
        if probe <= Instant::now() {
            probe = Instant::now() + PROBE_INTERVAL;
            // `deliver` reads the outcome of the probe, so we drop the receiver.
            let (answer, _) = oneshot::channel();
            let command = Command::Probe;
            enqueue(StoreRequest { command, answer }, pipeline, &mut bytes);
        }
        while let Some(request) = next {
            if !request.is_abandoned() {
                enqueue(request, pipeline, &mut bytes);
            }
            next = if bytes.len() < WRITE_MAX {
                requests.try_recv().ok()
            } else {
                None
            };
        }
        stream.write_all(&bytes).await?;
        bytes.clear();
        bytes.shrink_to(2 * WRITE_MAX);
    }
    // We wait for the remaining replies before the connection is closed.
    while !pipeline.lock().is_empty() {
        sleep(Duration::from_millis(1)).await;
    }
    Ok(())
}

/// Appends the words of a command to `bytes` and adds its entry to the pipeline.
fn enqueue(request: StoreRequest, pipeline: &Pipeline, bytes: &mut Vec<u8>) {
    let StoreRequest { command, answer } = request;
    let key = |id| [b"creel:record:", hex::encode::<[u8; 32]>(id).as_bytes()].concat();
    let (before, writes) = match command {
        Command::Put(..) | Command::Probe => (1, true),
        Command::Get(_) | Command::Count => (0, false),
    };
    let mut pending = pipeline.lock();
    if pending.len() >= PENDING_MAX {
        let _ = answer.send(Err(StoreError::Unavailable));
        return;
    }
    match command {
        Command::Put(id, record) => {
            resp::put(&[b"SET", &key(id), &record], bytes);
            resp::put(&[b"INCR", b"creel:signed"], bytes);
        }
        // The commands of `Put` with values that change nothing.
        Command::Probe => {
            resp::put(&[b"SET", b"creel:probe", b"1"], bytes);
            resp::put(&[b"INCRBY", b"creel:signed", b"0"], bytes);
        }
        Command::Get(id) => resp::put(&[b"GET", &key(id)], bytes),
        Command::Count => resp::put(&[b"INCRBY", b"creel:signed", b"0"], bytes),
    }
    pending.push_back(PendingReply {
        at: Instant::now(),
        before,
        error: None,
        writes,
        answer,
    });
}

/// Reads replies and passes them to their requests. Returns when the connection ends.
async fn read<C: Connection>(
    stream: &Stream<C>,
    pipeline: &Pipeline,
    state: &State,
) -> io::Result<()> {
    let mut bytes = BytesMut::new();
    let mut buffer = vec![0; 16 << 10];
    let mut last_read = Instant::now();
    loop {
        let since = pipeline
            .lock()
            .front()
            .map(|pending| pending.at.max(last_read));
        let left = since.map_or(REPLY_TIMEOUT, |since| {
            REPLY_TIMEOUT.saturating_sub(since.elapsed())
        });
        match timeout(left, stream.read(&mut buffer)).await {
            Ok(Ok(0)) => return Err(ErrorKind::UnexpectedEof.into()),
            Ok(Ok(read)) => bytes.extend_from_slice(&buffer[..read]),
            Ok(Err(error)) => return Err(error),
            Err(_) => {
                let since = pipeline
                    .lock()
                    .front()
                    .map(|pending| pending.at.max(last_read));
                if since.is_some_and(|since| since.elapsed() >= REPLY_TIMEOUT) {
                    return Err(ErrorKind::TimedOut.into());
                }
                continue;
            }
        }
        last_read = Instant::now();
        while let Some(reply) = resp::take(&mut bytes).map_err(|_| ErrorKind::InvalidData)? {
            deliver(reply, &mut pipeline.lock(), state)?;
        }
    }
}

/// Passes a reply to the first pending request.
fn deliver(reply: Reply, pending: &mut VecDeque<PendingReply>, state: &State) -> io::Result<()> {
    let Some(first) = pending.front_mut() else {
        // The server must not send a reply without a request.
        return Err(ErrorKind::InvalidData.into());
    };
    if first.before > 0 {
        first.before -= 1;
        if let Reply::Error(why) = reply {
            first.error.get_or_insert(why);
        }
        return Ok(());
    }
    let Some(last) = pending.pop_front() else {
        return Ok(());
    };
    let PendingReply {
        error,
        writes,
        answer,
        ..
    } = last;
    let outcome = match (error, reply) {
        (Some(why), _) | (None, Reply::Error(why)) => Err(refused(why)),
        (None, Reply::Number(count)) => Ok(Answer::Count(count.max(0) as u64)),
        (None, Reply::Data(record)) => Ok(Answer::Record(record)),
        (None, Reply::Done(_)) => Ok(Answer::Stored),
    };
    if writes {
        state.is_writable.store(outcome.is_ok(), Relaxed);
    }
    let _ = answer.send(outcome);
    Ok(())
}

/// Converts an error of the server. Errors during its start, or because its master is gone, are
/// transient.
fn refused(why: String) -> StoreError {
    const TRANSIENT: [&str; 5] = ["LOADING", "BUSY", "TRYAGAIN", "CLUSTERDOWN", "MASTERDOWN"];
    match TRANSIENT.iter().any(|word| why.starts_with(word)) {
        true => StoreError::Unavailable,
        false => StoreError::Refused(why),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_of_an_earlier_reply_becomes_the_outcome() {
        let mut pending = VecDeque::new();
        let mut outcomes = Vec::new();
        for before in [1, 1, 0] {
            let (answer, outcome) = oneshot::channel();
            pending.push_back(PendingReply {
                at: Instant::now(),
                before,
                error: None,
                writes: before > 0,
                answer,
            });
            outcomes.push(outcome);
        }
        let replies = [
            Reply::Done("OK".into()),
            Reply::Number(4),
            Reply::Error("OOM".into()),
            Reply::Number(5),
            Reply::Data(None),
        ];
        let (state, mut is_writable) = (State::default(), Vec::new());
        for reply in replies {
            deliver(reply, &mut pending, &state).unwrap();
            is_writable.push(state.is_writable.load(Relaxed));
        }
        assert_eq!(is_writable, [false, true, true, false, false]);
        let mut answered = outcomes
            .iter_mut()
            .map(|outcome| outcome.try_recv().unwrap());
        assert_eq!(answered.next(), Some(Ok(Answer::Count(4))));
        assert_eq!(
            answered.next(),
            Some(Err(StoreError::Refused("OOM".into())))
        );
        assert_eq!(answered.next(), Some(Ok(Answer::Record(None))));
        assert!(
            deliver(Reply::Number(1), &mut pending, &state).is_err(),
            "a reply without a request must be an error"
        );
    }

    #[test]
    fn transient_errors_are_unavailable() {
        assert_eq!(
            refused("LOADING Redis is loading".into()),
            StoreError::Unavailable
        );
        assert_eq!(
            refused("WRONGTYPE".into()),
            StoreError::Refused("WRONGTYPE".into())
        );
    }
}
