//! The system's monotonic clock by way of the processor's time stamp counter, for stamps.
//!
//! A look at the system's clock reads the same counter, and then pays twice as much again for what
//! makes it exact. A thread that stamps one buffer after another need not: between two looks, a
//! millisecond apart at most, [`nanos`] counts the ticks since the last one (the *anchor*).
//!
//! Only where the kernel itself goes by the counter: then it has found that it ticks evenly and
//! alike on all processors. Elsewhere it is the system's clock; so it is where this file is left
//! out: on other systems and processors, in Miri, and under the model checkers.
//!
//! How far off it is: an anchor lags by the 400 ticks at most between which clock and counter
//! were read. The rate is measured over 10 ms and more, and is good once two such spans in a row
//! agree to 100 ppm. So while the system's clock keeps its rate, to the 500 ppm by which
//! `adjtime` slews it, a reading is off by less than 1 µs, and mostly by some 30 ns. Spans that do
//! not agree (the machine was suspended or moved, or the rate set anew) send the thread back to the
//! system's clock until two do.
//!
//! Invariant: a thread's readings never go backwards, also over a new anchor. No threads share
//! anything here, so neither a `fork` nor a change of processor matters.

use super::clock::system_nanos;
use crate::sync::local;
use std::cell::Cell;
use std::sync::OnceLock;

/// For how long ticks are counted from one anchor.
const REACH_NANOS: u64 = 1_000_000;
/// Ticks between which clock and counter must have been read: 400 ns, by [`RATE_MAX`].
const WINDOW_TICKS: u64 = 400;
/// Over how long the rate is measured, at least.
const SPAN_NANOS: u64 = 10_000_000;
/// Rates agree if they differ by less than this part of them.
const AGREE: u64 = 10_000;
/// Binary digits of a rate after the point.
const RATE_BITS: u32 = 32;
/// One nanosecond a tick.
const RATE_MAX: u64 = 1 << RATE_BITS;

thread_local! {
    static COUNTER: Counter = const { Counter::new() };
}

/// Nanoseconds of the system's monotonic clock, or less than 1 µs beside it.
#[inline]
pub(super) fn nanos() -> u64 {
    let counted = local(&COUNTER, |counter| match counter.count(ticks) {
        Some(nanos) => nanos,
        None => look(counter, is_trusted()),
    });
    counted.unwrap_or_else(system_nanos)
}

#[inline]
fn ticks() -> u64 {
    // SAFETY: every x86_64 processor has the instruction.
    unsafe { std::arch::x86_64::_rdtsc() }
}

/// Whether the kernel goes by the counter. Asked once: should it change its mind, the spans do not
/// agree.
fn is_trusted() -> bool {
    static TRUSTED: OnceLock<bool> = OnceLock::new();
    let path = "/sys/devices/system/clocksource/clocksource0/current_clocksource";
    *TRUSTED.get_or_init(|| std::fs::read(path).is_ok_and(|name| name.trim_ascii() == b"tsc"))
}

#[cold]
fn look(counter: &Counter, trusted: bool) -> u64 {
    if !trusted {
        return system_nanos();
    }
    if !counter.has_rate() {
        let now = system_nanos();
        if !counter.ends_span(now) {
            return counter.note(now);
        }
    }
    let before = ticks();
    let now = system_nanos();
    counter.take(before, now, ticks())
}

/// One moment by the counter and by the clock.
#[derive(Debug, Clone, Copy)]
struct Pair {
    ticks: u64,
    nanos: u64,
}

/// What a thread knows of the counter.
#[derive(Debug)]
struct Counter {
    anchor: Cell<Pair>,
    /// So many ticks may be counted from the anchor; zero: there is no good rate.
    reach: Cell<u64>,
    /// Nanoseconds a tick, as the last span had it; zero before the first.
    rate: Cell<u64>,
    /// The last reading.
    last: Cell<u64>,
    /// Where the span begins over which the rate is being measured; zero nanoseconds: nowhere.
    begin: Cell<Pair>,
}

