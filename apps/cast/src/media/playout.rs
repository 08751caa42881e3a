//! An adaptive jitter buffer. Packets go in as they arrive, and samples come out at an even pace.
//!
//! Playback lags behind arrival by as much as the latest packets of the last seconds required. The
//! lag grows when a packet arrives too late, and shrinks after seconds in which every packet had
//! time to spare. We change the lag by playing slower or faster by one eightieth, which is hardly
//! audible. The same mechanism corrects the drift of the sender's clock against ours.
//!
//! After a stall, the packets that were held up arrive at once, and the lag is far too large. We
//! then play faster by removing pitch periods, which keeps the pitch, and discard what exceeds 200
//! ms. The lag is back within a second, whatever the length of the stall is and however often
//! stalls recur. If packets recur that are late by a few frames, we wait a little longer before we
//! do so, because the lag may still be necessary.
//!
//! The module `conceal` replaces missing samples, and `stretch` makes frames longer or shorter.
//!
//! Invariant: each call of [`Playout::play`] fills the whole frame, whatever has arrived.
//!
//! Left out: more than one channel.

use super::conceal::Conceal;
use super::stretch;
use std::collections::VecDeque;

/// The maximum number of packets that wait to be played.
const PACKETS_MAX: usize = 64;
/// The number of frames between two adaptations of the lag. It is two seconds if a frame lasts 20
/// ms.
const ADAPT_FRAMES: u32 = 100;
/// While the lag changes, a frame plays one sample in `STRETCH` more or fewer, by interpolation.
const STRETCH: usize = 80;
/// A packet that is more than this many frames away from the playback position restarts the buffer.
const RESTART_FRAMES: i64 = 50;

/// We begin to play faster, which the code calls *hurry*, if all packets had too much time to spare
/// in two consecutive windows. This is the length of a window in milliseconds. After recurring late
/// packets, the windows are longer.
const HURRY_WINDOW_MS: u32 = 100;
const RECURRING_WINDOW_MS: u32 = 150;
/// A late packet is forgotten after this time in milliseconds.
const FORGET_MS: u32 = 5_000;
/// A packet that is later than this in milliseconds was held up by a stall. No lag that we accept
/// would have helped it.
const JITTER_MAX_MS: u32 = 100;
/// The part of the lag that we remove by playing faster, in milliseconds. We discard the rest at
/// once.
const HURRY_MAX_MS: u32 = 200;

/// The samples of a packet, and the position of the first one.
#[derive(Debug)]
struct BufferedPacket {
    at: i64,
    samples: Vec<i16>,
}

/// Counters of what has happened to the packets.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct PlayoutStats {
    /// The number of packets that arrived after they should have been played.
    pub(crate) late: u64,
    /// The number of samples that were concealed, up to the end of the fade. We do not count the
    /// silence after it, because a sender that is silent sends nothing either.
    pub(crate) concealed: u64,
    /// The number of frames that were played slower or faster.
    pub(crate) stretched: u64,
    pub(crate) restarts: u64,
}

/// The jitter buffer of one stream.
#[derive(Debug)]
pub(crate) struct Playout {
    frame: usize,
    /// The number of samples per millisecond.
    ms: u32,
    packets: VecDeque<BufferedPacket>,
    spare: Vec<Vec<i16>>,
    /// The position of the sample to play next, or `None` before the first packet.
    next: Option<i64>,
    /// The extended timestamp of the packet that was inserted last.
    newest: i64,
    /// The smallest time to spare of the packets since the last adaptation, in samples.
    min_margin: i64,
    since_adapt: u32,
    /// The pending change of the lag in samples. A positive value makes the lag grow.
    pending_change: i64,
    /// The number of samples by which the lag must shrink quickly.
    hurry: i64,
    /// The smallest time to spare in the current window, and in the window before.
    margins: [i64; 2],
    since_window: u32,
    /// The number of recent times at which packets were late. We do not count a packet if the lag
    /// is already about to grow, or if the packet is late by more than [`JITTER_MAX_MS`].
    recurring: u32,
    /// The number of frames since `recurring` last counted a late packet or forgot one.
    since_late: u32,
    /// Whether the sender is silent on purpose, so that we must not conceal.
    is_silent: bool,
    conceal: Conceal,
    stats: PlayoutStats,
}

