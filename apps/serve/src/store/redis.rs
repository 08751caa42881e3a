//! Redis over one connection: all that waits goes out in one write, and answers come in order.
//!
//! Invariant: an entry of `pending` stands for replies that have not come, in the order in which they
//! will, whether anybody still waits for them or not. So an answer never goes to another's question.
//!
//! A server that does not answer for [`REPLY_TIMEOUT`] is taken for gone: the connection is given
//! up, and with it what was asked on it. New ones are tried after [`RECONNECT_MIN`] to
//! [`RECONNECT_MAX`], so that it is found again within half a second of its return.
//!
//! A server may answer and keep nothing: its memory is full, it has become a replica. So each
//! connection begins with a write, and has one every [`PROBE_INTERVAL`], whether anything else is
//! to be kept or not; by these it is also seen, without any request, that the server does not
//! answer.

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
/// For a connection and its first answer.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_millis(250);
const RECONNECT_MIN: Duration = Duration::from_millis(10);
const RECONNECT_MAX: Duration = Duration::from_millis(250);
/// Between two writes that only ask whether one may write.
const PROBE_INTERVAL: Duration = Duration::from_secs(1);
/// What goes out at once.
const WRITE_MAX: usize = 64 << 10;
/// What may be asked and not answered.
const PENDING_MAX: usize = 16 << 10;

/// The way to one server.
pub(super) struct RedisClient {
    address: RedisAddr,
    state: Arc<State>,
    metrics: Arc<Metrics>,
}

/// Who waits for replies.
struct PendingReply {
    at: Instant,
    /// How many come before the one that answers.
    before: usize,
    error: Option<String>,
    /// Whether it is something to be kept.
    writes: bool,
    answer: oneshot::Sender<Outcome>,
}

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

    /// Executes requests until all senders are gone, over as many connections as it takes.
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

    /// Over one connection, to its end; none if it was not to be had.
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
        // Dropped at the end, it tells those who wait that nothing will come.
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

/// Small requests are not held back, and the other side is a Redis that answers.
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

/// Until one of them ends, with its outcome.
async fn either<T>(one: impl Future<Output = T>, other: impl Future<Output = T>) -> T {
    let (mut one, mut other) = (pin!(one), pin!(other));
    poll_fn(|cx| match one.as_mut().poll(cx) {
        Poll::Pending => other.as_mut().poll(cx),
        ready => ready,
    })
    .await
}

/// Sends requests; done when all senders are gone.
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
            // What it is told is seen where replies are read.
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
    // What was asked is answered before the end.
    while !pipeline.lock().is_empty() {
        sleep(Duration::from_millis(1)).await;
    }
    Ok(())
}

/// Puts a command's words behind all others, and who asks in the line.
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
        // As that, and nothing is changed by it.
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

/// Reads replies and passes them on; ends when the connection does.
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

fn deliver(reply: Reply, pending: &mut VecDeque<PendingReply>, state: &State) -> io::Result<()> {
    let Some(first) = pending.front_mut() else {
        // Nobody has asked.
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

/// What the server says while it starts, or has a master that is gone, is over soon.
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
            "nobody has asked"
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
