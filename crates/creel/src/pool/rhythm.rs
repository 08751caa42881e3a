//! Predicts when the next loop will start, so that a worker can be awake by then.
//!
//! Waking a worker costs the caller a few microseconds, or about 25 if the CPU is a virtual one
//! that was halted. The worker is late by the same time. A program that runs a loop per frame pays
//! this in each frame. However, frames are regular. If loops have woken a worker several times in a
//! row at even distances, the worker sets an alarm for shortly before the next loop. It then spins
//! until the loop starts. If the loop does not start in time, the worker sleeps until it is woken,
//! as it would have without this module.
//!
//! One late frame does not end a rhythm that has lasted for some time. We expect the next frame one
//! period after the late one.
//!
//! The *lead* is how much earlier than the expected loop the alarm is set. In each period, a worker
//! spins for at most two leads, and a lead is at most an eighth of the period. After a miss, it
//! does not spin for the next loop before a loop has been called again.

/// Calls of loops that are closer to each other than this time, in ns, belong to one frame.
const PERIOD_MIN_NS: u64 = 500_000;
const PERIOD_MAX_NS: u64 = 100_000_000;
/// The *trust* says how regular the calls of loops are. If the distance between two calls is about
/// the period, the trust rises by one. Any other distance subtracts two if the trust is above
/// `TRUST_MIN`. Otherwise, and if the distance is longer than `PERIOD_MAX_NS`, the trust becomes 0
/// and the distance becomes the new period. A call that does not come in time also subtracts two.
/// There is a rhythm if the trust is at least `TRUST_MIN`.
const TRUST_MIN: u32 = 3;
const TRUST_MAX: u32 = 8;
/// The lead is how much earlier than the expected call the alarm is set. It should be longer than
/// the delay of an alarm, which can be 50 µs because of the kernel's timer slack alone. The worker
/// adapts the lead: an alarm that comes too late makes it longer, and a long spin makes it shorter.
const LEAD_FIRST_NS: u64 = 100_000;
const LEAD_MIN_NS: u64 = 20_000;
const LEAD_MAX_NS: u64 = 200_000;
/// The duration in ns for which the worker should spin between the alarm and the call of the loop.
const EARLY_NS: u64 = 25_000;

/// The rhythm in which loops wake a worker, as far as the worker has learned it.
#[derive(Debug)]
pub(crate) struct Rhythm {
    /// The time at which the first loop of the last frame was called.
    last_ns: u64,
    period_ns: u64,
    trust: u32,
    /// Whether the last loop that was expected has come.
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

    /// Records that a loop was called at `now`. The worker slept before it, and was still asleep if
    /// `asleep`.
    pub(crate) fn loop_began(&mut self, now: u64, asleep: bool) {
        let distance = now - self.last_ns;
        if distance < PERIOD_MIN_NS {
            return;
        }
        if asleep && self.alarm().is_some_and(|alarm| alarm < now) {
            // The alarm was set for an earlier time, but the worker still slept when the loop was
            // called. Therefore the lead was too short.
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

    /// Returns the time at which to wake up for the next loop. Returns `None` if the loops do not
    /// follow a rhythm, or if the last expected loop did not come.
    pub(crate) fn alarm(&self) -> Option<u64> {
        (self.in_step && self.trust >= TRUST_MIN)
            .then(|| self.last_ns + self.period_ns - self.lead())
    }

    /// Returns how long to spin for the next loop from now on. Returns `None` if the loops do not
    /// follow a rhythm, before the alarm, and when it is too late.
    pub(crate) fn due(&mut self, now: impl Fn() -> u64) -> Option<u64> {
        let alarm = self.alarm()?;
        let now = now();
        let left = (alarm + 2 * self.lead()).checked_sub(now);
        if left.is_none() {
            self.missed();
        }
        left.filter(|_| alarm <= now)
    }

    /// Records that the loop was called after a spin of `ns`.
    pub(crate) fn came_after(&mut self, ns: u64) {
        let lead = (self.lead_ns + EARLY_NS / 4).saturating_sub(ns / 4);
        self.lead_ns = lead.clamp(LEAD_MIN_NS, LEAD_MAX_NS);
    }

    /// Records that no loop was called in time.
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

    /// Returns a rhythm after `calls` calls at even distances, and the time of the last one.
    fn after(calls: u32, period: u64) -> (Rhythm, u64) {
        let mut rhythm = Rhythm::new();
        let mut now = 7_000_000;
        for _ in 0..calls {
            now += period;
            rhythm.loop_began(now, false);
        }
        (rhythm, now)
    }

    /// Returns a rhythm after the smallest number of calls that establishes one.
    fn found(period: u64) -> (Rhythm, u64) {
        after(TRUST_MIN + 2, period)
    }

    #[test]
    fn regular_calls_set_an_alarm_before_the_next_call() {
        let (rhythm, last) = found(16_666_000);
        let alarm = rhythm.alarm().expect("a rhythm");
        assert!(alarm < last + 16_666_000);
        assert!(alarm >= last + 16_666_000 - LEAD_MAX_NS);
    }

    #[test]
    fn a_second_call_within_a_frame_does_not_change_the_alarm() {
        let (mut rhythm, last) = found(2_000_000);
        let alarm = rhythm.alarm();
        rhythm.loop_began(last + PERIOD_MIN_NS / 2, true);
        assert_eq!(rhythm.alarm(), alarm);
    }

    #[test]
    fn irregular_and_rare_calls_set_no_alarm() {
        let (mut rhythm, last) = found(2_000_000);
        rhythm.loop_began(last + 3_000_000, true);
        assert_eq!(rhythm.alarm(), None);
        assert_eq!(found(2 * PERIOD_MAX_NS).0.alarm(), None);
    }

    #[test]
    fn a_missed_call_cancels_the_alarm() {
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
        rhythm.loop_began(late, true);
        let alarm = rhythm.alarm().expect("a rhythm");
        assert!(late < alarm && alarm < late + 2_000_000);
        (1..4).for_each(|late_again| rhythm.loop_began(late + late_again * 3_500_000, true));
        assert_eq!(rhythm.alarm(), None, "another rhythm");
    }

    #[test]
    fn an_alarm_that_comes_too_late_makes_the_lead_longer() {
        let (mut rhythm, last) = after(20, 16_000_000);
        let lead = rhythm.lead();
        rhythm.loop_began(last + 16_000_000 - lead / 2, false);
        assert_eq!(rhythm.lead(), lead, "it was awake");
        rhythm.loop_began(last + 2 * 16_000_000 - lead / 2, true);
        assert!(rhythm.lead() > lead);
    }

    #[test]
    fn the_lead_shrinks_after_long_spins_and_grows_after_short_spins() {
        let (mut rhythm, _) = found(16_000_000);
        let first = rhythm.alarm();
        rhythm.came_after(150_000);
        assert!(rhythm.alarm() > first);
        (0..20).for_each(|_| rhythm.came_after(0));
        assert!(rhythm.alarm() < first);
    }
}
