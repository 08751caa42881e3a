//! When the next loop is likely to be called, so that a worker can be awake by then.
//!
//! To wake a worker costs its waker a few microseconds, and some 25 where the CPU is a virtual
//! one that was halted; and then the worker is as late again. A frame loop pays that in each
//! frame. But frames are regular: a worker that was woken for a loop some times in a row at even
//! distances sets an alarm for the next one, a little early, and spins until it comes. If it does
//! not come in time, the worker sleeps until it is woken, as it would have without.
//!
//! One late frame does not end a rhythm that has lasted: the next is expected a period after it.
//!
//! The invariant: in a period, at most two leads are spun, and a lead is at most an eighth of it;
//! after one miss nothing is spun before a loop is called again.

/// Calls closer to each other than this belong to one frame.
const PERIOD_MIN_NS: u64 = 500_000;
const PERIOD_MAX_NS: u64 = 100_000_000;
/// An even distance adds one to the trust in a rhythm, any other takes two off; there is one from
/// the first number on.
const TRUST_MIN: u32 = 3;
const TRUST_MAX: u32 = 8;
/// How much earlier than the call a worker wants to be awake. Alarms are late, by the kernel's
/// slack of 50 µs and more.
const LEAD_FIRST_NS: u64 = 100_000;
const LEAD_MIN_NS: u64 = 20_000;
const LEAD_MAX_NS: u64 = 200_000;
/// What is left of the lead when the call comes, as it is aimed at.
const EARLY_NS: u64 = 25_000;

/// What a worker knows about the distances between the loops that it sleeps before.
#[derive(Debug)]
pub(crate) struct Rhythm {
    /// When the last frame's first loop was called.
    last_ns: u64,
    period_ns: u64,
    trust: u32,
    /// Whether the loop that was expected last has come.
    in_step: bool,
    lead_ns: u64,
}

impl Rhythm {
    pub(crate) fn new() -> Self {
        Self {
            last_ns: 0,
            period_ns: 0,
            trust: 0,
            in_step: true,
            lead_ns: LEAD_FIRST_NS,
        }
    }

    /// At `now`, a loop was called that the worker had slept before, and still did if `asleep`.
    pub(crate) fn called(&mut self, now: u64, asleep: bool) {
        let distance = now - self.last_ns;
        if distance < PERIOD_MIN_NS {
            return;
        }
        if asleep && self.alarm().is_some_and(|alarm| alarm < now) {
            // It should have been awake.
            self.lead_ns = (self.lead_ns + EARLY_NS).min(LEAD_MAX_NS);
        }
        (self.last_ns, self.in_step) = (now, true);
        let off = distance.abs_diff(self.period_ns);
        if distance > PERIOD_MAX_NS {
            (self.trust, self.period_ns) = (0, distance);
        } else if off <= (self.period_ns / 8).max(LEAD_MAX_NS) {
            self.trust = (self.trust + 1).min(TRUST_MAX);
            self.period_ns = (3 * self.period_ns + distance) / 4;
        } else if self.trust > TRUST_MIN {
            self.trust -= 2;
        } else {
            (self.trust, self.period_ns) = (0, distance);
        }
    }

    /// When to wake up for the next loop, if there is a rhythm.
    pub(crate) fn alarm(&self) -> Option<u64> {
        (self.in_step && self.trust >= TRUST_MIN)
            .then(|| self.last_ns + self.period_ns - self.lead())
    }

    /// How long to spin for the next loop from now on; none without a rhythm, before the alarm
    /// and when it is too late.
    pub(crate) fn due(&mut self, now: impl Fn() -> u64) -> Option<u64> {
        let alarm = self.alarm()?;
        let now = now();
        let left = (alarm + 2 * self.lead()).checked_sub(now);
        if left.is_none() {
            self.missed();
        }
        left.filter(|_| alarm <= now)
    }

