//! An open load: it sends requests at planned times, without waiting for responses.
//!
//! The time of every request follows from the plan and its seed, whatever the service does. Each
//! connection takes the next request, waits for its time, sends it and reads the response. As long
//! as one connection is free, requests leave in time. If all connections wait for responses, a
//! request leaves late.
//!
//! We report two latencies:
//!
//! - The *corrected* latency counts from the time when the request was due. It includes the wait
//!   for a free connection.
//! - The *uncorrected* latency counts from the time when the request left. Most programs report
//!   only this one, so we report it for comparison.
//!
//! Invariant: every request that is due is counted, either as sent or as not sent. There is one
//! exception: if the load is stopped, the requests that wait for their responses are not counted.

mod arrivals;
mod client;
mod cpu_wait;
mod mix;
mod outcome;
mod plan;
mod report;
mod request;
mod tally;

use std::fmt;
use std::io;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use creel::task::JoinSet;
use creel::{BuildError, Pool};

pub use mix::Mix;
pub use plan::{Arrivals, Plan};
pub use report::{Latency, Moment, Report, STARVED, Step};

use arrivals::Schedule;
use client::{Client, Response};
use cpu_wait::CpuWait;
use outcome::Outcome;
use request::{BuiltRequest, RequestBuilder};
use tally::LATE;
use tally::Tally;

/// An error that prevents the load.
#[derive(Debug)]
pub enum LoadError {
    /// A pool could not be created.
    Pool(BuildError),
    /// The service did not answer the requests that prepare the load.
    Service(io::Error),
}

impl fmt::Display for LoadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LoadError::Pool(error) => error.fmt(f),
            LoadError::Service(error) => write!(
                f,
                "cannot reach the service: {error}. Check the URL, and that creel-serve is running"
            ),
        }
    }
}

impl std::error::Error for LoadError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            // The message is that of the inner error, so the cause is the inner error's cause. The
            // other message contains its cause.
            LoadError::Pool(error) => error.source(),
            LoadError::Service(_) => None,
        }
    }
}

/// The state that all connections share.
struct Shared {
    plan: Plan,
    builder: RequestBuilder,
    schedule: Mutex<Schedule>,
    tally: Mutex<Tally>,
    /// The end of the load. No request leaves later than [`LATE`] after it.
    end: Instant,
}

/// Runs a load until it is done or `stop` is ready.
///
/// # Errors
///
/// Returns an error if the load could not start.
pub fn run(plan: Plan, stop: impl Future) -> Result<Report, LoadError> {
    let pool = Pool::builder()
        .name(cpu_wait::POOL)
        .workers(plan.workers)
        .build()
        .map_err(LoadError::Pool)?;
    let report = pool.block_on(async {
        let builder = RequestBuilder::new(&plan).await?;
        let started = Instant::now() + Duration::from_millis(20);
        let shared = Arc::new(Shared {
            schedule: Mutex::new(Schedule::new(&plan, started)),
            tally: Mutex::new(Tally::new(&plan, started)),
            end: started + plan.step * Schedule::steps(plan.rates.len(), plan.is_ramp) as u32,
            builder,
            plan,
        });
        let cpu_wait = CpuWait::start();
        let mut connections = JoinSet::new();
        for _ in 0..shared.plan.connections {
            connections.spawn(connection(Arc::clone(&shared)));
        }
        let all = async { while connections.join_next().await.is_some() {} };
        either(all, stop).await;
        connections.abort_all();
        let cpu_wait_share = cpu_wait.share(shared.plan.workers);
        let unsent = lock(&shared.schedule).overdue(Instant::now());
        let mut tally = lock(&shared.tally);
        unsent.into_iter().for_each(|step| {
            tally.unsent(step);
            tally.crowded(step);
        });
        let report = tally.report(Instant::now());
        Ok(Report {
            cpu_wait_share,
            ..report
        })
    });
    report.map_err(LoadError::Service)
}

/// Runs two futures until one of them ends.
async fn either(one: impl Future<Output = ()>, other: impl Future) {
    let (mut one, mut other) = (std::pin::pin!(one), std::pin::pin!(other));
    std::future::poll_fn(|cx| {
        let done = one.as_mut().poll(cx).is_ready() || other.as_mut().poll(cx).is_ready();
        if done {
            std::task::Poll::Ready(())
        } else {
            std::task::Poll::Pending
        }
    })
    .await;
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex
        .lock()
        .unwrap_or_else(std::sync::PoisonError::into_inner)
}

/// Sends one request after the other over a connection. It connects again when it must.
async fn connection(shared: Arc<Shared>) {
    let mut client: Option<Client> = None;
    loop {
        // This is a statement of its own, so that the lock is not held during the rest of the loop.
        let due = lock(&shared.schedule).next();
        let Some(due) = due else {
            return;
        };
        if Instant::now() > due.at + LATE {
            lock(&shared.tally).crowded(due.step);
        }
        creel::time::sleep_until(due.at).await;
        let left = Instant::now();
        if left >= shared.end + LATE {
            lock(&shared.tally).unsent(due.step);
            continue;
        }
        let request = shared.builder.build(due.number);
        let (reused, outcome) = exchange(&shared.plan, client.take(), &request).await;
        client = reused;
        let outcome = match outcome {
            Ok(response) => classify(&shared, &request, response),
            Err(error) => Outcome::Failed(error.kind()),
        };
        lock(&shared.tally).count(due, left, Instant::now(), outcome);
    }
}

/// Returns the outcome of a request that got a response.
fn classify(shared: &Shared, request: &BuiltRequest, response: Response) -> Outcome {
    match response.status {
        200 if !shared.plan.check => Outcome::Good(None),
        200 => match shared.builder.check(request, &response.body) {
            Ok(acknowledged) => Outcome::Good(acknowledged),
            Err(()) => Outcome::Wrong,
        },
        503 => Outcome::Refused,
        _ => Outcome::Other,
    }
}

/// Sends a request and reads its response. Also returns the connection if it can be used again.
async fn exchange(
    plan: &Plan,
    reused: Option<Client>,
    request: &BuiltRequest,
) -> (Option<Client>, io::Result<Response>) {
    let exchange = async {
        // The service may have closed an idle connection. The request is not lost then, and we send
        // it over a new connection.
        let was_reused = reused.is_some();
        let mut client = match reused {
            Some(client) => client,
            None => Client::connect(plan.to).await?,
        };
        let mut response = client.exchange(&request.bytes).await;
        if was_reused
            && response
                .as_ref()
                .is_err_and(|error| error.kind() == io::ErrorKind::ConnectionReset)
        {
            client = Client::connect(plan.to).await?;
            response = client.exchange(&request.bytes).await;
        }
        Ok((response?, client))
    };
    match creel::time::timeout(plan.timeout, exchange).await {
        Ok(Ok((response, client))) => (response.keep_alive.then_some(client), Ok(response)),
        Ok(Err(error)) => (None, Err(error)),
        Err(_) => (None, Err(io::ErrorKind::TimedOut.into())),
    }
}
