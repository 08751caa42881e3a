//! Channels of 1,024 places: ours beside those that others use, on our tasks and on tokio's.

use std::future::Future;

use super::runtime::{Creel, Runtime, Tokio};
use crate::harness::{Plan, Subject};

/// Messages a call, over all senders.
const MESSAGES: u64 = 100_000;
const PLACES: usize = 1024;

/// Sends so many numbers from each of `senders` tasks to one; ns a message.
fn sample<R, S, L>(
    plan: &Plan,
    workers: usize,
    senders: u64,
    open: impl Fn(u64) -> (Vec<S>, L),
) -> anyhow::Result<f64>
where
    R: Runtime,
    S: Future<Output = ()> + Send + 'static,
    L: Future<Output = u64> + Send + 'static,
{
    let runtime = R::start(workers)?;
    let each = MESSAGES / senders;
    let call = || {
        let (sending, listening) = open(each);
        let got = runtime.run(async move {
            for sender in sending {
                R::launch(sender);
            }
            R::spawn(listening).await
        });
        assert_eq!(got, each * senders);
    };
    Ok(plan.time(call) / MESSAGES as f64)
}

/// Every channel, on so many workers.
pub fn subjects(workers: usize, senders: u64) -> Vec<Subject> {
    let on = |name: &str| format!("{name} {workers} workers");
    vec![
        Subject::new(on("creel"), move |plan| {
            sample::<Creel, _, _>(plan, workers, senders, |each| {
                let (tx, rx) = creel::channel::ring::channel(PLACES);
                let senders = (0..senders).map(|_| {
                    let tx = tx.clone();
                    async move {
                        for number in 0..each {
                            tx.send(number).await.expect("somebody listens");
                        }
                    }
                });
                let listener = async move {
                    let mut got = 0;
                    while rx.recv().await.is_ok() {
                        got += 1;
                    }
                    got
                };
                (senders.collect(), listener)
            })
        }),
        Subject::new(on("kanal on creel"), move |plan| {
            sample::<Creel, _, _>(plan, workers, senders, |each| {
                let (tx, rx) = kanal::bounded_async(PLACES);
                let senders = (0..senders).map(|_| {
                    let tx = tx.clone();
                    async move {
                        for number in 0..each {
                            tx.send(number).await.expect("somebody listens");
                        }
                    }
                });
                let listener = async move {
                    let mut got = 0;
                    while rx.recv().await.is_ok() {
                        got += 1;
                    }
                    got
                };
                (senders.collect(), listener)
            })
        }),
        Subject::new(on("async-channel on creel"), move |plan| {
            sample::<Creel, _, _>(plan, workers, senders, |each| {
                let (tx, rx) = async_channel::bounded(PLACES);
                let senders = (0..senders).map(|_| {
                    let tx = tx.clone();
                    async move {
                        for number in 0..each {
                            tx.send(number).await.expect("somebody listens");
                        }
                    }
                });
                let listener = async move {
                    let mut got = 0;
                    while rx.recv().await.is_ok() {
                        got += 1;
                    }
                    got
                };
                (senders.collect(), listener)
            })
        }),
        Subject::new(on("tokio"), move |plan| {
            sample::<Tokio<false>, _, _>(plan, workers, senders, |each| {
                let (tx, mut rx) = tokio::sync::mpsc::channel(PLACES);
                let senders = (0..senders).map(|_| {
                    let tx = tx.clone();
                    async move {
                        for number in 0..each {
                            tx.send(number).await.expect("somebody listens");
                        }
                    }
                });
                let listener = async move {
                    let mut got = 0;
                    while rx.recv().await.is_some() {
                        got += 1;
                    }
                    got
                };
                (senders.collect(), listener)
            })
        }),
    ]
}