impl Playout {
    /// Creates a buffer for a stream of `rate` samples per second, played in frames of `frame`
    /// samples.
    pub(crate) fn new(rate: u32, frame: usize) -> Self {
        Playout {
            frame,
            ms: (rate / 1_000).max(1),
            packets: VecDeque::new(),
            spare: Vec::new(),
            next: None,
            newest: 0,
            min_margin: i64::MAX,
            since_adapt: 0,
            pending_change: 0,
            hurry: 0,
            margins: [i64::MAX; 2],
            since_window: 0,
            recurring: 0,
            since_late: 0,
            is_silent: false,
            conceal: Conceal::new(rate),
            stats: PlayoutStats::default(),
        }
    }

    /// Returns the counters.
    pub(crate) fn stats(&self) -> PlayoutStats {
        self.stats
    }

    /// Returns the number of samples between the newest one that has arrived and the playback
    /// position.
    #[cfg(test)]
    fn delay(&self) -> i64 {
        self.packets.back().map_or(0, |packet| {
            packet.at + packet.samples.len() as i64 - self.next.unwrap_or(packet.at)
        })
    }

    /// Returns an empty buffer for the samples of a packet. It reuses memory.
    pub(crate) fn spare_buffer(&mut self) -> Vec<i16> {
        let mut samples = self.spare.pop().unwrap_or_default();
        samples.clear();
        samples
    }

    /// Announces that the sender is silent from now on, until its next packet.
    pub(crate) fn set_silent(&mut self) {
        self.is_silent = true;
    }

    /// Inserts a packet. `timestamp` counts samples modulo 2³², and belongs to the first sample.
    pub(crate) fn insert(&mut self, timestamp: u32, samples: Vec<i16>) {
        self.is_silent = false;
        let mut at = self.newest + i64::from(timestamp.wrapping_sub(self.newest as u32) as i32);
        let restart_distance = RESTART_FRAMES * self.frame as i64;
        let next = match self.next {
            Some(next) if (at - next).abs() <= restart_distance => next,
            before => {
                self.stats.restarts += u64::from(before.is_some());
                self.packets.clear();
                self.hurry = 0;
                self.margins = [i64::MAX; 2];
                self.since_window = 0;
                at = i64::from(timestamp);
                // We begin with a lag of one frame.
                at - self.frame as i64
            }
        };
        self.next = Some(next);
        self.newest = at;
        let early = at - next;
        self.min_margin = self.min_margin.min(early);
        self.margins[0] = self.margins[0].min(early);
        if early < 0 {
            self.stats.late += 1;
            self.hurry = 0;
            if self.pending_change <= 0 && -early <= i64::from(JITTER_MAX_MS * self.ms) {
                self.recurring += 1;
                self.since_late = 0;
            }
            // The lag grows at once, by whole concealed frames, so that the next packet is in time.
            let frame = self.frame as i64;
            self.pending_change = self.pending_change.max((-early / frame + 1) * frame);
        }
        let index = self.packets.partition_point(|packet| packet.at < at);
        let is_there = self
            .packets
            .get(index)
            .is_some_and(|packet| packet.at == at);
        if is_there || at + samples.len() as i64 <= next {
            self.spare.push(samples);
            return;
        }
        self.packets.insert(index, BufferedPacket { at, samples });
        if self.packets.len() > PACKETS_MAX {
            // If too many packets wait, we drop the oldest one. To catch up, we would discard it
            // anyway.
            self.drop_front();
            let first = self.packets.front().map_or(next, |packet| packet.at);
            self.next = Some(next.max(first));
            self.conceal.bridge();
        }
    }

    /// Returns the number of frames in a time, at least one.
    fn frames(&self, ms: u32) -> u32 {
        (ms * self.ms / self.frame.max(1) as u32).max(1)
    }

    /// Plays the next frame. Returns false if the frame is silent because no packet has arrived
    /// yet, or none has arrived for a long time.
    pub(crate) fn play(&mut self, frame: &mut [i16]) -> bool {
        let Some(next) = self.next else {
            frame.fill(0);
            return false;
        };
        self.adapt();
        self.adapt_quickly();
        if self.hurry > 0 {
            return self.play_faster(next, frame);
        }
        let step = frame.len() / STRETCH;
        // If the lag has to grow by more than a frame, we conceal the whole frame, and so reach the
        // lag.
        if self.pending_change >= frame.len() as i64 {
            self.pending_change -= frame.len() as i64;
            return self.conceal_gap(frame);
        }
        let change = match self.pending_change {
            pending_change if pending_change >= step as i64 => -(step as i64),
            pending_change if pending_change <= -(step as i64) => step as i64,
            _ => 0,
        };
        let wanted = (frame.len() as i64 + change) as usize;
        if change == 0 {
            let is_audible = self.assemble(next, frame);
            self.next = Some(next + wanted as i64);
            return is_audible;
        }
        self.pending_change += change;
        self.stats.stretched += 1;
        let mut samples = self.spare_buffer();
        samples.resize(wanted, 0);
        let is_audible = self.assemble(next, &mut samples);
        self.next = Some(next + wanted as i64);
        stretch::resample(&samples, frame);
        self.spare.push(samples);
        is_audible
    }

