//! tokio's current-thread runtime, with one task and one interval per stream. The sink is under a
//! mutex, or in its own task behind a channel.

use std::cell::RefCell;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use creel_cast::measure::Histograms;
use tokio::sync::mpsc;
use tokio::time::{Instant, Interval, MissedTickBehavior, interval_at};

use super::{Buffer, PERIOD, Sink, Window, peer_values};
use crate::harness::Subject;

/// The capacity of a stream's channel, which is the same as Creel's.
const CHANNEL: usize = 4;

thread_local! {
    static HISTOGRAMS: RefCell<Histograms> = RefCell::new(Histograms::new());
}

pub fn mutex(streams: usize) -> Subject {
    subject("tokio current-thread", streams, in_place)
}

pub fn channel(streams: usize) -> Subject {
    subject("tokio current-thread [channel]", streams, by_channel)
}

fn subject(name: &str, streams: usize, spawn: fn(Window, usize, usize)) -> Subject {
    Subject::with_metrics(name, move |plan| {
        let window = Window::new(plan.warm_up, plan.sample);
        let (cpu, histograms) = window.cpu(|| run(window, streams, spawn));
        Ok(peer_values(&window, cpu, &histograms?))
    })
}

fn run(
    window: Window,
    streams: usize,
    spawn: fn(Window, usize, usize),
) -> anyhow::Result<Histograms> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build()?;
    runtime.block_on(async move {
        for index in 0..streams {
            spawn(window, index, streams);
        }
        let end = window.origin + Duration::from_nanos(window.end);
        tokio::time::sleep_until(end.into()).await;
    });
    drop(runtime);
    Ok(HISTOGRAMS.take())
}

/// Returns the interval of a stream, and the time of its next tick.
fn pace(window: &Window, index: usize, streams: usize) -> (Interval, u64) {
    let period = PERIOD.as_nanos() as u64;
    let phase = Window::phase(index, streams);
    let first = phase + period * (window.now() / period + 1);
    let begin: Instant = (window.origin + Duration::from_nanos(first)).into();
    let mut interval = interval_at(begin, PERIOD);
    interval.set_missed_tick_behavior(MissedTickBehavior::Burst);
    (interval, first)
}

fn in_place(window: Window, index: usize, streams: usize) {
    tokio::spawn(async move {
        let (mut interval, mut due) = pace(&window, index, streams);
        let sink = Mutex::new(Sink::default());
        let mut buffer = Buffer::new();
        loop {
            interval.tick().await;
            buffer.due = due;
            buffer.made = window.now();
            HISTOGRAMS.with_borrow_mut(|histograms| {
                let mut sink = sink.lock().unwrap_or_else(PoisonError::into_inner);
                sink.take(&window, histograms, &buffer);
            });
            due += PERIOD.as_nanos() as u64;
        }
    });
}

fn by_channel(window: Window, index: usize, streams: usize) {
    let (sender, mut receiver) = mpsc::channel::<Buffer>(CHANNEL);
    // A second channel returns the buffers to their source, so that it uses their memory again.
    // Creel does the same.
    let (back, mut spare) = mpsc::channel::<Buffer>(CHANNEL);
    tokio::spawn(async move {
        let (mut interval, mut due) = pace(&window, index, streams);
        loop {
            interval.tick().await;
            let mut buffer = spare.try_recv().unwrap_or_else(|_| Buffer::new());
            buffer.due = due;
            buffer.made = window.now();
            if sender.send(buffer).await.is_err() {
                return;
            }
            due += PERIOD.as_nanos() as u64;
        }
    });
    tokio::spawn(async move {
        let mut sink = Sink::default();
        while let Some(buffer) = receiver.recv().await {
            HISTOGRAMS.with_borrow_mut(|histograms| {
                sink.take(&window, histograms, &buffer);
            });
            // We ignore an error. If the channel is full or closed, the buffer is simply freed.
            let _ = back.try_send(buffer);
        }
    });
}
