//! Writes a song in the VGM format: the header, data blocks, commands and tags.

use crate::format::{ChipId, Gd3, TICKS_PER_SECOND};

/// Writes a song command by command.
#[derive(Debug)]
pub struct Writer {
    header: Vec<u8>,
    commands: Vec<u8>,
    ticks: u64,
    /// The position in the commands and the tick at which the loop begins.
    repeat: Option<(usize, u64)>,
}

const HEADER: usize = 0x100;

impl Writer {
    /// Creates an empty song for these chips with their clocks in Hz.
    pub fn new(chips: &[(ChipId, u32)]) -> Self {
        let mut header = vec![0; HEADER];
        header[..4].copy_from_slice(b"Vgm ");
        header[0x08..0x0C].copy_from_slice(&0x171u32.to_le_bytes());
        header[0x34] = (HEADER - 0x34) as u8;
        for (chip, clock_hz) in chips {
            let at = chip.clock_offset();
            header[at..at + 4].copy_from_slice(&clock_hz.to_le_bytes());
        }
        Writer {
            header,
            commands: Vec::new(),
            ticks: 0,
            repeat: None,
        }
    }

    /// Sets a byte of the header, for example a flag of a chip.
    pub fn header_byte(&mut self, offset: usize, value: u8) {
        self.header[offset] = value;
    }

    /// Appends the bytes of a command.
    pub fn command(&mut self, bytes: &[u8]) {
        self.commands.extend_from_slice(bytes);
    }

    /// Appends a data block.
    pub fn block(&mut self, kind: u8, data: &[u8]) {
        self.command(&[0x67, 0x66, kind]);
        self.command(&(data.len() as u32).to_le_bytes());
        self.command(data);
    }

    /// Appends a data block with the whole contents of a sample memory.
    pub fn memory(&mut self, kind: u8, data: &[u8]) {
        let mut image = (data.len() as u32).to_le_bytes().to_vec();
        image.extend([0; 4]);
        image.extend(data);
        self.block(kind, &image);
    }

    /// Waits until `tick`, counted from the start of the song.
    pub fn wait_until(&mut self, tick: u64) {
        while self.ticks < tick {
            let ticks = (tick - self.ticks).min(0xFFFF);
            match ticks {
                735 => self.command(&[0x62]),
                882 => self.command(&[0x63]),
                1..=16 => self.command(&[0x70 + (ticks - 1) as u8]),
                _ => self.command(&[0x61, ticks as u8, (ticks >> 8) as u8]),
            }
            self.ticks += ticks;
        }
    }

    /// Starts the loop at the current position.
    pub fn loop_here(&mut self) {
        self.repeat = Some((self.commands.len(), self.ticks));
    }

    /// Returns the complete song with its tags.
    pub fn finish(mut self, tags: &Gd3) -> Vec<u8> {
        self.command(&[0x66]);
        let mut song = self.header;
        song.extend(&self.commands);
        let mut put = |at: usize, value: usize| {
            song[at..at + 4].copy_from_slice(&(value as u32).to_le_bytes());
        };
        let end = HEADER + self.commands.len();
        put(0x14, end - 0x14);
        put(0x18, self.ticks as usize);
        if let Some((command, tick)) = self.repeat {
            put(0x1C, HEADER + command - 0x1C);
            put(0x20, (self.ticks - tick) as usize);
        }
        song.extend(tags.to_bytes());
        let size = song.len() as u32 - 4;
        song[0x04..0x08].copy_from_slice(&size.to_le_bytes());
        song
    }
}

/// Converts a step to ticks, rounded down. There are `steps_a_minute` steps per minute.
pub fn tick_of_step(step: u64, steps_a_minute: u64) -> u64 {
    step * 60 * u64::from(TICKS_PER_SECOND) / steps_a_minute
}
