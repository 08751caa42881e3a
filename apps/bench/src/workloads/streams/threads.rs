//! One thread per stream, as in an audio program that uses no runtime.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use creel_cast::measure::Histograms;

use super::{Buffer, PERIOD, Sink, Window, peer_values};
use crate::harness::Subject;

/// The size of a stack, which is enough for a stream.
const STACK_BYTES: usize = 64 * 1024;
/// The number of histograms that the threads share. With this many, threads rarely wait for a lock.
const SHARDS: usize = 16;

pub fn threads(streams: usize) -> Subject {
    Subject::with_metrics("threads", move |plan| {
        let window = Window::new(plan.warm_up, plan.sample);
        let shards: Vec<_> = (0..SHARDS).map(|_| Mutex::new(Histograms::new())).collect();
        let (cpu, started) = window.cpu(|| run(&window, streams, &shards));
        started?;
        let mut all = Histograms::new();
        for shard in shards {
            all.merge(&shard.into_inner().unwrap_or_else(PoisonError::into_inner));
        }
        Ok(peer_values(&window, cpu, &all))
    })
}

fn run(window: &Window, streams: usize, shards: &[Mutex<Histograms>]) -> std::io::Result<()> {
    std::thread::scope(|scope| {
        for index in 0..streams {
            let builder = std::thread::Builder::new().stack_size(STACK_BYTES);
            let phase = Window::phase(index, streams);
            let histograms = &shards[index % SHARDS];
            builder.spawn_scoped(scope, move || one(window, phase, histograms))?;
        }
        Ok(())
    })
}

fn one(window: &Window, phase: u64, histograms: &Mutex<Histograms>) {
    let (mut buffer, mut sink) = (Buffer::new(), Sink::default());
    let period = PERIOD.as_nanos() as u64;
    let mut due = phase + period * (window.now() / period);
    while due < window.end {
        let left = due.saturating_sub(window.now());
        std::thread::sleep(Duration::from_nanos(left));
        buffer.due = due;
        buffer.made = window.now();
        let mut histograms = histograms.lock().unwrap_or_else(PoisonError::into_inner);
        sink.take(window, &mut histograms, &buffer);
        due += period;
    }
}
