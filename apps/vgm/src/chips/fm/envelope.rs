//! The envelope generator of one operator, run from step to step.
//!
//! The hardware looks at every envelope at each of its ticks and most often
//! leaves it as it is: at rate r only each 2^(11 - r/4)th tick can move it.
//! [`Envelope::run`] computes that tick and jumps there.
//!
//! Left out on purpose: the SSG-EG of the OPN family, which acts between ticks
//! and touches the phase; it lives in `ssg_eg.rs` and uses the pieces here.
//!
//! Source: the YM2608 and YM2151 application manuals on envelopes; the order of
//! stage changes and the rounding follow ymfm (BSD-3-Clause, Aaron Giles).

use std::ops::Range;

use super::tables::{MAX_ATTENUATION, envelope_steps};

/// From this attenuation on a released operator counts as off.
pub const QUIET: u16 = 0x380;

/// Attack rates from here on start at full level and move no further.
const INSTANT_ATTACK: u8 = 62;

/// Where the depress stage of the OPLL hands over to the attack.
const DEPRESSED: u16 = 0x200;

/// The stages of an envelope, in the order of [`Rates::rate`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// OPLL alone: the old tone is damped before the attack.
    Depress,
    /// Towards attenuation 0.
    Attack,
    /// Towards the sustain level.
    Decay,
    /// From the sustain level on, as long as the key is held.
    Sustain,
    /// After the key.
    Release,
}

/// The rates of an operator with its key scaling applied.
#[derive(Clone, Copy, Debug, Default)]
pub struct Rates {
    /// The rate of each [`Stage`], 0 to 63.
    pub rate: [u8; 5],
    /// The attenuation at which decay becomes sustain.
    pub sustain_level: u16,
}

impl Rates {
    /// Sets the rates of OPM and OPN from an operator's registers of attack,
    /// decay, sustain and release (with the sustain level) and its key scaling.
    pub fn set(&mut self, key_scale: u8, [attack, decay, sustain, release]: [u8; 4]) {
        let five_bits = |reg: u8| scaled_rate((reg & 31) * 2, key_scale);
        self.rate = [
            0,
            five_bits(attack),
            five_bits(decay),
            five_bits(sustain),
            scaled_rate((release & 15) * 4 + 2, key_scale),
        ];
        self.sustain_level = sustain_level(release >> 4);
    }
}

/// The effective rate: 0 stays 0, anything else gets the key scaling and ends at 63.
pub fn scaled_rate(raw: u8, key_scale: u8) -> u8 {
    if raw == 0 {
        0
    } else {
        (raw + key_scale).min(63)
    }
}

/// The attenuation of a sustain level of 4 bits: 3 dB each, but 93 dB for the last.
pub fn sustain_level(level: u8) -> u16 {
    u16::from(if level == 15 { 31 } else { level }) << 5
}

/// The tick that all envelopes of a chip share.
#[derive(Clone, Copy, Debug)]
pub struct EnvelopeClock {
    /// Frames from one tick to the next: 3 on OPM and OPN, 1 on OPL.
    divider: u32,
    /// Frames before the frame that ticks.
    wait: u32,
    /// Ticks so far.
    count: u32,
}

impl EnvelopeClock {
    /// A clock that ticks first in frame `divider - 1`.
    pub fn new(divider: u32) -> Self {
        Self {
            divider,
            wait: divider - 1,
            count: 0,
        }
    }

    /// The frame of the next tick and how many ticks there will have been.
    pub fn next(&self) -> (usize, u32) {
        (self.wait as usize, self.count.wrapping_add(1))
    }

    /// Frames from one tick to the next.
    pub fn divider(&self) -> usize {
        self.divider as usize
    }

    /// Goes on by `frames`.
    pub fn advance(&mut self, frames: usize) {
        let frames = frames as u32;
        if frames > self.wait {
            let past = frames - self.wait - 1;
            self.count = self.count.wrapping_add(1 + past / self.divider);
            self.wait = self.divider - 1 - past % self.divider;
        } else {
            self.wait -= frames;
        }
    }
}

/// What becomes of the attenuation of some frames.
///
/// A closure would do, but that it is called at two places, so that the compiler makes a function of
/// it, without the vectors of the loop around it. Its `hold` is to be `#[inline(always)]`.
pub trait AttenuationSink {
    /// Takes the next stretch of frames and its attenuation.
    fn hold(&mut self, frames: Range<usize>, attenuation: u16);
}

/// Nothing becomes of it.
impl AttenuationSink for () {
    #[inline(always)]
    fn hold(&mut self, _: Range<usize>, _: u16) {}
}

/// An envelope: a stage and an attenuation of 10 bits, 0 being the loudest.
#[derive(Clone, Copy, Debug)]
pub struct Envelope {
    /// Where it stands.
    pub stage: Stage,
    /// 0 to 1023, in steps of 3/32 dB.
    pub attenuation: u16,
}

impl Default for Envelope {
    fn default() -> Self {
        Self {
            stage: Stage::Release,
            attenuation: MAX_ATTENUATION,
        }
    }
}

impl Envelope {
    /// Enters the attack; the fastest rates are there at once.
    pub fn attack(&mut self, rates: &Rates) {
        self.stage = Stage::Attack;
        if rates.rate[Stage::Attack as usize] >= INSTANT_ATTACK {
            self.attenuation = 0;
        }
    }

