//! The bus to a chip: delays writes, so that the chip sees each change of a key.
//!
//! An FM chip reads its keys once per frame, and it is busy with a write for about the same time.
//! No driver can therefore write two registers in one frame. The time of a song is coarser. If a
//! key is released and pressed again at the same tick, the chip would see one state only, and the
//! note would be lost. Therefore each write occupies the bus for a frame.
//!
//! The exact frame matters only for changes of keys. Settings between two changes of keys take
//! effect together, in the frame of the first of them, if they are due by then. Otherwise a burst
//! of settings would split the chip's blocks into single frames.
//!
//! Invariant: the frame of a write depends only on the writes before it. Frames never decrease. A
//! write takes effect in the frame in which it is due or at most [`DELAY_MAX`] frames later. If a
//! song writes faster than any bus, its writes have this delay, and the delay does not grow.
//!
//! We leave out two details on purpose:
//!
//! - Waiting times are always one frame, although those of real chips differ a little.
//! - Bytes that a CPU stores in the memory of a chip do not occupy frames, because a song has very
//!   many of them at once.
//!
//! Source: the application manuals' waiting times after a write (YM2151: 64 clocks, a frame; YM3812
//! and YM2413: 12 and 84, 1.3 frames). The renderer of ymfm also queues one write per frame.

use crate::format::ChipId;

/// The largest delay of a write in native frames, which is 16 to 21 ms at the usual clocks.
const DELAY_MAX: u64 = 1024;

/// The delay up to which a setting occupies its own frame. The rest of the delay is reserved for
/// changes of keys, so that no note is lost in a burst of settings.
const SETTING_DELAY_MAX: u64 = DELAY_MAX / 2;

/// The bus to one chip.
///
/// ```
/// use creel_vgm::chips::bus::Bus;
/// use creel_vgm::format::ChipId;
///
/// let mut bus = Bus::of(ChipId::Ym2151).expect("the chip has keys");
/// let press = |bus: &mut Bus, keys: u8| bus.write_frame(10, (0, 0x08, keys << 3));
/// assert_eq!([press(&mut bus, 1), press(&mut bus, 0), press(&mut bus, 1)], [10, 11, 12]);
/// // Two settings occupy two frames, but take effect together.
/// let set = |bus: &mut Bus, reg| bus.write_frame(10, (0, reg, 0));
/// assert_eq!([set(&mut bus, 0x60), set(&mut bus, 0x68)], [13, 13]);
/// assert_eq!(press(&mut bus, 0), 15);
/// ```
#[derive(Debug, Clone)]
pub struct Bus {
    chip: ChipId,
    family: Family,
    /// The last written state of each key, indexed by the place that [`Family::key`] returns.
    keys: [u8; PLACES],
    /// The first frame that is not occupied by a write.
    next_free_frame: u64,
    /// The frame in which the last write took effect.
    last: u64,
    /// The frame in which the settings since the last change of a key take effect.
    settings: Option<u64>,
}

/// Chips whose keys have the same register layout.
#[derive(Debug, Clone, Copy)]
enum Family {
    /// Register 08: operators in bits 3 to 6, channel in bits 0 to 2.
    Opm,
    /// Register 28: operators in bits 4 to 7, channel in bits 0 to 2.
    Opn,
    /// Registers B0 to B8, bit 5, and the keys of rhythm mode in BD.
    Opl,
    /// Registers 20 to 28, bit 4, and the keys of rhythm mode in 0E.
    Opll,
}

/// The number of places for keys, 16 per port.
const PLACES: usize = 32;
/// The place of the keys of rhythm mode.
const RHYTHM: usize = 15;

impl Family {
    /// Returns the place and the new state of the key that a write sets, or `None` if it is a
    /// setting.
    fn key(self, (port, reg, value): (u8, u8, u8)) -> Option<(usize, u8)> {
        let half = usize::from(port & 1) * 16;
        let channel = usize::from(reg & 15);
        match (self, reg) {
            (Family::Opm, 0x08) => Some((usize::from(value & 7), value >> 3 & 15)),
            (Family::Opn, 0x28) if port == 0 => Some((usize::from(value & 7), value >> 4)),
            (Family::Opl, 0xB0..=0xB8) => Some((half + channel, value >> 5 & 1)),
            (Family::Opl, 0xBD) if port == 0 => Some((RHYTHM, value & 0x3F)),
            (Family::Opll, 0x20..=0x28) => Some((channel, value >> 4 & 1)),
            (Family::Opll, 0x0E) => Some((RHYTHM, value & 0x3F)),
            _ => None,
        }
    }
}