    /// Adapts the lag to the packets of the last [`ADAPT_FRAMES`] frames.
    fn adapt(&mut self) {
        self.since_adapt += 1;
        if self.since_adapt < ADAPT_FRAMES {
            return;
        }
        self.since_adapt = 0;
        let least = std::mem::replace(&mut self.min_margin, i64::MAX);
        // We aim at one frame to spare. Half a frame less is too tight, for example because of a
        // sender with a slow clock. Half a frame more is more than we need.
        let (frame, spare) = (self.frame as i64, least.saturating_sub(self.frame as i64));
        if least != i64::MAX && spare.abs() > frame / 2 {
            self.pending_change = -spare;
        }
    }

    /// Begins to play faster (hurry) if all packets of the last two windows had far too much time
    /// to spare.
    fn adapt_quickly(&mut self) {
        self.since_late += 1;
        if self.since_late >= self.frames(FORGET_MS) {
            self.since_late = 0;
            self.recurring = self.recurring.saturating_sub(1);
        }
        self.since_window += 1;
        let window = match self.recurring {
            0 | 1 => HURRY_WINDOW_MS,
            _ => RECURRING_WINDOW_MS,
        };
        if self.since_window < self.frames(window) {
            return;
        }
        self.since_window = 0;
        let [now, before] = self.margins;
        let (least, frame) = (now.min(before), self.frame as i64);
        self.margins = [i64::MAX, now];
        if now != i64::MAX && before != i64::MAX && least > 2 * frame && self.hurry <= 0 {
            self.hurry = least - frame;
            self.pending_change = 0;
            self.min_margin = i64::MAX;
            self.since_adapt = 0;
        }
    }

    /// Plays a frame while the lag shrinks quickly. It removes whole pitch periods, so that the
    /// pitch stays the same.
    fn play_faster(&mut self, next: i64, frame: &mut [i16]) -> bool {
        let mut next = next;
        let most = i64::from(HURRY_MAX_MS * self.ms);
        if self.hurry > most {
            next += self.hurry - most;
            self.hurry = most;
            self.conceal.bridge();
        }
        let lag = self.conceal.long_period(self.frame / 2);
        let mut samples = self.spare_buffer();
        samples.resize(frame.len() + lag, 0);
        let is_audible = self.assemble(next, &mut samples);
        self.next = Some(next + samples.len() as i64);
        stretch::remove(&samples, lag, frame);
        self.spare.push(samples);
        self.stats.stretched += 1;
        self.hurry -= lag as i64;
        if self.hurry < lag as i64 {
            self.hurry = 0;
            // The times to spare that we have measured belong to the old lag, so we measure again.
            self.margins = [i64::MAX; 2];
            self.since_window = 0;
            self.min_margin = i64::MAX;
            self.since_adapt = 0;
        }
        is_audible
    }

    /// Collects samples from position `next` on, and conceals the missing ones.
    fn assemble(&mut self, next: i64, samples: &mut [i16]) -> bool {
        let (mut done, mut is_audible) = (0, true);
        while done < samples.len() {
            let at = next + done as i64;
            let Some(packet) = self.packets.front() else {
                is_audible = self.conceal_gap(&mut samples[done..]);
                break;
            };
            let end = packet.at + packet.samples.len() as i64;
            if end <= at {
                self.drop_front();
            } else if packet.at > at {
                let gap = ((packet.at - at) as usize).min(samples.len() - done);
                self.conceal_gap(&mut samples[done..done + gap]);
                done += gap;
            } else {
                let from = (at - packet.at) as usize;
                let run = (packet.samples.len() - from).min(samples.len() - done);
                let available = &packet.samples[from..from + run];
                samples[done..done + run].copy_from_slice(available);
                self.conceal.played(&mut samples[done..done + run]);
                done += run;
            }
        }
        while self.packets.front().is_some_and(|packet| {
            packet.at + packet.samples.len() as i64 <= next + samples.len() as i64
        }) {
            self.drop_front();
        }
        is_audible
    }