    /// Enters the depress stage, where the chip has one and the old tone is loud
    /// enough for it; returns whether.
    pub fn depress(&mut self, rates: &Rates) -> bool {
        let depresses = rates.rate[Stage::Depress as usize] != 0 && self.attenuation < DEPRESSED;
        if depresses {
            self.stage = Stage::Depress;
        }
        depresses
    }

    /// Whether it can be heard before its next key on.
    pub fn is_active(&self) -> bool {
        self.stage != Stage::Release || self.attenuation < QUIET
    }

    /// Whether it can only get quieter until the next write.
    pub fn is_monotonic(&self) -> bool {
        matches!(self.stage, Stage::Decay | Stage::Sustain | Stage::Release)
    }

    /// Runs `frames` frames and gives `levels` each stretch of them and its
    /// attenuation, in order and without gaps.
    ///
    /// Returns the frame at which an OPLL's depress stage gave way to the
    /// attack, before which the phase is to be set to 0.
    #[inline(always)]
    pub fn run(
        &mut self,
        rates: &Rates,
        clock: &EnvelopeClock,
        frames: usize,
        mut levels: impl AttenuationSink,
    ) -> Option<usize> {
        let (mut tick, mut count) = clock.next();
        let (mut start, mut attacked) = (0, None);
        while tick < frames {
            self.advance_stage(rates);
            let Some(wait) = self.ticks_to_step(rates, count) else {
                break;
            };
            count = count.wrapping_add(wait);
            let pace = StepPattern::of(rates.rate[self.stage as usize]);
            let period = clock.divider() << pace.shift;
            let mut index = count >> pace.shift;
            let mut next = tick + wait as usize * clock.divider();
            // All steps of one stage, which come at even distances.
            let attacks = self.stage == Stage::Attack;
            let until = match self.stage {
                Stage::Depress => DEPRESSED,
                Stage::Decay => rates.sustain_level,
                _ => MAX_ATTENUATION,
            };
            let mut level = self.attenuation;
            while next < frames {
                let amount = pace.amount(index);
                index = index.wrapping_add(1);
                if amount != 0 {
                    levels.hold(start..next, level);
                    (start, tick) = (next, next);
                    let ends;
                    (level, ends) = if attacks {
                        let level = attack_step(level, amount);
                        (level, level == 0)
                    } else {
                        let level = (level + amount).min(MAX_ATTENUATION);
                        (level, level >= until)
                    };
                    if ends {
                        break;
                    }
                }
                next += period;
            }
            self.attenuation = level;
            if next >= frames {
                break;
            }
            if self.stage == Stage::Depress {
                self.attack(rates);
                attacked = Some(tick);
            }
            tick += clock.divider();
            // The tick behind that of the step.
            count = (index.wrapping_sub(1) << pace.shift).wrapping_add(1);
        }
        levels.hold(start..frames, self.attenuation);
        attacked
    }

    /// The stage changes that a tick makes before it moves the attenuation.
    pub fn advance_stage(&mut self, rates: &Rates) {
        if self.stage == Stage::Attack && self.attenuation == 0 {
            self.stage = Stage::Decay;
        }
        if self.stage == Stage::Decay && self.attenuation >= rates.sustain_level {
            self.stage = Stage::Sustain;
        }
    }

    /// Ticks from `count` to the next that moves the attenuation, if any does.
    pub fn ticks_to_step(&self, rates: &Rates, count: u32) -> Option<u32> {
        let rate = rates.rate[self.stage as usize];
        let stands = match self.stage {
            Stage::Attack => rate >= INSTANT_ATTACK,
            _ => self.attenuation == MAX_ATTENUATION && self.stage != Stage::Depress,
        };
        if stands || rate < 2 {
            return None;
        }
        let mask = (1u32 << StepPattern::of(rate).shift) - 1;
        Some(count.wrapping_neg() & mask)
    }

    /// The step of a tick that moves the attenuation; `factor` scales all but the attack.
    pub fn step(&mut self, rates: &Rates, count: u32, factor: u16) {
        let pace = StepPattern::of(rates.rate[self.stage as usize]);
        let amount = pace.amount(count >> pace.shift);
        self.shift(match self.stage {
            Stage::Attack => amount,
            _ => factor * amount,
        });
    }

    fn shift(&mut self, amount: u16) {
        self.attenuation = if self.stage == Stage::Attack {
            attack_step(self.attenuation, amount)
        } else {
            (self.attenuation + amount).min(MAX_ATTENUATION)
        };
    }
}

/// The attenuation after a step of the attack.
fn attack_step(attenuation: u16, amount: u16) -> u16 {
    let level = i32::from(attenuation);
    (level + ((!level * i32::from(amount)) >> 4)) as u16
}

/// How often and how far a rate moves the attenuation.
#[derive(Clone, Copy)]
struct StepPattern {
    /// Each 2^shift-th tick may move it,
    shift: u32,
    /// by one of eight amounts in turn, a nibble each, the first in the lowest.
    amounts: u32,
}

impl StepPattern {
    fn of(rate: u8) -> Self {
        Self {
            shift: 11 - u32::from(rate >> 2).min(11),
            amounts: envelope_steps(rate),
        }
    }

    /// The amount of the tick whose count, shifted, is `index`.
    fn amount(self, index: u32) -> u16 {
        (self.amounts >> (4 * (index & 7)) & 15) as u16
    }
}
