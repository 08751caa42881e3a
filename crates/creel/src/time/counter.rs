//! The system's monotonic clock, read with the time stamp counter of the processor. We use it for
//! timestamps.
//!
//! A reading of the system's clock reads the same counter, and then needs twice that time to make
//! the result exact. A thread that takes one timestamp after another does not need a result that is
//! that exact. Between two readings of the system's clock, which are at most one millisecond apart,
//! [`nanos`] counts the ticks since the last one (the *anchor*).
//!
//! We do this only if the kernel itself uses the counter as its clock source. The kernel has then
//! found that the counter ticks evenly and identically on all processors. Otherwise we read the
//! system's clock. The same applies where this file is left out: on other systems and processors,
//! in Miri, and in the model checkers.
//!
//! # Accuracy
//!
//! - An anchor lags by at most the 400 ticks within which clock and counter were read.
//! - We measure the rate over 10 ms or more. The rate is good once two such spans in a row agree to
//!   100 ppm.
//! - Therefore a reading is off by less than 1 µs, and mostly by about 30 ns. This holds while the
//!   system's clock keeps its rate within the 500 ppm by which `adjtime` slews it.
//! - If two spans do not agree, the thread returns to the system's clock until two spans agree.
//!   This happens, for example, if the machine was suspended or moved to another host, or if the
//!   rate was set to another value.
//!
//! Invariant: the readings of a thread never decrease, even across a new anchor. Threads share
//! nothing here, so neither a `fork` nor a change of the processor has an effect.

use super::clock::system_nanos;
use crate::sync::local;
use std::cell::Cell;
use std::fs::File;
use std::io::Read;
use std::sync::OnceLock;

/// The time for which we count ticks from one anchor, in nanoseconds.
const REACH_NANOS: u64 = 1_000_000;
/// The maximum number of ticks within which clock and counter must be read. This is at most 400 ns,
/// because of [`RATE_MAX`].
const WINDOW_TICKS: u64 = 400;
/// The minimum duration over which we measure the rate, in nanoseconds.
const SPAN_NANOS: u64 = 10_000_000;
/// Two rates agree if they differ by less than one part in this number, which is 100 ppm.
const AGREE: u64 = 10_000;
/// The number of binary digits of a rate (nanoseconds per tick) after the point.
const RATE_BITS: u32 = 32;
/// The maximum rate of the counter that we accept: one nanosecond per tick.
const RATE_MAX: u64 = 1 << RATE_BITS;

thread_local! {
    static COUNTER: Counter = const { Counter::new() };
}

/// Returns the nanoseconds of the system's monotonic clock. The error is less than 1 µs, as long as
/// the system does not slew that clock by more than 500 ppm.
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
    // SAFETY: every x86_64 processor has this instruction.
    unsafe { std::arch::x86_64::_rdtsc() }
}

/// Returns whether the kernel uses the counter as its clock source. We check this only once. If the
/// kernel changes its clock source later, the spans do not agree.
fn is_trusted() -> bool {
    static TRUSTED: OnceLock<bool> = OnceLock::new();
    let path = "/sys/devices/system/clocksource/clocksource0/current_clocksource";
    *TRUSTED.get_or_init(|| {
        // We read once, with a short buffer, because an emulator may show a file without an end.
        let mut start = [0; 16];
        let read = File::open(path).and_then(|mut file| file.read(&mut start));
        read.is_ok_and(|len| start[..len].trim_ascii() == b"tsc")
    })
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

/// One moment, as ticks of the counter and as nanoseconds of the system's clock.
#[derive(Debug, Clone, Copy)]
struct Pair {
    ticks: u64,
    nanos: u64,
}

/// The state of the counter for one thread.
#[derive(Debug)]
struct Counter {
    anchor: Cell<Pair>,
    /// The number of ticks that may be counted from the anchor. It is zero unless the rates of
    /// the last two spans agree.
    reach: Cell<u64>,
    /// The nanoseconds per tick in the last span. It is zero before the end of the first span.
    rate: Cell<u64>,
    /// The last reading in nanoseconds. No later reading of this thread may be lower.
    last: Cell<u64>,
    /// The beginning of the span over which we are measuring the rate. Its nanoseconds are 0
    /// before the first span.
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

    /// Returns the time according to the ticks since the anchor. Returns `None` if there are too
    /// many ticks, or if there is no good rate.
    #[inline]
    fn count(&self, ticks: impl FnOnce() -> u64) -> Option<u64> {
        let reach = self.reach.get();
        if reach == 0 {
            return None;
        }
        let anchor = self.anchor.get();
        // If the counter is before the anchor, the difference wraps around and exceeds the limit.
        let since = ticks().wrapping_sub(anchor.ticks);
        let now = || anchor.nanos + ((since * self.rate.get()) >> RATE_BITS);
        (since < reach).then(|| self.note(now()))
    }

    /// Records a reading and returns it. Returns the previous reading if that is later.
    #[inline]
    fn note(&self, now: u64) -> u64 {
        let now = now.max(self.last.get());
        self.last.set(now);
        now
    }

    fn has_rate(&self) -> bool {
        self.reach.get() > 0
    }

    /// Returns whether the current span is long enough at `now`.
    fn ends_span(&self, now: u64) -> bool {
        now.saturating_sub(self.begin.get().nanos) >= SPAN_NANOS
    }

    /// Records a reading of the clock, which returned `now` between two readings of the counter. If
    /// these are close to each other, they become the new anchor.
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

    /// Readings that are this far apart, in nanoseconds, all read the system's clock.
    const APART: f64 = 1.5e6;
    /// This number of such readings ends three of the spans over which we measure the rate.
    const ENOUGH: usize = 24;

    /// A simulated machine, whose counter and clock the test controls.
    struct Machine {
        counter: Counter,
        ticks: u64,
        part: f64,
        nanos: f64,
        /// The nanoseconds per tick.
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

        /// Returns by how many nanoseconds a reading is off, and whether it was counted from an
        /// anchor. A reading of the clock takes `look` ticks.
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

        /// Returns whether the next reading is counted, if the one before it is an anchor.
        fn counts(&mut self) -> bool {
            self.look(1);
            self.pass(1e3);
            self.read(WINDOW_TICKS).1
        }
    }

    #[test]
    fn the_counter_is_used_as_soon_as_two_measured_rates_agree() {
        let mut machine = Machine::new();
        // The simulated counter has the value that it would have if it had started together with
        // the clock. Therefore the clock divided by the counter is the right rate, too.
        machine.ticks = (machine.nanos / machine.rate) as u64;
        machine.look(1);
        let first = (0..ENOUGH).find(|_| machine.counts());
        let spans = first.map(|n| n as f64 * APART / SPAN_NANOS as f64);
        assert!(spans.is_some_and(|spans| spans > 1.5), "{spans:?}");
    }

    #[test]
    fn the_error_stays_below_a_microsecond_while_the_rate_changes_by_500_ppm() {
        let mut machine = Machine::new();
        machine.look(ENOUGH);
        let (mut worst, mut counted) = (0.0_f64, 0);
        for step in 0..100_000_u64 {
            // The clock is slewed in one phase and not in the next. In each phase, readings first
            // follow each other closely, over several anchors, and then at long intervals.
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
            // The clock stops, and the counter continues or restarts at zero.
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
    fn the_time_differs_from_the_systems_clock_by_less_than_a_microsecond() {
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
    fn without_a_trusted_counter_the_time_is_that_of_the_systems_clock() {
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
