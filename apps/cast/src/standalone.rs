//! Runs many sources and sinks in a few contexts without a network, and measures all of them.

use crate::error::Error;
use crate::measure::context::{StatsSink, Window};
use crate::measure::contexts::{Contexts, resident_bytes};
use crate::measure::stats::StreamStats;
use crate::results::Measured;
use crate::stream::flow::Stream;
use crate::stream::sink::{AsyncInPlace, Drain, InPlace, Pull, Push, SinkMode};
use crate::stream::source::{Blank, Paced};
use creel::channel::spsc;
use creel::time::interval;
use creel::{Observe, Pool};
use creel_media::control::{Changes, Control, Running, Trigger};
use creel_media::leaky::{self, Leak};
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, mpsc};
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

/// The capacity of the channel to the task of a sink.
const CHANNEL: usize = 4;

/// The configuration of a run without a network.
#[derive(Debug, Clone)]
pub struct Plan {
    /// The number of streams. They are distributed evenly among the contexts. Their first buffers
    /// are distributed evenly over one period.
    pub streams: usize,
    /// The number of contexts, which are pools of one worker.
    pub contexts: usize,
    /// How long a context waits before it handles buffers and timers again.
    pub wait: Duration,
    /// The access of other processes to the contexts, for example to observe them with `creel top`.
    pub observe: Observe,
    /// The time between two buffers of a stream.
    pub period: Duration,
    /// The number of buffers of each stream that are measured.
    pub buffers: u64,
    /// The way in which buffers are passed to the sinks.
    pub mode: SinkMode,
    /// The number of samples per buffer.
    pub samples: usize,
    /// The time at the beginning that is left out of the figures.
    pub ramp_up: Duration,
}

impl Plan {
    /// Returns the number of buffers of each stream before the measured ones.
    fn ramp(&self) -> u64 {
        (self.ramp_up.as_nanos() / self.period.as_nanos().max(1)) as u64
    }
}

/// Runs as planned and measures. This function blocks for the whole run. It calls `interrupted`
/// several times per second, and gives up if it returns true.
///
/// # Errors
///
/// Returns an error if a context cannot be created, or if the run was interrupted.
pub fn run(plan: &Plan, interrupted: &dyn Fn() -> bool) -> Result<Measured, Error> {
    let contexts = Contexts::new(plan.contexts, plan.wait, plan.observe)?;
    let memory = resident_bytes();
    let begin = Instant::now() + plan.ramp_up;
    let end = begin + plan.period * u32::try_from(plan.buffers).unwrap_or(u32::MAX);
    let ramp = plan.ramp();
    let window = Arc::new(Window {
        begin: ramp,
        end: ramp + plan.buffers,
    });
    let (done, results) = mpsc::channel();
    let launcher = Launcher {
        plan,
        window,
        changes: Changes::default(),
        begin,
        done,
    };
    let controls: Vec<Arc<Control>> = (0..plan.streams)
        .map(|index| launcher.start(index, contexts.of(index)))
        .collect();
    drop(launcher);
    let first = contexts.usage_at(begin, interrupted);
    let grown = resident_bytes().zip(memory);
    let last = contexts.usage_at(end, interrupted);
    let used = first.zip(last);
    if used.is_none() {
        for control in &controls {
            // Stopping a stream that has ended already has no effect, so we ignore the result.
            let _ = control.trigger(Trigger::Stop);
        }
    }
    let (first, last) = used.ok_or(Error::Interrupted)?;
    // Each stream ends by itself after its last buffer, so this loop ends as well.
    let streams: Vec<StreamStats> = results.iter().collect();
    Ok(Measured {
        contexts: contexts.count(),
        buffers: streams.iter().map(|stream| stream.buffers).sum(),
        stream_bytes: grown.map(|(now, before)| now.saturating_sub(before) / plan.streams as u64),
        used: last.since(&first),
        histograms: contexts.take_histograms(),
        streams,
        ..Measured::default()
    })
}

/// Starts streams. It has the values that all streams of a run have in common.
struct Launcher<'a> {
    plan: &'a Plan,
    window: Arc<Window>,
    changes: Changes,
    begin: Instant,
    done: mpsc::Sender<StreamStats>,
}

impl Launcher<'_> {
    fn start(&self, index: usize, context: &Pool) -> Arc<Control> {
        let sink = StatsSink::new(Arc::clone(&self.window));
        match self.plan.mode {
            SinkMode::SyncMutex => {
                let stats = |push: InPlace<StatsSink>| Some(push.into_sink().stats);
                self.spawn(index, context, InPlace::new(sink), stats)
            }
            SinkMode::AsyncMutex => {
                let sink = Arc::new(async_lock::Mutex::new(sink));
                let stats = |push: AsyncInPlace<StatsSink>| Some(push.mutex().try_lock()?.stats);
                self.spawn(index, context, AsyncInPlace::new(sink), stats)
            }
            SinkMode::Task => {
                let (push, pull) = leaky::channel(CHANNEL, Leak::No);
                self.spawn_sink(context, pull, sink);
                self.spawn(index, context, push, |_| None)
            }
            SinkMode::Slot => {
                let (push, pull) = spsc::channel();
                self.spawn_sink(context, pull, sink);
                self.spawn(index, context, push, |_| None)
            }
        }
    }

    fn spawn_sink(&self, context: &Pool, pull: impl Pull + 'static, sink: StatsSink) {
        let drain = Drain::new(pull, sink);
        let stats = |drain: Drain<_, StatsSink>| Some(drain.into_sink().stats);
        context.spawn(self.report(drain, stats)).detach();
    }

    fn report<W, F>(&self, work: W, stats: F) -> ReportWhenDone<W, F> {
        ReportWhenDone {
            work: Some((work, stats)),
            done: self.done.clone(),
        }
    }

    /// Starts the task of a stream. `stats` returns the measurements of its sink, or `None` if the
    /// sink has a task of its own.
    fn spawn<P: Push + 'static>(
        &self,
        index: usize,
        context: &Pool,
        push: P,
        stats: impl FnOnce(P) -> Option<StreamStats> + Send + Unpin + 'static,
    ) -> Arc<Control> {
        let plan = self.plan;
        let phase = plan.period.mul_f64(index as f64 / plan.streams as f64);
        let ramp = plan.ramp();
        let first = self.begin - plan.period * u32::try_from(ramp).unwrap_or(0) + phase;
        let pace = interval(plan.period).starting(first);
        let source = Paced::new(pace, Blank, plan.samples, ramp + plan.buffers);
        let control = Arc::new(Control::started(self.changes.clone()));
        let running = control.run(Stream::new(source, push));
        let stats = |running: Running<Stream<_, P>>| stats(running.into_work().into_push());
        context.spawn(self.report(running, stats)).detach();
        control
    }
}

/// Runs the future of a stream, and then sends its measurements, if there are any. This is not an
/// `async` block, because such a block would reserve memory for the future twice.
struct ReportWhenDone<W, F> {
    work: Option<(W, F)>,
    done: mpsc::Sender<StreamStats>,
}

impl<W, F> Future for ReportWhenDone<W, F>
where
    W: Future + Unpin,
    F: FnOnce(W) -> Option<StreamStats> + Unpin,
{
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        if let Some((work, _)) = &mut self.work {
            ready!(Pin::new(work).poll(cx));
        }
        if let Some(stats) = self.work.take().and_then(|(work, stats)| stats(work)) {
            // After an interrupt no one waits for the result, so we ignore the error.
            let _ = self.done.send(stats);
        }
        Poll::Ready(())
    }
}
