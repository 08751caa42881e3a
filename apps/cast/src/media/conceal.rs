//! Conceals missing samples. We repeat the last pitch period of the voice, and fade it out within
//! 60 ms.
//!
//! Source: the idea to conceal by repeating pitch periods comes from ITU-T G.711 appendix I.

/// Continues the voice while packets are missing.
#[derive(Debug)]
pub(super) struct Conceal {
    /// The last samples that were played.
    past: Vec<i16>,
    /// The pitch period in samples, while we conceal.
    period: usize,
    /// The position within the pitch period, while we conceal.
    at: usize,
    /// The number of concealed samples, or 0 while we do not conceal.
    filled: usize,
    fade: usize,
    lags: (usize, usize),
}

impl Conceal {
    /// Creates the state for `rate` samples per second.
    pub(super) fn new(rate: u32) -> Self {
        let ms = rate as usize / 1_000;
        Conceal {
            past: vec![0; 40 * ms],
            period: 0,
            at: 0,
            filled: 0,
            fade: 60 * ms,
            // We search for pitches from 66 to 400 Hz, which is the range of voices.
            lags: (rate as usize / 400, 15 * ms),
        }
    }

    /// Records the samples that are played. After a gap it blends them with the continued voice.
    pub(super) fn played(&mut self, samples: &mut [i16]) {
        if self.filled > 0 {
            let overlap = (self.lags.0).min(samples.len());
            for (n, sample) in samples[..overlap].iter_mut().enumerate() {
                let on = i32::from(self.next());
                let share = (n + 1) as i32;
                let all = overlap as i32 + 1;
                *sample = ((i32::from(*sample) * share + on * (all - share)) / all) as i16;
            }
            self.filled = 0;
        }
        let len = self.past.len();
        if samples.len() >= len {
            self.past.copy_from_slice(&samples[samples.len() - len..]);
        } else {
            self.past.copy_within(samples.len().., 0);
            self.past[len - samples.len()..].copy_from_slice(samples);
        }
    }

    /// Fills `samples` with the continued voice. Returns false if the voice had faded before, so
    /// that all samples are zero.
    pub(super) fn fill(&mut self, samples: &mut [i16]) -> bool {
        if self.filled == 0 {
            self.period = self.find_period();
            self.at = 0;
        }
        let was_heard = self.filled < self.fade;
        for sample in samples.iter_mut() {
            *sample = self.next();
        }
        was_heard
    }

    /// Makes the next samples blend with the continued voice, because samples were left out.
    pub(super) fn bridge(&mut self) {
        if self.filled == 0 {
            self.period = self.find_period();
            (self.at, self.filled) = (0, 1);
        }
    }

    /// Makes missing samples silent from now on, until samples are played again.
    pub(super) fn stop(&mut self) {
        if self.filled == 0 {
            self.period = self.lags.1;
            self.at = 0;
        }
        self.filled = self.filled.max(self.fade);
    }

    /// Returns the length of a whole number of pitch periods. It is at least `least` samples and at
    /// least 7.5 ms.
    pub(super) fn long_period(&self, least: usize) -> usize {
        let period = self.find_period();
        let most = self.lags.1;
        period * (most / period).max(least.div_ceil(period)).max(1)
    }

    fn next(&mut self) -> i16 {
        let left = self.fade.saturating_sub(self.filled);
        self.filled += 1;
        if left == 0 {
            return 0;
        }
        let sample = self.past[self.past.len() - self.period + self.at];
        self.at = (self.at + 1) % self.period;
        (i64::from(sample) * left as i64 / self.fade as i64) as i16
    }

    /// Finds the pitch period, which is the lag at which the last samples resemble those before
    /// them most.
    fn find_period(&self) -> usize {
        let (least, most) = self.lags;
        let window = self.past.len() - most;
        let tail = &self.past[most..];
        let likeness = |lag: usize| -> f32 {
            let before = &self.past[most - lag..][..window];
            let (mut both, mut power) = (0.0_f32, 1.0_f32);
            for (&a, &b) in tail.iter().zip(before).step_by(2) {
                both += f32::from(a) * f32::from(b);
                power += f32::from(b) * f32::from(b);
            }
            both / power.sqrt()
        };
        let lags = (least..=most).map(|lag| (lag, likeness(lag)));
        lags.fold(
            (most, f32::MIN),
            |best, lag| if lag.1 > best.1 { lag } else { best },
        )
        .0
    }
}
