//! One stream of the commands 90 to 95: bytes of a data bank, written to a register at a fixed
//! rate.
//!
//! Source: VGM specification 1.71, "DAC Stream Control Write". For chips that select a channel by a
//! register, the port of a stream is the channel, or FF for the selected one.

use crate::format::{ChipId, Instance, PSG_SECOND, Song, TICKS_PER_SECOND, Write};

/// The largest number of writes per second that a stream makes. No converter accepts more.
///
/// A faster stream skips data and keeps its speed.
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
    /// The number of values to advance per write, which is above 1 if the stream is too fast.
    stride: u64,
    /// The offset in the bank at which the data of a run begins, in bytes. A run is one pass over
    /// the data of the stream.
    start: usize,
    /// The number of values in a run.
    length: u64,
    /// The position of the next value in this run, in values. If the run is reversed, it counts
    /// from the end.
    made: u64,
    reverse: bool,
    repeat: bool,
    running: bool,
    next_tick: u64,
    /// The fraction of a tick by which the next write comes after `next_tick`, in units of 1 / hz.
    next_fraction: u64,
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
            stride: 1,
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

    /// Sets the number of values per second. A rate of 0 pauses the stream.
    pub fn set_frequency(&mut self, hz: u32, now: u64) {
        if self.hz == 0 {
            self.next_tick = now;
        }
        self.hz = hz;
        self.stride = u64::from(hz.div_ceil(STREAM_HZ_MAX)).max(1);
        self.next_fraction = 0;
    }

    /// Starts the stream at `offset` bytes of the bank. `mode` selects the unit of `length`. If it
    /// selects none, we only set the position.
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

    /// Returns the writes that are due and advances the stream.
    ///
    /// There are none if the bank has no data at this position, or if the target does not exist.
    /// Most chips need one write per value, and none needs more than two.
    pub fn step(&mut self, song: &Song) -> [Option<Write>; 2] {
        let index = if self.reverse {
            self.length - 1 - self.made
        } else {
            self.made
        };
        let data = self.data(song, index);
        self.advance_position();
        match (self.target, data) {
            (Some(target), Some(data)) => self.writes(target, data),
            _ => [None; 2],
        }
    }

    fn run(&mut self, now: u64, length: u64, reverse: bool, repeat: bool) {
        (self.length, self.reverse, self.repeat) = (length, reverse, repeat);
        self.made = 0;
        self.running = length > 0;
        (self.next_tick, self.next_fraction) = (now, 0);
    }

    /// Returns the number of bytes per value. The step and the base count values.
    fn width(&self) -> usize {
        match self.target.map(|target| target.chip) {
            Some(ChipId::Pwm | ChipId::Qsound) => 2,
            Some(ChipId::Sn76489) if self.sets_period() => 2,
            _ => 1,
        }
    }

    /// Returns whether a stream to an SN76489 sets periods, which have 10 bits. Otherwise, it sets
    /// volumes.
    fn sets_period(&self) -> bool {
        self.reg & 0x10 == 0
    }

    fn until_end(&self, song: &Song) -> u64 {
        let bytes = song.bank(self.bank).map_or(0, |bank| bank.data.len());
        let base = self.base * self.width();
        let left = bytes.saturating_sub(self.start.saturating_add(base));
        left.div_ceil(self.step * self.width()) as u64
    }

    /// Returns the value at this index of a run. We take its first byte for the low one.
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
        self.made += self.stride;
        if self.made >= self.length {
            self.made %= self.length;
            self.running = self.repeat;
        }
        let hz = u64::from(self.hz);
        let ticks = self.stride * u64::from(TICKS_PER_SECOND);
        self.next_tick += ticks / hz;
        self.next_fraction += ticks % hz;
        if self.next_fraction >= hz {
            self.next_fraction -= hz;
            self.next_tick += 1;
        }
    }

    /// Returns the writes of a value to the target.
    ///
    /// The target determines the meaning of the port and of the value:
    ///
    /// - The SN76489 has no register numbers. The high bits of a byte select what the byte sets. A
    ///   period needs two bytes.
    /// - Register 0 of the OKIM6295 receives a phrase and then the channels that play it. The port
    ///   has the channels, and a value without bit 7 stops them.
    /// - The port is the high byte of the address for chips with addresses of 16 bits.
    fn writes(&self, instance: Instance, data: u16) -> [Option<Write>; 2] {
        let write = |port: u8, reg: u16, value: u16| {
            Some(Write {
                instance,
                port,
                reg,
                value,
            })
        };
        let reg = u16::from(self.reg);
        match instance.chip {
            ChipId::Sn76489 => {
                let port = if instance.second { PSG_SECOND } else { 0 };
                let first = write(port, 0, reg & 0xF0 | data & 0x0F);
                let high_bits = self.sets_period().then(|| write(port, 0, data >> 4 & 0x3F));
                [first, high_bits.flatten()]
            }
            ChipId::Okim6295 if self.reg == 0 => {
                let channels = u16::from(self.port);
                match data & 0x80 {
                    0 => [write(0, 0, channels << 3 & 0x78), None],
                    _ => [write(0, 0, data), write(0, 0, channels << 4 & 0xF0)],
                }
            }
            ChipId::Huc6280 | ChipId::Rf5c68 | ChipId::Rf5c164 => {
                // The high nibble is the register that selects a channel, and we do not need it.
                let port = match self.port {
                    ANY_CHANNEL => 0,
                    channel => OF_CHANNEL | channel & 7,
                };
                [write(port, reg & 0x0F, data), None]
            }
            ChipId::Okim6295 => [write(0, reg, data), None],
            // A word of the data has its high byte first.
            ChipId::Qsound => [write(0, reg, data.swap_bytes()), None],
            ChipId::SegaPcm | ChipId::Scsp | ChipId::X1010 | ChipId::C352 => {
                [write(0, u16::from(self.port) << 8 | reg, data), None]
            }
            _ => [write(self.port, reg, data), None],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Action, Sequencer};
    use super::*;

    /// Returns the writes of a stream as ticks, ports, registers and values.
    ///
    /// `setup` has the port and the register, and `data` is the only block of the stream's bank.
    fn writes(chip: ChipId, setup: [u8; 2], hz: u32, data: &[u8]) -> Vec<(u64, u8, u16, u16)> {
        let mut bytes = vec![0; 0x100];
        bytes[..4].copy_from_slice(b"Vgm ");
        bytes[8..10].copy_from_slice(&[0x72, 0x01]);
        bytes[0x34] = 0xCC;
        bytes[chip.clock_offset()..][..4].copy_from_slice(&4_000_000u32.to_le_bytes());
        bytes.extend([0x67, 0x66, 0]);
        bytes.extend((data.len() as u32).to_le_bytes());
        bytes.extend(data);
        bytes.extend([
            0x90, 0, chip as u8, setup[0], setup[1], 0x91, 0, 0, 1, 0, 0x92, 0,
        ]);
        bytes.extend(hz.to_le_bytes());
        bytes.extend([0x95, 0, 0, 0, 0, 0x61, 100, 0, 0x66]);
        let song = Song::parse(bytes).unwrap();
        assert!(song.losses().is_empty(), "{:?}", song.losses());
        let instance = Instance {
            chip,
            second: false,
        };
        let mut sequencer = Sequencer::new(&song, [(instance, [true; 2])].into_iter());
        sequencer.advance(100);
        let queues = sequencer.queues(0).iter();
        let events = queues.flat_map(|queue| queue.pending().to_vec());
        let write = |event: super::super::Event| match event.action {
            Action::Write { port, reg, value } => Some((event.tick, port, reg, value)),
            Action::Memory(_) => None,
        };
        events.filter_map(write).collect()
    }

    #[test]
    fn sn76489_streams_set_volumes_and_periods() {
        let volumes = writes(ChipId::Sn76489, [0, 0xB0], 4410, &[0x03, 0x0F]);
        assert_eq!(volumes, [(0, 0, 0, 0xB3), (10, 0, 0, 0xBF)]);
        let periods = writes(ChipId::Sn76489, [0, 0xA0], 4410, &[0xFE, 0x01, 0x34, 0x02]);
        let expected = [
            (0, 0, 0, 0xAE),
            (0, 0, 0, 0x1F),
            (10, 0, 0, 0xA4),
            (10, 0, 0, 0x23),
        ];
        assert_eq!(periods, expected);
    }

    #[test]
    fn qsound_streams_have_words_with_their_high_byte_first() {
        let words = writes(ChipId::Qsound, [0, 0x86], 4410, &[0x12, 0x34, 0xFF, 0x00]);
        assert_eq!(words, [(0, 0, 0x86, 0x1234), (10, 0, 0x86, 0xFF00)]);
    }

    #[test]
    fn okim6295_streams_start_and_stop_phrases() {
        let phrases = writes(ChipId::Okim6295, [2, 0], 4410, &[0x85, 0x00]);
        let expected = [(0, 0, 0, 0x85), (0, 0, 0, 0x20), (10, 0, 0, 0x10)];
        assert_eq!(phrases, expected);
        let banks = writes(ChipId::Okim6295, [2, 0x0F], 4410, &[0x03]);
        assert_eq!(banks, [(0, 0, 0x0F, 3)]);
    }

    #[test]
    fn port_of_a_stream_is_the_high_byte_of_a_long_address() {
        for chip in [ChipId::SegaPcm, ChipId::Scsp, ChipId::X1010, ChipId::C352] {
            let long = writes(chip, [0x12, 0x34], 4410, &[5]);
            assert_eq!(long, [(0, 0, 0x1234, 5)], "{chip:?}");
        }
        let port = writes(ChipId::K054539, [2, 0x14], 4410, &[5]);
        assert_eq!(port, [(0, 2, 0x14, 5)]);
    }

    #[test]
    fn fast_streams_skip_data_and_keep_their_speed() {
        let data: Vec<u8> = (0..=255).collect();
        let hz = 16 * TICKS_PER_SECOND;
        let values = writes(ChipId::Okim6258, [0, 1], hz, &data);
        assert_eq!(values.len(), 64);
        assert_eq!(values[..3], [(0, 0, 1, 0), (0, 0, 1, 4), (0, 0, 1, 8)]);
        assert_eq!(values.last(), Some(&(15, 0, 1, 252)));
    }
}
