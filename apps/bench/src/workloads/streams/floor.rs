//! The floor, which is the least CPU time that the streams need. A loop wakes up once per quantum
//! and makes all buffers that are due, in order.
//!
//! It has no tasks and no timers. Therefore it does only what every other subject has to do as
//! well.

use std::time::Duration;

use creel_cast::measure::Histograms;

use super::{Buffer, PERIOD, Sink, Window, peer_values};
use crate::harness::Subject;

pub fn wheel(name: &str, streams: usize, quantum: Duration) -> Subject {
    Subject::with_metrics(name, move |plan| {
        let window = Window::new(plan.warm_up, plan.sample);
        let (cpu, histograms) = window.cpu(|| run(&window, streams, quantum.as_nanos() as u64));
        Ok(peer_values(&window, cpu, &histograms))
    })
}

struct Stream {
    due: u64,
    buffer: Buffer,
    sink: Sink,
}

fn run(window: &Window, streams: usize, quantum: u64) -> Histograms {
    let mut histograms = Histograms::new();
    let mut wheel: Vec<Stream> = (0..streams)
        .map(|index| Stream {
            due: Window::phase(index, streams),
            buffer: Buffer::new(),
            sink: Sink::default(),
        })
        .collect();
    // The streams are in the order of their phases, so the next one in the list is due next.
    let mut next = 0;
    loop {
        let now = window.now();
        if now >= window.end {
            return histograms;
        }
        while wheel[next].due <= now {
            let stream = &mut wheel[next];
            stream.buffer.due = stream.due;
            stream.buffer.made = window.now();
            stream.sink.take(window, &mut histograms, &stream.buffer);
            stream.due += PERIOD.as_nanos() as u64;
            next = (next + 1) % streams;
        }
        let next_quantum = (now / quantum + 1) * quantum;
        let left = next_quantum.saturating_sub(window.now());
        std::thread::sleep(Duration::from_nanos(left));
    }
}
