//! The envelope generator of one operator, which we run from step to step.
//!
//! The hardware processes every envelope at each of its ticks, and most of the time nothing
//! changes. At a rate r below 44, only every 2^(11 - r/4)th tick can change it. [`Envelope::run`]
//! computes the next such tick and jumps there.
//!
//! We leave out the SSG-EG of the OPN family on purpose, because it acts between ticks and changes
//! the phase. It is in `ssg_eg.rs` and uses the functions of this module.
//!
//! Source: the YM2608 and YM2151 application manuals on envelopes; the order of stage changes and
//! the rounding follow ymfm (BSD-3-Clause, Aaron Giles).

use std::ops::Range;

use super::tables::{MAX_ATTENUATION, envelope_steps};

/// The attenuation from which a released operator counts as off.
pub const QUIET: u16 = 0x380;

/// The attack rate from which a note starts at full level immediately.
const INSTANT_ATTACK: u8 = 62;

/// The attenuation at which the depress stage of the OPLL ends and the attack begins.
const DEPRESSED: u16 = 0x200;

/// The stages of an envelope, in the order of [`Rates::rate`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// Damps the old tone before the attack. Only the OPLL has this stage.
    Depress,
    /// Moves to attenuation 0.
    Attack,
    /// Moves to the sustain level.
    Decay,
    /// Follows the decay while the key is pressed.
    Sustain,
    /// Follows the release of the key.
    Release,
}

/// The rates of an operator, with key scaling applied.
#[derive(Clone, Copy, Debug, Default)]
pub struct Rates {
    /// The rate of each [`Stage`], 0 to 63.
    pub rate: [u8; 5],
    /// The attenuation at which the decay ends and the sustain begins.
    pub sustain_level: u16,
}

impl Rates {
    /// Sets the rates of an OPM or OPN operator.
    ///
    /// The parameters are its key scaling and its registers for attack, decay, sustain and release
    /// (with the sustain level).
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

/// Returns the effective rate. A rate of 0 stays 0. To other rates we add the key scaling, up to
/// 63.
pub fn scaled_rate(raw: u8, key_scale: u8) -> u8 {
    if raw == 0 {
        0
    } else {
        (raw + key_scale).min(63)
    }
}

/// Returns the attenuation of a sustain level of 4 bits, in steps of 3 dB. The last level is 93 dB.
pub fn sustain_level(level: u8) -> u16 {
    u16::from(if level == 15 { 31 } else { level }) << 5
}

/// The clock that all envelopes of a chip share.
#[derive(Clone, Copy, Debug)]
pub struct EnvelopeClock {
    /// The number of frames per tick: 3 on OPM and OPN, 1 on OPL.
    divider: u32,
    /// The number of frames before the frame with the next tick.
    wait: u32,
    /// The number of ticks so far.
    count: u32,
}

impl EnvelopeClock {
    /// Creates a clock whose first tick is in frame `divider - 1`.
    pub fn new(divider: u32) -> Self {
        Self {
            divider,
            wait: divider - 1,
            count: 0,
        }
    }

    /// Returns the frame of the next tick, and the number of ticks including that one.
    pub fn next(&self) -> (usize, u32) {
        (self.wait as usize, self.count.wrapping_add(1))
    }

    /// Returns the number of frames per tick.
    pub fn divider(&self) -> usize {
        self.divider as usize
    }

    /// Advances the clock by `frames`.
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

/// A receiver of the attenuation of ranges of frames.
///
/// This is a trait and not a closure, because [`Envelope::run`] calls it at two places. The
/// compiler would make a closure a separate function, and that function would lose the vector
/// instructions of the loop around it. Mark `hold` as `#[inline(always)]`.
pub trait AttenuationSink {
    /// Receives the next range of frames and its attenuation.
    fn hold(&mut self, frames: Range<usize>, attenuation: u16);
}

/// Ignores the attenuation. It is for operators that only advance.
impl AttenuationSink for () {
    #[inline(always)]
    fn hold(&mut self, _: Range<usize>, _: u16) {}
}

/// An envelope: a stage and an attenuation of 10 bits. 0 is the loudest.
#[derive(Clone, Copy, Debug)]
pub struct Envelope {
    /// The current stage.
    pub stage: Stage,
    /// The attenuation, 0 to 1023, in steps of 3/32 dB.
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
    /// Enters the attack. The fastest rates complete it immediately.
    pub fn attack(&mut self, rates: &Rates) {
        self.stage = Stage::Attack;
        if rates.rate[Stage::Attack as usize] >= INSTANT_ATTACK {
            self.attenuation = 0;
        }
    }

    /// Enters the depress stage and returns true, if the chip has this stage and the old tone is
    /// loud enough.
    pub fn depress(&mut self, rates: &Rates) -> bool {
        let depresses = rates.rate[Stage::Depress as usize] != 0 && self.attenuation < DEPRESSED;
        if depresses {
            self.stage = Stage::Depress;
        }
        depresses
    }

    /// Returns whether the operator can be audible before its next key-on.
    pub fn is_active(&self) -> bool {
        self.stage != Stage::Release || self.attenuation < QUIET
    }

    /// Returns whether the attenuation can only increase until the next write.
    pub fn is_monotonic(&self) -> bool {
        matches!(self.stage, Stage::Decay | Stage::Sustain | Stage::Release)
    }

    /// Runs `frames` frames and passes each range of them and its attenuation to `levels`, in order
    /// and without gaps.
    ///
    /// Returns the frame at which an OPLL's depress stage ended and its attack began. You must set
    /// the phase to 0 before this frame.
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
            // This loop runs all steps of one stage. They are equally far apart in time.
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
            // The tick after that of the last step.
            count = (index.wrapping_sub(1) << pace.shift).wrapping_add(1);
        }
        levels.hold(start..frames, self.attenuation);
        attacked
    }

    /// Makes the stage changes of a tick, which precede the change of the attenuation.
    pub fn advance_stage(&mut self, rates: &Rates) {
        if self.stage == Stage::Attack && self.attenuation == 0 {
            self.stage = Stage::Decay;
        }
        if self.stage == Stage::Decay && self.attenuation >= rates.sustain_level {
            self.stage = Stage::Sustain;
        }
    }

    /// Returns the number of ticks from `count` to the next one that changes the attenuation, if
    /// there is one.
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

    /// Makes the step of a tick that changes the attenuation. `factor` scales all stages except the
    /// attack.
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

/// Returns the attenuation after a step of the attack.
fn attack_step(attenuation: u16, amount: u16) -> u16 {
    let level = i32::from(attenuation);
    (level + ((!level * i32::from(amount)) >> 4)) as u16
}

/// The frequency and the size of the steps at a rate.
#[derive(Clone, Copy)]
struct StepPattern {
    /// Every 2^shift-th tick can change the attenuation.
    shift: u32,
    /// The sizes of eight successive steps, as nibbles. The first one is the lowest nibble.
    amounts: u32,
}

impl StepPattern {
    fn of(rate: u8) -> Self {
        Self {
            shift: 11 - u32::from(rate >> 2).min(11),
            amounts: envelope_steps(rate),
        }
    }

    /// Returns the size of the step at the tick whose shifted count is `index`.
    fn amount(self, index: u32) -> u16 {
        (self.amounts >> (4 * (index & 7)) & 15) as u16
    }
}
