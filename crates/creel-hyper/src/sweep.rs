//! Finds the connections of a server that show no activity.
//!
//! We check a connection from time to time, to free its buffers or to enforce a limit. A timer per
//! connection would make a busy connection pay for each check with a turn of its task. Therefore one
//! task per server, the *sweep*, reads the counters of all connections that hold hyper's state, and
//! wakes only connections without progress. The connection then decides itself, because only its own
//! task knows its state for certain.
//!
//! The sweep runs about once per [`TICK`], or twice if new connections arrive. While no connection
//! holds hyper's state, it has no timer.

use std::future::{Future, poll_fn};
use std::mem;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use creel::time::Sleep;

use crate::activity::{Activity, Progress};

/// The unit of the pauses between two checks of a connection, and the shortest one.
pub(crate) const TICK: Duration = Duration::from_micros(62_500);
/// The longest pause, in ticks. It is one second, so we check a busy connection once per second.
const PAUSE_MAX: u32 = 16;

/// The first pause between two checks of a connection. The pause doubles with each check, up to one
/// second.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FirstPause {
    /// One tick. If many clients send a single request each, only a few of them therefore hold
    /// buffers at the same time.
    Short,
    /// One second. A connection that was idle only for a short time starts with it. Otherwise a
    /// client with a request every 500 ms would make us free and allocate hyper's state for each of
    /// them.
    Long,
}

/// Returns whether a connection was idle for such a short time that it gets [`FirstPause::Long`].
pub(crate) fn was_idle_briefly(idle: Duration) -> bool {
    idle < TICK * PAUSE_MAX
}

/// The connections that the sweep of a server checks.
#[derive(Default)]
pub(crate) struct Sweep(Mutex<Inbox>);

/// What connections and the sweep share.
#[derive(Default)]
struct Inbox {
    /// The connections that the sweep has not seen yet.
    new: Vec<Entry>,
    /// When the sweep runs next. `None` means that it has no timer.
    next: Option<Instant>,
    /// The waker of the task that runs the sweep.
    sweeper: Option<Waker>,
}

/// A connection that the sweep checks.
struct Entry {
    activity: Arc<Activity>,
    /// The phase of the connection. If the connection is in a later phase, another entry represents
    /// it.
    phase: u32,
    /// The waker of the connection's task.
    waker: Waker,
    /// The pause until the next check, in ticks.
    pause: u32,
    /// The time of the next check.
    due: Instant,
    /// The progress at the last check, and for how many ticks it has been the same. We add up the
    /// pauses and do not read the clock. After the whole process was stopped, a client therefore
    /// still has time to go on.
    seen: Progress,
    quiet: u32,
}

/// The registration of a connection. When it is dropped, the sweep forgets the connection.
pub(crate) struct Registration(Arc<Activity>);

impl Drop for Registration {
    fn drop(&mut self) {
        self.0.begin_phase();
    }
}

impl Sweep {
    /// Registers a connection, so that the sweep checks it. `waker` wakes its task.
    pub(crate) fn register(
        &self,
        activity: &Arc<Activity>,
        waker: &Waker,
        first: FirstPause,
    ) -> Registration {
        let now = creel::time::now();
        let pause = match first {
            FirstPause::Short => 1,
            FirstPause::Long => PAUSE_MAX,
        };
        let entry = Entry {
            activity: Arc::clone(activity),
            phase: activity.begin_phase(),
            waker: waker.clone(),
            pause,
            due: now + TICK * pause,
            seen: Progress::default(),
            quiet: 0,
        };
        let mut inbox = self.lock();
        let is_earlier = inbox.next.is_none_or(|next| entry.due < next);
        inbox.new.push(entry);
        // We take the waker, so that the sweep is woken once. When it runs, it sets `sweeper` and
        // `next` again.
        let sweeper = is_earlier.then(|| inbox.sweeper.take()).flatten();
        drop(inbox);
        sweeper.inspect(Waker::wake_by_ref);
        Registration(Arc::clone(activity))
    }

    fn lock(&self) -> MutexGuard<'_, Inbox> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs the sweep. It never ends.
    pub(crate) async fn run(&self) {
        let mut entries = Vec::new();
        let mut timer: Option<Sleep> = None;
        poll_fn(|cx| self.poll(cx, &mut entries, &mut timer)).await
    }