    /// The loop was called after a spin of `ns`.
    pub(crate) fn came_after(&mut self, ns: u64) {
        let lead = (self.lead_ns + EARLY_NS / 4).saturating_sub(ns / 4);
        self.lead_ns = lead.clamp(LEAD_MIN_NS, LEAD_MAX_NS);
    }

    /// No loop was called in time.
    pub(crate) fn missed(&mut self) {
        self.in_step = false;
        self.trust = self.trust.saturating_sub(2);
    }

    fn lead(&self) -> u64 {
        self.lead_ns.min(self.period_ns / 8)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// So many calls at even distances.
    fn after(calls: u32, period: u64) -> (Rhythm, u64) {
        let mut rhythm = Rhythm::new();
        let mut now = 7_000_000;
        for _ in 0..calls {
            now += period;
            rhythm.called(now, false);
        }
        (rhythm, now)
    }

    /// As few as make a rhythm.
    fn found(period: u64) -> (Rhythm, u64) {
        after(TRUST_MIN + 2, period)
    }

    #[test]
    fn even_calls_set_an_alarm_before_the_next() {
        let (rhythm, last) = found(16_666_000);
        let alarm = rhythm.alarm().expect("a rhythm");
        assert!(alarm < last + 16_666_000);
        assert!(alarm >= last + 16_666_000 - LEAD_MAX_NS);
    }

    #[test]
    fn what_belongs_to_one_frame_is_not_a_period() {
        let (mut rhythm, last) = found(2_000_000);
        let alarm = rhythm.alarm();
        rhythm.called(last + PERIOD_MIN_NS / 2, true);
        assert_eq!(rhythm.alarm(), alarm);
    }

    #[test]
    fn uneven_and_rare_calls_set_none() {
        let (mut rhythm, last) = found(2_000_000);
        rhythm.called(last + 3_000_000, true);
        assert_eq!(rhythm.alarm(), None);
        assert_eq!(found(2 * PERIOD_MAX_NS).0.alarm(), None);
    }

    #[test]
    fn a_miss_ends_it() {
        let (mut rhythm, last) = found(2_000_000);
        assert_eq!(rhythm.due(|| last + 1_000_000), None, "too early");
        let alarm = rhythm.alarm().expect("a rhythm");
        let spin = rhythm.due(|| alarm).expect("it is time");
        assert!(spin <= 2_000_000 / 4, "a quarter of the period at most");
        assert_eq!(rhythm.due(|| last + 4_000_000), None, "too late");
        assert_eq!(rhythm.alarm(), None);
    }

    #[test]
    fn one_late_frame_does_not_end_a_long_rhythm() {
        let (mut rhythm, last) = after(20, 2_000_000);
        assert_eq!(rhythm.due(|| last + 3_000_000), None, "too late");
        assert_eq!(
            rhythm.alarm(),
            None,
            "nothing is expected before the next call"
        );
        let late = last + 3_500_000;
        rhythm.called(late, true);
        let alarm = rhythm.alarm().expect("a rhythm");
        assert!(late < alarm && alarm < late + 2_000_000);
        (1..4).for_each(|late_again| rhythm.called(late + late_again * 3_500_000, true));
        assert_eq!(rhythm.alarm(), None, "another rhythm");
    }

    #[test]
    fn who_slept_through_an_alarm_sets_the_next_earlier() {
        let (mut rhythm, last) = after(20, 16_000_000);
        let lead = rhythm.lead();
        rhythm.called(last + 16_000_000 - lead / 2, false);
        assert_eq!(rhythm.lead(), lead, "it was awake");
        rhythm.called(last + 2 * 16_000_000 - lead / 2, true);
        assert!(rhythm.lead() > lead);
    }

    #[test]
    fn the_lead_shrinks_while_the_worker_is_early_and_grows_while_late() {
        let (mut rhythm, _) = found(16_000_000);
        let first = rhythm.alarm();
        rhythm.came_after(150_000);
        assert!(rhythm.alarm() > first);
        (0..20).for_each(|_| rhythm.came_after(0));
        assert!(rhythm.alarm() < first);
    }
}
