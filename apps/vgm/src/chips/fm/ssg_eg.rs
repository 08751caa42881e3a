//! The SSG-EG of the OPN family: an operator's envelope that repeats as the
//! SSG's hardware envelope does.
//!
//! It acts in every frame in which the attenuation has passed half way, not
//! only at the envelope's ticks, and may restart the phase; there it is run
//! frame by frame.
//!
//! | mode | |
//! |---|---|
//! | 0, 4 | repeat |
//! | 1, 5 | once, then hold low |
//! | 2, 6 | repeat, every other time inverted |
//! | 3, 7 | once, then hold high |
//!
//! 4 to 7 start inverted.
//!
//! Source: the YM2608 application manual, section on SSG type envelopes; the
//! exact behaviour follows ymfm.

use super::envelope::{Envelope, Rates, Stage};
use super::tables::MAX_ATTENUATION;

/// Where the envelope turns round.
const MIDDLE: u16 = 0x200;

/// Register 90: the enable bit and the mode.
#[derive(Clone, Copy, Debug, Default)]
pub struct SsgEg(pub u8);

impl SsgEg {
    /// Whether the envelope repeats at all.
    pub fn is_on(self) -> bool {
        self.0 & 8 != 0
    }

    /// Whether a key on starts inverted.
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

/// The attenuation that an inverted envelope shows.
pub fn inverted(attenuation: u16) -> u16 {
    MIDDLE.wrapping_sub(attenuation) & MAX_ATTENUATION
}

/// Whether [`clock`] would do nothing.
pub fn is_idle(envelope: &Envelope) -> bool {
    envelope.attenuation & MIDDLE == 0
}

/// Whether the key was let go and the next frame is silent, as are all after it.
pub fn is_over(envelope: &Envelope) -> bool {
    envelope.stage == Stage::Release && !is_idle(envelope)
}

/// Whether all frames in which [`clock`] does something are alike, up to the next write.
pub fn is_steady(mode: SsgEg, envelope: &Envelope) -> bool {
    let held = mode.holds() && envelope.stage != Stage::Attack;
    !is_idle(envelope) && (envelope.stage == Stage::Release || held)
}

/// What the SSG-EG does in every frame, for one or, if it [`stands`], for more of them: returns
/// whether the phase restarts in each.
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

/// An envelope tick under SSG-EG: four times as fast, and only above the middle.
pub fn tick(rates: &Rates, envelope: &mut Envelope, count: u32) {
    envelope.advance_stage(rates);
    let moves = envelope.stage == Stage::Attack || envelope.attenuation < MIDDLE;
    if moves && envelope.ticks_to_step(rates, count) == Some(0) {
        envelope.step(rates, count, 4);
    }
}