impl Counter {
    const fn new() -> Self {
        const ZERO: Pair = Pair { ticks: 0, nanos: 0 };
        Counter {
            anchor: Cell::new(ZERO),
            reach: Cell::new(0),
            rate: Cell::new(0),
            last: Cell::new(0),
            begin: Cell::new(ZERO),
        }
    }

    /// The time by the ticks since the anchor, unless that is out of reach.
    #[inline]
    fn count(&self, ticks: impl FnOnce() -> u64) -> Option<u64> {
        let reach = self.reach.get();
        if reach == 0 {
            return None;
        }
        let anchor = self.anchor.get();
        // Ticks from before the anchor wrap around, and are out of reach.
        let since = ticks().wrapping_sub(anchor.ticks);
        let now = || anchor.nanos + ((since * self.rate.get()) >> RATE_BITS);
        (since < reach).then(|| self.note(now()))
    }

    /// A reading: `now`, but not before the one before.
    #[inline]
    fn note(&self, now: u64) -> u64 {
        let now = now.max(self.last.get());
        self.last.set(now);
        now
    }

    fn has_rate(&self) -> bool {
        self.reach.get() > 0
    }

    /// Whether the present span is long enough at `now`.
    fn ends_span(&self, now: u64) -> bool {
        now.saturating_sub(self.begin.get().nanos) >= SPAN_NANOS
    }

    /// A reading of the clock, which read `now` between two readings of the counter: the new
    /// anchor, if they are close.
    fn take(&self, before: u64, now: u64, after: u64) -> u64 {
        if after.wrapping_sub(before) <= WINDOW_TICKS {
            let pair = Pair {
                ticks: after,
                nanos: now,
            };
            self.anchor.set(pair);
            if self.ends_span(now) {
                self.end_span(pair);
            }
        }
        self.note(now)
    }

