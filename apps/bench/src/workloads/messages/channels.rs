//! Channels with a capacity of 1,024: ours compared with others, on our tasks and on tokio's.

use super::endpoints::{MessageReceiver, MessageSender};
use super::runtime::{Creel, Runtime, Tokio};
use crate::harness::{Plan, Subject};

/// The number of messages of a call, over all senders.
const MESSAGES: u64 = 100_000;
const PLACES: usize = 1024;

/// Returns every channel on `workers` workers.
pub fn subjects(workers: usize, senders: u64) -> Vec<Subject> {
    vec![
        subject::<Creel, _, _>("creel", workers, senders, creel::channel::bounded::channel),
        subject::<Creel, _, _>("kanal on creel", workers, senders, kanal::bounded_async),
        subject::<Creel, _, _>(
            "async-channel on creel",
            workers,
            senders,
            async_channel::bounded,
        ),
        subject::<Tokio<false>, _, _>("tokio", workers, senders, tokio::sync::mpsc::channel),
    ]
}

/// Returns a channel on the tasks of a runtime.
fn subject<R, S, L>(name: &str, workers: usize, senders: u64, open: fn(usize) -> (S, L)) -> Subject
where
    R: Runtime,
    S: MessageSender + Clone + 'static,
    L: MessageReceiver + 'static,
{
    Subject::new(format!("{name} {workers} workers"), move |plan| {
        sample::<R, S, L>(plan, workers, senders, open)
    })
}

/// Sends numbers from each of `senders` tasks to one task. Returns the time per message in ns.
fn sample<R, S, L>(
    plan: &Plan,
    workers: usize,
    senders: u64,
    open: fn(usize) -> (S, L),
) -> anyhow::Result<f64>
where
    R: Runtime,
    S: MessageSender + Clone + 'static,
    L: MessageReceiver + 'static,
{
    let runtime = R::start(workers)?;
    let each = MESSAGES / senders;
    let call = || {
        let (tx, mut rx) = open(PLACES);
        let got = runtime.run(async move {
            for _ in 0..senders {
                let mut tx = tx.clone();
                R::spawn_detached(async move {
                    for number in 0..each {
                        tx.send_message(number).await;
                    }
                });
            }
            drop(tx);
            R::spawn(async move {
                let mut got = 0;
                while rx.receive_message().await.is_some() {
                    got += 1;
                }
                got
            })
            .await
        });
        assert_eq!(got, each * senders);
    };
    Ok(plan.time(call) / MESSAGES as f64)
}
