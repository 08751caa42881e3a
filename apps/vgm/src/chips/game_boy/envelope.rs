//! The length counter and the volume envelope of the Game Boy's channels.

/// A counter that ends a note after a given number of 256ths of a second, if the song uses the
/// counter.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Length {
    pub(super) used: bool,
    pub(super) left: u16,
}

impl Length {
    /// Counts down and returns whether the note ends.
    pub(super) fn clock(&mut self) -> bool {
        if !self.used || self.left == 0 {
            return false;
        }
        self.left -= 1;
        self.left == 0
    }

    pub(super) fn start(&mut self, whole: u16) {
        if self.left == 0 {
            self.left = whole;
        }
    }
}

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Envelope {
    pub(super) written: u8,
    pub(super) level: u8,
    pub(super) left: u8,
    /// Whether the envelope still changes the level.
    pub(super) moves: bool,
}

impl Envelope {
    pub(super) fn has_dac(&self) -> bool {
        self.written & 0xF8 != 0
    }

    pub(super) fn start(&mut self) {
        self.level = self.written >> 4;
        self.left = self.period();
        self.moves = true;
    }

    /// Returns the period. The divider treats 0 as 8.
    pub(super) fn period(&self) -> u8 {
        match self.written & 7 {
            0 => 8,
            period => period,
        }
    }

    pub(super) fn write(&mut self, value: u8, plays: bool) {
        if plays {
            // A write changes the volume of a playing note, even if the note does not restart.
            // Drivers use this to set the volume.
            if self.written & 7 == 0 && self.moves {
                self.level += 1;
            } else if self.written & 8 == 0 {
                self.level += 2;
            }
            if (self.written ^ value) & 8 != 0 {
                self.level = 16u8.wrapping_sub(self.level);
            }
            self.level &= 15;
        }
        self.written = value;
    }

    pub(super) fn clock(&mut self) {
        self.left = self.left.saturating_sub(1);
        if self.left > 0 {
            return;
        }
        self.left = self.period();
        if self.written & 7 == 0 || !self.moves {
            return;
        }
        match (self.written & 8 != 0, self.level) {
            (true, 0..=14) => self.level += 1,
            (false, 1..=15) => self.level -= 1,
            _ => self.moves = false,
        }
    }
}