    fn end_span(&self, end: Pair) {
        let begin = self.begin.replace(end);
        if begin.nanos == 0 {
            return;
        }
        let ticks = u128::from(end.ticks.wrapping_sub(begin.ticks).max(1));
        let rate = (u128::from(end.nanos - begin.nanos) << RATE_BITS) / ticks;
        let rate = u64::try_from(rate).unwrap_or(u64::MAX);
        let differs = rate.abs_diff(self.rate.replace(rate));
        let is_good = rate <= RATE_MAX && differs < rate / AGREE;
        let reach = if is_good {
            (REACH_NANOS << RATE_BITS) / rate
        } else {
            0
        };
        self.reach.set(reach);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Readings this far apart all read the clock.
    const APART: f64 = 1.5e6;
    /// This number of readings ends three spans.
    const ENOUGH: usize = 24;

    /// A machine whose counter and clock run as the test demands.
    struct Machine {
        counter: Counter,
        ticks: u64,
        part: f64,
        nanos: f64,
        /// The length of a tick in nanoseconds.
        rate: f64,
        last: u64,
    }

    impl Machine {
        fn new() -> Self {
            Machine {
                counter: Counter::new(),
                ticks: u64::MAX - 100_000_000,
                part: 0.0,
                nanos: 1e12,
                rate: 0.4,
                last: 0,
            }
        }

        fn pass(&mut self, nanos: f64) {
            self.nanos += nanos;
            self.part += nanos / self.rate;
            self.ticks = self.ticks.wrapping_add(self.part as u64);
            self.part = self.part.fract();
        }

        /// Returns the error of a reading in nanoseconds, and whether the reading was counted.
        /// Reading the clock takes `look` ticks.
        fn read(&mut self, look: u64) -> (f64, bool) {
            let counted = self.counter.count(|| self.ticks);
            let now = counted.unwrap_or_else(|| {
                let (before, now) = (self.ticks, self.nanos);
                self.pass(look as f64 * self.rate);
                self.counter.take(before, now as u64, self.ticks)
            });
            assert!(now >= self.last, "{now} after {}", self.last);
            self.last = now;
            (now as f64 - self.nanos, counted.is_some())
        }

        fn look(&mut self, times: usize) {
            for _ in 0..times {
                self.pass(APART);
                self.read(WINDOW_TICKS);
            }
        }

        /// Returns whether the next reading is counted after an anchor.
        fn counts(&mut self) -> bool {
            self.look(1);
            self.pass(1e3);
            self.read(WINDOW_TICKS).1
        }
    }

    #[test]
    fn counts_once_two_spans_agree() {
        let mut machine = Machine::new();
        // Both began together, so that the rate since then would be right as well.
        machine.ticks = (machine.nanos / machine.rate) as u64;
        machine.look(1);
        let first = (0..ENOUGH).find(|_| machine.counts());
        let spans = first.map(|n| n as f64 * APART / SPAN_NANOS as f64);
        assert!(spans.is_some_and(|spans| spans > 1.5), "{spans:?}");
    }

    #[test]
    fn stays_within_a_microsecond_while_the_rate_changes_by_500_ppm() {
        let mut machine = Machine::new();
        machine.look(ENOUGH);
        let (mut worst, mut counted) = (0.0_f64, 0);
        for step in 0..100_000_u64 {
            // The clock is slewed now and then. Close readings over some anchors follow, and then
            // distant ones.
            let since = step % 20_000;
            if since == 0 {
                machine.rate = if machine.rate == 0.4 { 0.4002 } else { 0.4 };
            }
            let close = since < 15_000;
            machine.pass(if close {
                200.0
            } else {
                (step * step % 400_000) as f64
            });
            let (off, by_ticks) = machine.read(step % WINDOW_TICKS);
            worst = worst.max(off.abs());
            counted += u32::from(by_ticks);
        }
        assert!(worst < 1_000.0, "{worst}");
        assert!(counted > 50_000, "{counted}");
    }

    #[test]
    fn a_disturbed_clock_reading_is_not_an_anchor() {
        let mut machine = Machine::new();
        machine.look(ENOUGH);
        machine.pass(APART);
        assert!(!machine.read(20 * WINDOW_TICKS).1);
        assert!(!machine.read(0).1, "counts from the disturbed look");
        assert!(machine.read(0).1);
    }

    #[test]
    fn a_suspended_machine_is_detected() {
        for elapsed_by_counter in [0.0, 3.6e12] {
            let mut machine = Machine::new();
            machine.look(ENOUGH);
            assert!(machine.counts());
            // The clock stops, and the counter either continues or restarts.
            machine.ticks = if elapsed_by_counter > 0.0 {
                let ticks = elapsed_by_counter / machine.rate;
                machine.ticks.wrapping_add(ticks as u64)
            } else {
                0
            };
            let mut refused = 0;
            for _ in 0..3 * ENOUGH {
                refused += u32::from(!machine.counts());
                let (off, _) = machine.read(0);
                assert!(off.abs() < 500_000.0, "{off}");
            }
            assert!(refused > 0);
            assert!(machine.counts());
            assert!(machine.read(0).0.abs() < 1_000.0);
        }
    }

    #[test]
    fn is_the_systems_clock_within_a_microsecond() {
        let end = system_nanos() + 100_000_000;
        let (mut last, mut worst) = (0, 0);
        loop {
            let before = system_nanos();
            let now = nanos();
            let after = system_nanos();
            assert!(now >= last, "{now} after {last}");
            last = now;
            worst = worst.max(before.saturating_sub(now).max(now.saturating_sub(after)));
            if before > end {
                break;
            }
        }
        assert!(worst < 1_000, "{worst} ns");
    }

    #[test]
    fn is_the_systems_clock_where_the_counter_is_not_trusted() {
        let counter = Counter::new();
        let end = system_nanos() + 3 * SPAN_NANOS;
        loop {
            assert_eq!(counter.count(|| unreachable!("there is no rate")), None);
            let before = system_nanos();
            let now = look(&counter, false);
            assert!((before..=system_nanos()).contains(&now));
            if now > end {
                break;
            }
        }
    }
}
