//! One stream of the commands 90 to 95: bytes of a data bank, written to a register at a fixed
//! rate.
//!
//! Source: VGM specification 1.71, "DAC Stream Control Write". For chips that select a channel by a
//! register, the port of a stream is the channel, or FF for the selected one.

use crate::format::{ChipId, Instance, PSG_SECOND, Song, TICKS_PER_SECOND, Write};

/// The fastest stream that is played, in writes per second. No converter accepts more.
const STREAM_HZ_MAX: u32 = 4 * TICKS_PER_SECOND;

const REVERSE: u8 = 0x10;
const REPEAT: u8 = 0x80;
/// The offset value that means "keep the current start".
const OFFSET_KEPT: u32 = u32::MAX;

/// The port of a stream that writes to the channel that the chip has selected.
const ANY_CHANNEL: u8 = 0xFF;

/// The bit that marks the port of a write to a fixed channel. The other bits of the port are the
/// number of that channel, and the channel that the chip has selected does not matter.
///
/// Only streams make such writes. They leave the selected channel as it is, because other writes
/// rely on it.
pub const OF_CHANNEL: u8 = 0x80;

/// A stream and its position.
#[derive(Debug, Clone)]
pub struct Stream {
    /// The number of the stream in the song.
    pub id: u8,
    target: Option<Instance>,
    port: u8,
    reg: u8,
    bank: u8,
    step: usize,
    base: usize,
    hz: u32,
    /// The offset in the bank at which the run begins, in bytes.
    start: usize,
    /// The number of writes in a run.
    length: u64,
    /// The number of writes made in this run.
    made: u64,
    reverse: bool,
    repeat: bool,
    running: bool,
    next_tick: u64,
    /// The fraction of a tick by which the next write comes after `next_tick`, in units of 1 / hz.
    next_fraction: u32,
}

impl Stream {
    /// Creates a stream that has not been set up.
    pub fn new(id: u8) -> Self {
        Stream {
            id,
            target: None,
            port: 0,
            reg: 0,
            bank: 0,
            step: 1,
            base: 0,
            hz: 0,
            start: 0,
            length: 0,
            made: 0,
            reverse: false,
            repeat: false,
            running: false,
            next_tick: 0,
            next_fraction: 0,
        }
    }

    /// Sets the chip and the register that the stream writes.
    pub fn set_up(&mut self, chip: u8, port: u8, reg: u8) {
        self.target = ChipId::from_number(chip & 0x7F).map(|id| Instance {
            chip: id,
            second: chip & 0x80 != 0,
        });
        (self.port, self.reg) = (port, reg);
    }

    /// Sets the bank that the stream reads, the step between values, and the first value.
    pub fn set_data(&mut self, bank: u8, step: u8, base: u8) {
        self.bank = bank;
        self.step = usize::from(step.max(1));
        self.base = usize::from(base);
    }

    /// Sets the number of writes per second. A rate of 0 pauses the stream.
    pub fn set_frequency(&mut self, hz: u32, now: u64) {
        if self.hz == 0 {
            self.next_tick = now;
        }
        self.hz = hz.min(STREAM_HZ_MAX);
        self.next_fraction = 0;
    }

    /// Starts the stream at `offset` bytes of the bank. `mode` selects the unit of `length`.
    pub fn start(&mut self, song: &Song, now: u64, offset: u32, mode: u8, length: u32) {
        if offset != OFFSET_KEPT {
            self.start = offset as usize;
        }
        let length = match mode & 0x0F {
            1 => u64::from(length),
            2 => u64::from(length) * u64::from(self.hz) / 1000,
            3 => self.until_end(song),
            _ => {
                self.made = 0;
                return;
            }
        };
        self.run(now, length, mode & REVERSE != 0, mode & REPEAT != 0);
    }

