//! Reads from console-subscriber what it knows about the tasks of an example.
#![cfg(unix)]

mod common;
#[path = "../examples/console.rs"]
#[allow(dead_code, reason = "the test starts the server of the console itself")]
mod console;

use std::collections::HashMap;
use std::time::Duration;

use common::Folder;
use console_api::field::Value;
use console_api::instrument::{InstrumentRequest, instrument_client::InstrumentClient};
use console_api::tasks::{Stats, Task};
use console_subscriber::{ConsoleLayer, ServerAddr};
use creel::Pool;
use creel_tokio::{Executor, with_tokio};
use tonic::transport::Endpoint;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

/// The timeout of all waits. Only a hang takes this long.
const HANG_TIMEOUT: Duration = Duration::from_secs(60);
const NAMES: [&str; 3] = ["sender", "receiver", "busy"];

/// Returns the value of the field `task.name`.
fn name(task: &Task) -> Option<&str> {
    task.fields.iter().find_map(|field| match &field.value {
        Some(Value::StrVal(name)) if name_of(field) == Some("task.name") => Some(name.as_str()),
        _ => None,
    })
}

fn name_of(field: &console_api::Field) -> Option<&str> {
    match field.name.as_ref()? {
        console_api::field::Name::StrName(name) => Some(name),
        console_api::field::Name::NameIdx(_) => None,
    }
}

/// Returns whether a task was polled and woken several times.
fn is_active(stats: &Stats) -> bool {
    let polls = stats.poll_stats.as_ref().map_or(0, |polls| polls.polls);
    polls > 3 && stats.wakes > 3 && stats.waker_clones > 3 && stats.waker_drops > 3
}

#[test]
fn the_console_shows_polls_and_wake_ups_of_our_tasks() {
    let folder = Folder::new("console");
    let socket = folder.path().join("socket");
    let layer = ConsoleLayer::builder()
        .server_addr(ServerAddr::Unix(socket.clone()))
        .publish_interval(Duration::from_millis(20))
        .spawn();
    tracing_subscriber::registry().with(layer).init();
    let pool = Pool::builder().workers(2).build().unwrap();
    let example = pool.spawn(console::run()).abort_on_drop();
    let watched = with_tokio(async {
        let endpoint = Endpoint::from_shared(format!("unix:{}", socket.display())).unwrap();
        let endpoint = endpoint.executor(Executor::current());
        // The console's server starts on a thread of its own.
        let channel = loop {
            match endpoint.connect().await {
                Ok(channel) => break channel,
                Err(_) => creel::time::sleep(Duration::from_millis(5)).await,
            }
        };
        let mut client = InstrumentClient::new(channel);
        let updates = client.watch_updates(InstrumentRequest {}).await.unwrap();
        let mut updates = updates.into_inner();
        let (mut names, mut active) = (HashMap::new(), HashMap::new());
        while active.len() < NAMES.len() {
            let update = updates.message().await.unwrap().expect("it runs");
            let tasks = update.task_update.unwrap();
            for task in &tasks.new_tasks {
                let line = task.location.as_ref().and_then(|place| place.line);
                if let Some(name) = name(task) {
                    names.insert(task.id.unwrap().id, name.to_owned());
                    assert!(line.is_some());
                }
            }
            for (id, stats) in &tasks.stats_update {
                if let Some(name) = names.get(id).filter(|_| is_active(stats)) {
                    active.insert(name.clone(), stats.waker_clones - stats.waker_drops);
                }
            }
        }
        active
    });
    let bounded = async { creel::time::timeout(HANG_TIMEOUT, watched).await };
    let active = pool.block_on(bounded).expect("the tasks do not appear");
    drop(example);
    for name in NAMES {
        // Each task keeps one waker while it waits, and briefly has a second one in a poll.
        assert!(active[name] <= 2, "{name} has {} wakers", active[name]);
    }
}