    fn poll(
        &self,
        cx: &mut Context<'_>,
        entries: &mut Vec<Entry>,
        timer: &mut Option<Sleep>,
    ) -> Poll<()> {
        loop {
            let now = creel::time::now();
            entries.retain_mut(|entry| entry.due > now || entry.check(now));
            // We keep no memory of connections that are gone.
            if entries.len() < entries.capacity() / 4 {
                entries.shrink_to(2 * entries.len());
            }
            let first = entries.iter().map(|entry| entry.due).min();
            let mut inbox = self.lock();
            let new = mem::take(&mut inbox.new);
            let first = new.iter().map(|entry| entry.due).chain(first).min();
            // Connections that are due soon after each other are checked together.
            let next = first.map(|first| first.max(now + TICK));
            inbox.next = next;
            inbox.sweeper = Some(cx.waker().clone());
            drop(inbox);
            entries.extend(new);
            *timer = next.map(creel::time::sleep_until);
            let timer = timer.as_mut().map(Pin::new);
            if timer.is_none_or(|timer| timer.poll(cx).is_pending()) {
                return Poll::Pending;
            }
        }
    }
}

impl Entry {
    /// Compares the progress of the connection with that of the last check, and wakes the connection
    /// if it is the same. Returns false if the sweep must forget the connection.
    fn check(&mut self, now: Instant) -> bool {
        if self.activity.phase() != self.phase {
            return false;
        }
        let progress = self.activity.progress();
        if progress != self.seen || progress.is_busy() {
            (self.seen, self.quiet) = (progress, 0);
        } else {
            self.quiet += self.pause;
            self.activity.record_quiet(progress, TICK * self.quiet);
            self.waker.wake_by_ref();
        }
        self.pause = (2 * self.pause).min(PAUSE_MAX);
        // Connections that were due at different times stay apart, unless the sweep is late.
        let (pause, due) = (TICK * self.pause, self.due);
        self.due = if due + pause > now { due } else { now } + pause;
        true
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
    use std::task::Wake;

    use creel::Pool;
    use creel::time::Clock;

    use super::*;

    #[derive(Default)]
    struct Count(AtomicUsize);

    impl Wake for Count {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, SeqCst);
        }
    }

    #[test]
    fn only_connections_without_progress_are_woken_and_ended_ones_are_forgotten() {
        let clock = Clock::manual();
        let pool = Pool::builder().workers(1).clock(clock.clone());
        let pool = pool.build().unwrap();
        let sweep = Arc::new(Sweep::default());
        let sweeping = Arc::clone(&sweep);
        pool.spawn(async move { sweeping.run().await }).detach();
        let activities: [Arc<Activity>; 2] = Default::default();
        let counts: [Arc<Count>; 2] = Default::default();
        let registered = pool.block_on(async {
            [0, 1].map(|i| {
                // A connection whose response is stuck, so that it is not busy.
                activities[i].record_write(false);
                let waker = Waker::from(Arc::clone(&counts[i]));
                sweep.register(&activities[i], &waker, FirstPause::Short)
            })
        });
        let second = |progresses: bool| {
            for _ in 0..1_000 {
                if progresses {
                    activities[0].record_write(true);
                    activities[0].record_write(false);
                }
                // Between two of these calls, the worker checks its tasks and timers.
                (0..3).for_each(|_| pool.run_on(0, || ()).unwrap());
                clock.advance(Duration::from_millis(1));
            }
        };
        let woken = || counts.each_ref().map(|count| count.0.load(SeqCst));
        (0..3).for_each(|_| second(true));
        let [busy, quiet] = woken();
        assert_eq!(busy, 0);
        // After about 0.2, 0.4, 0.9, 1.9 and 2.9 s.
        assert!((4..=6).contains(&quiet), "woken {quiet} times");
        assert_eq!(activities[0].take_quiet(), None);
        // The time of the last check, or of the one before it.
        let (state, time) = activities[1].take_quiet().unwrap();
        assert_eq!(state, crate::activity::State::Stuck);
        let expected = Duration::from_millis(1_800)..Duration::from_millis(3_000);
        assert!(expected.contains(&time), "{time:?}");
        // A finding that is older than the progress does not count.
        (0..2).for_each(|_| second(false));
        activities[0].record_write(true);
        assert_eq!(activities[0].take_quiet(), None);

        drop(registered);
        let before = woken();
        (0..2).for_each(|_| second(false));
        assert_eq!(woken(), before);
        assert_eq!(activities.each_ref().map(Arc::strong_count), [1, 1]);
    }
}
