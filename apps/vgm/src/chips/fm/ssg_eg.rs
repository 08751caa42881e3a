//! The SSG-EG of the OPN family: an envelope of an operator that repeats like the hardware envelope
//! of the SSG.
//!
//! It acts in every frame in which the attenuation has passed the middle, and not only at the ticks
//! of the envelope. It can also restart the phase. We therefore compute these frames one by one.
//!
//! | mode | |
//! |---|---|
//! | 0, 4 | repeat |
//! | 1, 7 | once, then stay silent |
//! | 2, 6 | repeat, every other time inverted |
//! | 3, 5 | once, then stay loud |
//!
//! Modes 4 to 7 start inverted.
//!
//! Source: the YM2608 application manual, section on SSG type envelopes; the exact behaviour
//! follows ymfm.

use super::envelope::{Envelope, Rates, Stage};
use super::tables::MAX_ATTENUATION;

/// The attenuation at which the envelope turns around.
const MIDDLE: u16 = 0x200;

/// Register 90: the enable bit and the mode.
#[derive(Clone, Copy, Debug, Default)]
pub struct SsgEg(pub u8);

impl SsgEg {
    /// Returns whether the SSG-EG is enabled.
    pub fn is_on(self) -> bool {
        self.0 & 8 != 0
    }

    /// Returns whether the envelope starts inverted at a key-on.
    pub fn starts_inverted(self) -> bool {
        self.0 & 0xc == 0xc
    }

    fn holds(self) -> bool {
        self.0 & 1 != 0
    }

    fn alternates(self) -> bool {
        self.0 & 2 != 0
    }

    fn holds_inverted(self) -> bool {
        (self.0 >> 2 ^ self.0 >> 1) & 1 != 0
    }
}

/// Returns the attenuation of an inverted envelope.
pub fn inverted(attenuation: u16) -> u16 {
    MIDDLE.wrapping_sub(attenuation) & MAX_ATTENUATION
}

/// Returns whether [`clock`] would do nothing.
pub fn is_idle(envelope: &Envelope) -> bool {
    envelope.attenuation & MIDDLE == 0
}

/// Returns whether the key was released and all frames from the next one on are silent.
pub fn is_over(envelope: &Envelope) -> bool {
    envelope.stage == Stage::Release && !is_idle(envelope)
}

/// Returns whether [`clock`] acts in the same way in all frames until the next write.
pub fn is_steady(mode: SsgEg, envelope: &Envelope) -> bool {
    let held = mode.holds() && envelope.stage != Stage::Attack;
    !is_idle(envelope) && (envelope.stage == Stage::Release || held)
}

/// Executes the SSG-EG for one frame, or for several frames if it [is steady](is_steady).
///
/// Returns whether the phase restarts in each of these frames.
pub fn clock(
    mode: SsgEg,
    rates: &Rates,
    envelope: &mut Envelope,
    inverted: &mut bool,
    frames: usize,
) -> bool {
    if is_idle(envelope) {
        return false;
    }
    let mut restart = false;
    if mode.holds() {
        *inverted = mode.holds_inverted();
        if envelope.stage != Stage::Attack {
            envelope.attenuation = if *inverted { MIDDLE } else { MAX_ATTENUATION };
        }
    } else {
        *inverted ^= mode.alternates() && frames % 2 == 1;
        if matches!(envelope.stage, Stage::Decay | Stage::Sustain) {
            envelope.attack(rates);
        }
        restart = !mode.alternates();
    }
    if envelope.stage == Stage::Release {
        envelope.attenuation = MAX_ATTENUATION;
    }
    restart
}

/// Executes a tick of the envelope with SSG-EG. The steps are four times as large, and the
/// attenuation only increases up to the middle.
pub fn tick(rates: &Rates, envelope: &mut Envelope, count: u32) {
    envelope.advance_stage(rates);
    let moves = envelope.stage == Stage::Attack || envelope.attenuation < MIDDLE;
    if moves && envelope.ticks_to_step(rates, count) == Some(0) {
        envelope.step(rates, count, 4);
    }
}