    /// Starts the stream at a block of the bank and plays that block.
    pub fn start_block(&mut self, song: &Song, now: u64, block: u16, flags: u8) {
        let blocks = song.bank(self.bank).map_or(&[][..], |bank| &bank.blocks);
        if let Some(place) = blocks.get(usize::from(block)) {
            self.start = place.start;
            let length = place.len().div_ceil(self.step * self.width()) as u64;
            self.run(now, length, flags & REVERSE != 0, flags & 1 != 0);
        }
    }

    /// Stops the stream at its current position.
    pub fn stop(&mut self) {
        self.running = false;
    }

    /// Returns the tick of the next write, or [`u64::MAX`] if there is none.
    pub fn next_tick(&self) -> u64 {
        if self.running && self.hz > 0 {
            self.next_tick
        } else {
            u64::MAX
        }
    }

    /// Returns the write that is due and advances the stream.
    ///
    /// Returns `None` if the bank has no data at this position, or if the target does not exist or
    /// cannot accept the write.
    pub fn step(&mut self, song: &Song) -> Option<Write> {
        let index = if self.reverse {
            self.length - 1 - self.made
        } else {
            self.made
        };
        let data = self.data(song, index);
        self.advance_position();
        self.write(self.target?, data?)
    }

    fn run(&mut self, now: u64, length: u64, reverse: bool, repeat: bool) {
        (self.length, self.reverse, self.repeat) = (length, reverse, repeat);
        self.made = 0;
        self.running = length > 0;
        (self.next_tick, self.next_fraction) = (now, 0);
    }

    /// Returns the number of bytes per write. The step and the base count in this unit.
    fn width(&self) -> usize {
        let is_pwm = self.target.is_some_and(|target| target.chip == ChipId::Pwm);
        if is_pwm { 2 } else { 1 }
    }

    fn until_end(&self, song: &Song) -> u64 {
        let bytes = song.bank(self.bank).map_or(0, |bank| bank.data.len());
        let base = self.base * self.width();
        let left = bytes.saturating_sub(self.start.saturating_add(base));
        left.div_ceil(self.step * self.width()) as u64
    }

    /// Returns the data of a write, which is stored with its low byte first.
    fn data(&self, song: &Song, index: u64) -> Option<u16> {
        let (index, width) = (usize::try_from(index).ok()?, self.width());
        let at = self.start.checked_add(self.base * width)?;
        let at = at.checked_add(index.checked_mul(self.step * width)?)?;
        let data = song.bank(self.bank)?.data.get(at..at.checked_add(width)?)?;
        Some(
            data.iter()
                .rfold(0, |word, byte| word << 8 | u16::from(*byte)),
        )
    }

    fn advance_position(&mut self) {
        self.made += 1;
        if self.made == self.length {
            self.made = 0;
            self.running = self.repeat;
        }
        let hz = self.hz;
        self.next_tick += u64::from(TICKS_PER_SECOND / hz);
        self.next_fraction += TICKS_PER_SECOND % hz;
        if self.next_fraction >= hz {
            self.next_fraction -= hz;
            self.next_tick += 1;
        }
    }

    /// Returns the write of a value to the target.
    ///
    /// The SN76489 has no register numbers. The high bits of a byte select what the byte sets, and
    /// only volumes fit into the remaining 4 bits.
    fn write(&self, instance: Instance, data: u16) -> Option<Write> {
        let (port, reg, value) = match instance.chip {
            ChipId::Sn76489 if self.reg & 0x10 == 0 => return None,
            ChipId::Sn76489 => {
                let port = if instance.second { PSG_SECOND } else { 0 };
                (port, 0, u16::from(self.reg & 0xF0) | data & 0x0F)
            }
            ChipId::Huc6280 | ChipId::Rf5c68 | ChipId::Rf5c164 => {
                // The high nibble is the register that selects a channel, and we do not need it.
                let port = match self.port {
                    ANY_CHANNEL => 0,
                    channel => OF_CHANNEL | channel & 7,
                };
                (port, self.reg & 0x0F, data)
            }
            _ => (self.port, self.reg, data),
        };
        Some(Write {
            instance,
            port,
            reg: u16::from(reg),
            value,
        })
    }
}
