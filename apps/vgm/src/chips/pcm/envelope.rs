//! The envelopes of Yamaha's sample chips (MultiPCM, YMF278B, SCSP). Levels are attenuations of 96
//! dB in 1024 steps.
//!
//! A rate of 4 to 63 causes a step every 2^(12 − rate/4) frames, or in each frame from rate 48 on.
//! Lower rates cause no steps. The low two bits of the rate select a pattern for eight successive
//! steps. An attack moves a sixteenth of the remaining distance per step.
//!
//! Source: Yamaha YMF278B (OPL4) application manual, "Wave table synthesis"; Sega Saturn SCSP
//! User's Manual.

/// The attenuation of silence, in steps.
pub const SILENT: i32 = 0x3FF;
/// Three decibels, in steps.
pub const THREE_DB: i32 = 32;

/// The pattern of eight successive steps, by the low two bits of a rate.
const PATTERNS: [[i32; 8]; 4] = [
    [0, 1, 0, 1, 0, 1, 0, 1],
    [0, 1, 0, 1, 1, 1, 0, 1],
    [0, 1, 1, 1, 0, 1, 1, 1],
    [0, 1, 1, 1, 1, 1, 1, 1],
];

/// The stage of an envelope.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Stage {
    Attack,
    Decay1,
    Decay2,
    Release,
    #[default]
    Off,
}

/// An envelope.
#[derive(Clone, Copy, Debug, Default)]
pub struct Envelope {
    pub stage: Stage,
    /// The attenuation in steps.
    pub attenuation: i32,
}

impl Envelope {
    /// Starts an attack at an attenuation. If `at_once` is set, the attack is completed
    /// immediately.
    pub fn press(&mut self, from: i32, at_once: bool) {
        (self.stage, self.attenuation) = match at_once {
            true => (Stage::Decay1, 0),
            false => (Stage::Attack, from),
        };
    }

    /// Enters the release.
    pub fn release(&mut self) {
        if self.stage != Stage::Off {
            self.stage = Stage::Release;
        }
    }

    /// Returns whether the envelope is audible.
    #[inline]
    pub fn is_audible(&self) -> bool {
        self.stage != Stage::Off
    }

    /// Begins decay 2 if decay 1 has reached the attenuation `sustained`. The rate of decay 1 may be
    /// 0, so this does not wait for its next step.
    #[inline]
    pub fn settle(&mut self, sustained: i32) {
        if self.stage == Stage::Decay1 && self.attenuation >= sustained {
            self.stage = Stage::Decay2;
        }
    }

    /// Advances at frame `clock` with a rate of 0 to 63. Decay 2 begins at the attenuation
    /// `sustained`.
    #[inline]
    pub fn advance(&mut self, rate: u32, clock: u32, sustained: i32) {
        let step = envelope_step(rate, clock);
        if step == 0 {
            return;
        }
        if self.stage == Stage::Attack {
            self.attenuation += (!self.attenuation * step) >> 4;
            if self.attenuation <= 0 {
                (self.stage, self.attenuation) = (Stage::Decay1, 0);
                self.settle(sustained);
            }
            return;
        }
        self.attenuation += step;
        self.settle(sustained);
        if self.attenuation >= SILENT {
            (self.stage, self.attenuation) = (Stage::Off, SILENT);
        }
    }
}

/// Returns the number of steps that an envelope with a rate of 0 to 63 moves at frame `clock`.
#[inline]
fn envelope_step(rate: u32, clock: u32) -> i32 {
    let shift = 12u32.saturating_sub(rate >> 2);
    if rate < 4 || clock & ((1 << shift) - 1) != 0 {
        return 0;
    }
    if rate >= 60 {
        return 8;
    }
    let count = PATTERNS[(rate & 3) as usize][(clock >> shift & 7) as usize];
    match (rate >> 2).saturating_sub(12) {
        0 => count,
        faster => (count + 1) << (faster - 1),
    }
}

/// Returns the bits of the clock that are all 0 at frames in which an envelope with this rate can
/// move.
#[inline]
pub fn envelope_mask(rate: u32) -> u32 {
    if rate < 4 {
        u32::MAX
    } else {
        (1 << 12u32.saturating_sub(rate >> 2)) - 1
    }
}

/// The linear volumes of 64 steps, which are 6 dB. 32768 is full volume.
#[derive(Clone, Debug)]
pub struct Volumes([i32; 64]);

impl Volumes {
    /// Creates the table.
    pub fn new() -> Self {
        Self(std::array::from_fn(|step| {
            (32_768.0 * libm::exp2(-(step as f64) / 64.0)).round() as i32
        }))
    }

    /// Returns the volume of an attenuation in steps.
    #[inline]
    pub fn of(&self, steps: i32) -> i32 {
        if steps >= SILENT {
            return 0;
        }
        self.0[(steps & 63) as usize] >> (steps >> 6)
    }
}