    fn conceal_gap(&mut self, samples: &mut [i16]) -> bool {
        if self.is_silent && self.packets.is_empty() {
            self.conceal.stop();
        }
        let is_voice = self.conceal.fill(samples);
        self.stats.concealed += u64::from(is_voice) * samples.len() as u64;
        is_voice
    }

    fn drop_front(&mut self) {
        if let Some(packet) = self.packets.pop_front()
            && self.spare.len() < PACKETS_MAX
        {
            self.spare.push(packet.samples);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::media::tone::{Shape, Tone};

    const FRAME: usize = 160;

    /// Inserts the `n`th packet of a 200 Hz tone. A packet has a whole number of its periods.
    fn packet(playout: &mut Playout, n: u32) {
        let mut samples = playout.spare_buffer();
        samples.resize(FRAME, 0);
        Tone::new(Shape::Sine, 200.0, 8_000).fill(&mut samples);
        playout.insert(n * FRAME as u32, samples);
    }

    fn energy(frame: &[i16]) -> f64 {
        frame
            .iter()
            .map(|&s| f64::from(s).powi(2))
            .sum::<f64>()
            .sqrt()
    }

    #[test]
    fn evenly_spaced_packets_are_played_unchanged() {
        let mut playout = Playout::new(8_000, FRAME);
        let mut tone = vec![0; FRAME];
        Tone::new(Shape::Sine, 200.0, 8_000).fill(&mut tone);
        let mut frame = [0; FRAME];
        assert!(!playout.play(&mut frame));
        for n in 0..500 {
            packet(&mut playout, n);
            playout.play(&mut frame);
            if n > 2 {
                assert_eq!(frame.as_slice(), tone, "frame {n}");
            }
        }
        assert_eq!(playout.stats().late, 0);
        assert!(playout.stats().concealed <= FRAME as u64);
    }

    #[test]
    fn a_lost_packet_is_concealed_by_the_last_pitch_period() {
        let mut playout = Playout::new(8_000, FRAME);
        let (mut frame, mut usual) = ([0; FRAME], 0.0);
        for n in 0..300 {
            if n != 50 && n < 90 {
                packet(&mut playout, n);
            }
            let is_audible = playout.play(&mut frame);
            match n {
                49 => usual = energy(&frame),
                // Because of the lag, the missing packet 50 shows one frame later.
                51 => assert!(energy(&frame) > 0.6 * usual, "{}", energy(&frame) / usual),
                95.. => assert!(!is_audible && energy(&frame) == 0.0),
                _ => {}
            }
        }
        // The silence after the voice has faded does not count as concealed.
        let concealed = playout.stats().concealed;
        assert!(concealed <= 7 * FRAME as u64, "{concealed} samples");
    }

    #[test]
    fn the_delay_grows_with_jitter_and_shrinks_without() {
        let mut playout = Playout::new(8_000, FRAME);
        let mut frame = [0; FRAME];
        let mut waiting = Vec::new();
        let mut lates = [0; 3];
        let mut delays = [0; 3];
        for n in 0..3_000 {
            let third = n as usize / 1_000;
            // In the second third, every tenth packet arrives three frames late.
            let due = if third == 1 && n % 10 == 0 { n + 3 } else { n };
            waiting.push((due, n));
            let (now, later): (Vec<_>, Vec<_>) = waiting.iter().partition(|(due, _)| *due <= n);
            waiting = later;
            now.into_iter().for_each(|(_, n)| packet(&mut playout, n));
            playout.play(&mut frame);
            lates[third] = playout.stats().late;
            delays[third] = playout.delay();
        }
        assert_eq!(lates[0], 0);
        // The buffer adapts after the first late packets.
        assert!(lates[1] < 10, "{lates:?}");
        assert!(delays[1] >= 3 * FRAME as i64, "{delays:?}");
        assert!(delays[2] <= 2 * FRAME as i64 + FRAME as i64, "{delays:?}");
        assert!(delays[2] < delays[1], "{delays:?}");
    }

    /// Plays a tone for 12 seconds, in which the packets of `stall` frames arrive at once every
    /// `apart` seconds. Returns the largest delay in milliseconds that remains a second after a
    /// stall.
    fn delay_after_stalls(frame: usize, hertz: f64, stall: u32, apart: u32) -> i64 {
        let mut playout = Playout::new(8_000, frame);
        let mut tone = Tone::new(Shape::Sine, hertz, 8_000);
        let (mut samples, mut sent, mut worst) = (vec![0; frame], 0, 0);
        let second = 8_000 / frame as u32;
        for n in 0..12 * second {
            let since = n % (apart * second);
            let is_stalled = n > second && since < stall;
            while !is_stalled && sent <= n {
                let mut packet = playout.spare_buffer();
                packet.resize(frame, 0);
                tone.fill(&mut packet);
                playout.insert(sent * frame as u32, packet);
                sent += 1;
            }
            playout.play(&mut samples);
            if since >= stall + second {
                worst = worst.max(playout.delay());
            }
        }
        worst / 8
    }

    #[test]
    fn the_delay_is_small_again_within_a_second_of_any_stall() {
        for frame in [80, 160, 240] {
            // Playout removes whole pitch periods. We take several pitches, so that the periods
            // differ in length.
            for hertz in [70.0, 131.0, 200.0] {
                for stall_ms in [60, 100, 200, 400, 700, 900, 1_200, 1_900] {
                    let stall = (stall_ms * 8 / frame) as u32;
                    let delay = delay_after_stalls(frame, hertz, stall, 3);
                    let what = format!("{frame} samples, {hertz} Hz, {stall_ms} ms");
                    assert!(delay <= 60, "{what}: the delay is still {delay} ms");
                }
            }
        }
    }

    #[test]
    fn playing_faster_keeps_the_pitch_and_the_level() {
        let mut playout = Playout::new(8_000, FRAME);
        let (mut frame, mut played) = ([0; FRAME], Vec::new());
        for n in 0..25 {
            packet(&mut playout, n);
        }
        for n in 25..100 {
            packet(&mut playout, n);
            playout.play(&mut frame);
            played.extend(frame);
        }
        assert!(playout.stats().stretched > 5);
        // The samples of a sine of 200 Hz at 8,000 Hz repeat after 40 samples.
        let wrong = played[FRAME * 2..].windows(41);
        let wrong = wrong.filter(|it| (i32::from(it[0]) - i32::from(it[40])).abs() > 2_000);
        let wrong = wrong.count();
        assert!(wrong < played.len() / 50, "{wrong} of {}", played.len());
    }

    #[test]
    fn announced_silence_is_not_concealed() {
        let mut playout = Playout::new(8_000, FRAME);
        let mut frame = [0; FRAME];
        for n in 0..10 {
            packet(&mut playout, n);
            playout.play(&mut frame);
        }
        let before = playout.stats().concealed;
        playout.set_silent();
        for _ in 0..10 {
            playout.play(&mut frame);
        }
        assert_eq!((playout.stats().concealed, frame), (before, [0; FRAME]));
    }

    #[test]
    fn playout_follows_a_fast_or_slow_clock_of_the_sender() {
        for ppm in [-500_i64, 500] {
            let mut playout = Playout::new(8_000, FRAME);
            let mut frame = [0; FRAME];
            let (mut sent, mut worst) = (0_u32, 0);
            // 30,000 frames are ten minutes.
            for n in 0..30_000_i64 {
                let due = n + n * ppm / 1_000_000;
                while i64::from(sent) <= due {
                    packet(&mut playout, sent);
                    sent += 1;
                }
                playout.play(&mut frame);
                worst = worst.max(playout.delay().abs());
            }
            let stats = playout.stats();
            assert!(stats.late < 10 && stats.restarts == 0, "{ppm}: {stats:?}");
            assert!(worst <= 5 * FRAME as i64, "{ppm}: {worst}");
            assert!(stats.concealed < 20 * FRAME as u64, "{ppm}: {stats:?}");
        }
    }

    #[test]
    fn random_packets_always_yield_whole_frames() {
        let mut random = crate::net::identity::Random::new(Some(7));
        let mut playout = Playout::new(8_000, FRAME);
        let mut frame = [0; FRAME];
        for _ in 0..20_000 {
            let number = random.next();
            let samples = vec![1; (number % 700) as usize];
            playout.insert(
                if number.is_multiple_of(50) {
                    (number >> 32) as u32
                } else {
                    (number >> 50) as u32
                },
                samples,
            );
            if !number.is_multiple_of(3) {
                playout.play(&mut frame);
            }
        }
    }
}