impl Bus {
    /// Creates the bus to a chip at the start of a song, or returns `None` if the chip does not
    /// sample its keys.
    pub fn of(chip: ChipId) -> Option<Bus> {
        let family = match chip {
            ChipId::Ym2151 => Family::Opm,
            ChipId::Ym2203 | ChipId::Ym2608 | ChipId::Ym2610 | ChipId::Ym2612 => Family::Opn,
            ChipId::Ym3526 | ChipId::Ym3812 | ChipId::Y8950 | ChipId::Ymf262 | ChipId::Ymf278b => {
                Family::Opl
            }
            ChipId::Ym2413 => Family::Opll,
            _ => return None,
        };
        Some(Bus {
            chip,
            family,
            keys: [0; PLACES],
            next_free_frame: 0,
            last: 0,
            settings: None,
        })
    }

    /// Returns the native frame before which the next write (port, register, value) takes effect.
    ///
    /// The write is due before frame `due`.
    pub fn write_frame(&mut self, due: u64, write: (u8, u8, u8)) -> u64 {
        self.last = if self.is_memory_write(write) {
            self.last.max(due)
        } else {
            self.reserve_frame(due, write)
        };
        self.last
    }

    fn reserve_frame(&mut self, due: u64, write: (u8, u8, u8)) -> u64 {
        let turn = self.next_free_frame.min(due + DELAY_MAX).max(due);
        if let Some((place, key)) = self.family.key(write)
            && self.keys[place] != key
        {
            self.keys[place] = key;
            self.settings = None;
            self.next_free_frame = turn + 1;
            return turn;
        }
        if turn < due + SETTING_DELAY_MAX {
            self.next_free_frame = turn + 1;
        } else {
            self.next_free_frame = turn;
        }
        let together = self.settings.filter(|first| *first >= due);
        *self.settings.insert(together.unwrap_or(turn))
    }

    /// Returns whether a write stores a byte in the chip's memory.
    fn is_memory_write(&self, (port, reg, _): (u8, u8, u8)) -> bool {
        match self.chip {
            ChipId::Ym2608 => (port, reg) == (1, 0x08),
            ChipId::Y8950 => reg == 0x0F,
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bus_delays_bursts_by_a_bounded_time() {
        let mut bus = Bus::of(ChipId::Ym2151).unwrap();
        // The song writes twice per frame for about nine seconds, which is faster than any bus.
        let mut last = 0;
        for write in 0..1_000_000u64 {
            let due = write / 2;
            let frame = bus.write_frame(due, (0, 0x08, (write as u8 & 1) << 3));
            assert!((due..=due + DELAY_MAX).contains(&frame), "{write}");
            assert!(frame >= last, "{write}");
            last = frame;
        }
        assert_eq!(last, 499_999 + DELAY_MAX);
        assert_eq!(
            bus.write_frame(600_000, (0, 0x08, 0)),
            600_000,
            "the bus must catch up"
        );
    }

    #[test]
    fn bus_reserves_frames_for_key_writes_in_bursts() {
        let mut bus = Bus::of(ChipId::Ym2151).unwrap();
        for _ in 0..5_000 {
            bus.write_frame(0, (0, 0x60, 0));
        }
        let press = |bus: &mut Bus, keys: u8| bus.write_frame(0, (0, 0x08, keys << 3));
        let frames: Vec<_> = (0..16).map(|n| press(&mut bus, 1 - n % 2)).collect();
        assert!(frames.is_sorted_by(|a, b| a < b), "{frames:?}");
    }

    #[test]
    fn bus_never_reorders_settings_before_key_writes() {
        let mut bus = Bus::of(ChipId::Ym3812).unwrap();
        let frames = [
            (0, (0, 0xB0, 0x20)),
            (0, (0, 0xA0, 1)),
            (0, (0, 0xB0, 0x21)), // the key does not change, so this is a setting
            (2, (0, 0xA0, 2)),
            (2, (0, 0xB0, 0x01)),
            (2, (0, 0xA0, 3)),
        ]
        .map(|(due, write)| bus.write_frame(due, write));
        assert_eq!(frames, [0, 1, 1, 3, 4, 5]);
    }
}
