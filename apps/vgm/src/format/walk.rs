//! One pass over the commands of a song. It checks them, and collects the facts that the player
//! must know in advance.
//!
//! A song may be damaged: a byte is lost, a length is wrong, the file is cut off. We play such a
//! song as far as we can:
//!
//! - A byte that is not a command, or a block that reaches beyond the song, begins a gap. The gap
//!   ends where commands begin that make sense for this song ([`Resync`]). We overwrite it with
//!   [`FILLER`], so that the player skips it.
//! - If there is no such place, the song ends at the gap.
//! - A block that cannot be unpacked, or that no chip can hold, has no effect.
//!
//! Each of these is a loss, which `--strict` does not accept.

use super::bank::Banks;
use super::bytes::u32_at;
use super::chip_id::ChipId;
use super::command::{
    Block, Command, FILLER, PWM_BYTES, StreamCommand, Write, decode, frequent_wait, frequent_write,
    is_command, pwm_write,
};
use super::header::{Header, Instance};
use super::references::References;
use super::samples::Samples;
use super::song::Loop;
use crate::chips::unplayed::{Used, Watched};
use crate::error::{Error, Result};

const PWM: Instance = Instance {
    chip: ChipId::Pwm,
    second: false,
};

/// The command that ends a song.
const END: u8 = 0x66;

/// The result of one pass over the commands.
pub struct Walk {
    /// The length of the song in ticks.
    pub tick: u64,
    loop_tick: Option<u64>,
    end: usize,
    /// The number of writes to each chip, indexed by instance.
    pub writes: Vec<u64>,
    /// Whether each chip is written to after the first wait or by commands 80 to 8F, or is the
    /// target of a stream.
    pub played: Vec<bool>,
    /// Whether each chip gets a write that may make a sound, see [`is_quiet`].
    sounding: Vec<bool>,
    /// The unpacked data banks.
    pub banks: Banks,
    /// The kinds of the data blocks and of the copies into RAM, in ascending order.
    pub blocks: Vec<u8>,
    /// The parts of the song that cannot be played.
    pub losses: Vec<String>,
    references: References,
    samples: Samples,
    /// The commands that are reserved, by their code.
    reserved: [bool; 256],
    /// The parts of chips that the song uses and that we do not play.
    used: Used,
    /// For each chip, the signs that the song uses a part of the chip that we do not play.
    watched: Vec<Watched>,
    /// The number of gaps, and the first one.
    gaps: (usize, Option<Gap>),
}

/// A gap: bytes of the song that are not commands.
struct Gap {
    offset: usize,
    length: usize,
    reason: String,
}

/// The result of walking over one command.
enum Step {
    /// The next command is at this offset.
    Next(usize),
    /// The song ends.
    End,
    /// The bytes are not a command, for this reason.
    Damage(String),
}

impl Walk {
    /// Walks over the commands of a song, and overwrites the bytes that are not commands.
    ///
    /// # Errors
    ///
    /// Returns [`Error::Malformed`] if there is no command before the first damage and none after
    /// it, and [`Error::TooLarge`] if the data banks are too large.
    pub fn over(bytes: &mut Vec<u8>, header: &Header) -> Result<Walk> {
        let mut walk = Walk {
            tick: 0,
            loop_tick: None,
            end: 0,
            writes: vec![0; Instance::COUNT],
            played: vec![false; Instance::COUNT],
            sounding: vec![false; Instance::COUNT],
            banks: Banks::new(),
            references: References::new(header),
            blocks: Vec::new(),
            losses: Vec::new(),
            samples: Samples::default(),
            reserved: [false; 256],
            used: Used::default(),
            watched: ChipId::all()
                .map(|chip| Used::watched(header, chip))
                .collect(),
            gaps: (0, None),
        };
        let end = data_end(bytes, header);
        let mut resync = Resync::new(end);
        let mut offset = header.data_offset;
        loop {
            let data = &bytes[..end];
            if header.loop_offset == Some(offset) {
                walk.loop_tick = Some(walk.tick);
            }
            if let Some((reg, value)) = pwm_write(data, offset) {
                walk.write_pwm(reg, value);
                offset += PWM_BYTES;
                continue;
            }
            if let Some(ticks) = frequent_wait(data, offset) {
                walk.tick += ticks;
                offset += 1;
                continue;
            }
            if let Some((write, length)) = frequent_write(data, offset) {
                walk.write(&write);
                offset += length;
                continue;
            }
            match walk.command(data, offset, header)? {
                Step::Next(next) => offset = next,
                Step::End => break,
                Step::Damage(reason) => {
                    let Some(next) = resync.next_command(data, offset, header) else {
                        let reason = format!("{reason} (at byte {offset:#x})");
                        if offset == header.data_offset {
                            return Err(Error::malformed(offset, reason));
                        }
                        walk.losses
                            .push(format!("{reason}, so the song ends there"));
                        bytes.truncate(offset);
                        bytes.push(END);
                        break;
                    };
                    bytes[offset..next].fill(FILLER);
                    walk.gap(offset, next, reason);
                    offset = next;
                }
            }
        }
        walk.end = offset;
        walk.merge_halves(header);
        walk.blocks.sort_unstable();
        walk.blocks.dedup();
        walk.losses.extend(walk.gaps_described());
        walk.losses
            .extend(walk.references.missing(walk.banks.filled()));
        walk.losses.extend(walk.samples.missing(header));
        let unclocked: Vec<_> = walk.writes_without_clock(header, true).collect();
        walk.losses.extend(unclocked);
        walk.losses.extend(walk.unplayed(header));
        Ok(walk)
    }

    /// Walks over one command.
    fn command(&mut self, data: &[u8], offset: usize, header: &Header) -> Result<Step> {
        let is_filler = data.get(offset) == Some(&FILLER);
        let (command, next) = match decode(data, offset, header.version) {
            Ok(decoded) if !is_filler => decoded,
            Err(Error::Malformed { reason, .. }) => return Ok(Step::Damage(reason)),
            Err(error) => return Err(error),
            Ok(_) => {
                return Ok(Step::Damage(
                    "0x00 is not a command of the VGM format".into(),
                ));
            }
        };
        match command {
            Command::End => return Ok(Step::End),
            Command::Wait(ticks) => self.tick += u64::from(ticks),
            Command::DacWait(ticks) => {
                self.references.dac_write();
                self.tick += u64::from(ticks);
                self.count(ChipId::Ym2612, false);
            }
            Command::Write(write) => self.write(&write),
            Command::Stream(stream) => {
                self.references.stream(&stream, header);
                if let StreamCommand::Setup { chip, .. } = stream
                    && let Some(id) = ChipId::from_number(chip & 0x7F)
                {
                    self.count(id, chip & 0x80 != 0);
                }
            }
            Command::Seek(offset) => self.references.seek(offset),
            Command::Nothing => self.reserved[usize::from(data[offset])] = true,
            Command::RamWrite(write) => {
                self.references.copy(&write, header);
                self.samples.copy(&write);
            }
            Command::Block(block) => {
                self.note_block(block.kind);
                let defect = if block.kind < 0x80 {
                    self.banks.add(data, &block)?
                } else {
                    self.samples.block(&block);
                    misplaced(data, &block)
                };
                let lost = |defect| format!("{defect} (at byte {offset:#x})");
                self.losses.extend(defect.map(lost));
            }
        }
        Ok(Step::Next(next))
    }

    /// Counts the writes to a chip that the format describes as two chips as writes to one chip.
    fn merge_halves(&mut self, header: &Header) {
        for chip in ChipId::all() {
            let second = Instance { chip, second: true };
            let receiver = header.receiver(second);
            if receiver != second {
                self.writes[receiver.index()] += std::mem::take(&mut self.writes[second.index()]);
                self.played[receiver.index()] |= self.played[second.index()];
            }
        }
    }

    fn note_block(&mut self, kind: u8) {
        if self.blocks.last() != Some(&kind) {
            self.blocks.push(kind);
        }
    }

    fn gap(&mut self, offset: usize, next: usize, reason: String) {
        self.gaps.0 += 1;
        let length = next - offset;
        self.gaps.1.get_or_insert(Gap {
            offset,
            length,
            reason,
        });
    }

    /// Returns a description of the gaps, if there are any.
    fn gaps_described(&self) -> Option<String> {
        let Gap {
            offset,
            length,
            reason,
        } = self.gaps.1.as_ref()?;
        let bytes = if *length == 1 { "byte" } else { "bytes" };
        let others = match self.gaps.0 - 1 {
            0 => String::new(),
            others => format!(", and {others} more such places"),
        };
        Some(format!(
            "{reason} (at byte {offset:#x}); {length} {bytes} skipped{others}"
        ))
    }

    #[inline(always)]
    fn write(&mut self, write: &Write) {
        let index = write.instance.index();
        self.writes[index] += 1;
        self.played[index] |= self.tick > 0;
        self.samples.write(write);
        self.sounding[index] |= !is_quiet(write);
        let watched = &mut self.watched[write.instance.chip as usize];
        if !watched.is_empty() {
            self.used.add(&watched.write(write));
        }
    }

    /// Returns a description of each part of the format that the song uses and that we do not play.
    fn unplayed(&self, header: &Header) -> Vec<String> {
        let codes = (0u8..=255).filter(|code| self.reserved[usize::from(*code)]);
        let commands = codes.map(|code| match code {
            0x31 => "the panning of the SSG of an OPN chip (command 0x31) is not played".into(),
            _ => format!("the command {code:#04x} is ignored, because it has no known meaning"),
        });
        let has = |chip: ChipId| {
            let written = |second| self.writes[Instance { chip, second }.index()] > 0;
            header
                .clock(Instance {
                    chip,
                    second: false,
                })
                .is_some()
                && (written(false) || written(true))
        };
        commands.chain(self.used.lines(header, has)).collect()
    }

    /// Records a write to the PWM. We play all of its registers except for some bits of register 0.
    #[inline(always)]
    fn write_pwm(&mut self, reg: u16, value: u16) {
        if reg == 0 {
            self.write(&Write {
                instance: PWM,
                port: 0,
                reg,
                value,
            });
            return;
        }
        let index = PWM.index();
        self.writes[index] += 1;
        self.played[index] |= self.tick > 0;
        self.sounding[index] |= value != 0;
    }

    fn count(&mut self, chip: ChipId, second: bool) {
        let index = Instance { chip, second }.index();
        self.writes[index] += 1;
        self.played[index] = true;
        self.sounding[index] = true;
    }

    /// Returns a line for each chip that is written to although the header has no clock for it.
    ///
    /// If `sounding` is set, it returns the chips that would sound, which is a loss. Otherwise, it
    /// returns those that only get writes of silence.
    pub fn writes_without_clock(
        &self,
        header: &Header,
        sounding: bool,
    ) -> impl Iterator<Item = String> {
        let instances = ChipId::all().flat_map(|chip| {
            let instance = move |second| Instance { chip, second };
            [false, true].map(instance)
        });
        let clockless = instances.filter(move |chip| {
            header.clock(*chip).is_none() && self.sounding[chip.index()] == sounding
        });
        clockless.filter_map(|instance| {
            let name = header.name(instance.chip);
            let chip = match instance.second {
                false => format!("{name} ignored: the header has no clock for it"),
                true => format!("second {name} ignored: the header has no second one"),
            };
            match self.writes[instance.index()] {
                0 => None,
                1 => Some(format!("1 write to a {chip}")),
                writes => Some(format!("{writes} writes to a {chip}")),
            }
        })
    }

    /// Returns the loop, if the song has one that begins at a command and has a duration.
    ///
    /// A loop that points to no command is a loss.
    pub fn repeat(&mut self, header: &Header, warnings: &mut Vec<String>) -> Option<Loop> {
        let offset = header.loop_offset?;
        match self.loop_tick {
            // If the loop had no duration, the song would never advance.
            Some(tick) if tick < self.tick && header.loop_samples != 0 => {
                return Some(Loop { offset, tick });
            }
            Some(_) => {
                warnings.push("the loop has no duration, so the song is not repeated".into())
            }
            None => self.losses.push(format!(
                "the loop points to {offset:#x}, where no command begins (commands: {:#x} to \
                 {:#x}), so the song is not repeated",
                header.data_offset, self.end
            )),
        }
        None
    }
}

/// Returns whether a write cannot make a chip sound that has been reset and that gets only such
/// writes: zeros, and the silence of an SN76489.
///
/// Many loggers write these to every chip of a machine.
#[inline(always)]
fn is_quiet(write: &Write) -> bool {
    match write.instance.chip {
        // Volume 15, or the stereo port.
        ChipId::Sn76489 => write.port & 1 != 0 || write.value & 0x9F == 0x9F,
        _ => write.value == 0,
    }
}

/// Returns the offset at which the commands must end: at the tags if these follow the commands,
/// otherwise at the end of the file.
fn data_end(song: &[u8], header: &Header) -> usize {
    let tags = header.gd3_offset.filter(|at| {
        *at > header.data_offset && song.get(*at..).is_some_and(|tag| tag.starts_with(b"Gd3 "))
    });
    tags.unwrap_or(song.len())
}

/// The largest memory of any chip of the format, in bytes.
const MEMORY_MAX: usize = 16 << 20;

/// Returns the defect of a memory image that does not fit any chip.
///
/// The player must not load such a block, because the block may not have all bytes of its address.
pub fn misplaced(song: &[u8], block: &Block) -> Option<String> {
    let data = &song[block.data.clone()];
    let (head, start) = match block.kind {
        0x80..=0xBF => (8, u32_at(data, 4) as usize),
        0xC0..=0xDF => (2, 0),
        _ => (4, u32_at(data, 0) as usize),
    };
    let fits = data.len() >= head && start.saturating_add(data.len() - head) <= MEMORY_MAX;
    (!fits).then(|| {
        format!(
            "a memory block of {} bytes at {start:#x} has no effect: no chip has memory there",
            data.len()
        )
    })
}

/// The search for the next command after damaged bytes.
///
/// A place is accepted if the commands from there on make sense for the song: each of them is
/// defined, writes go to chips that the song has, and blocks lie within the song. There must be
/// [`WRITES_WANTED`] writes, or the command that ends the song as its last byte. Samples of 8 bits
/// rarely look like this, because quiet ones look like waits only.
struct Resync {
    /// The number of commands that we still try. It limits the time for hostile songs.
    budget: usize,
}

/// The number of writes after which we accept a place.
const WRITES_WANTED: usize = 8;

impl Resync {
    fn new(bytes: usize) -> Self {
        Resync {
            budget: 8 * bytes + 4096,
        }
    }

    /// Returns the offset of the first command after the damage at `offset`.
    fn next_command(&mut self, data: &[u8], offset: usize, header: &Header) -> Option<usize> {
        (offset + 1..data.len()).find(|at| self.makes_sense(data, *at, header))
    }

    fn makes_sense(&mut self, data: &[u8], mut offset: usize, header: &Header) -> bool {
        let has = |instance| header.clock(header.receiver(instance)).is_some();
        let mut writes = 0;
        while let Some(budget) = self.budget.checked_sub(1) {
            self.budget = budget;
            if data.get(offset) == Some(&FILLER) || !is_command(data, offset, header.version) {
                return false;
            }
            let Ok((command, next)) = decode(data, offset, header.version) else {
                return false;
            };
            match command {
                Command::End => return next == data.len(),
                Command::Write(write) if has(write.instance) => writes += 1,
                Command::Write(_) | Command::Nothing => return false,
                Command::Block(_) if data[offset + 1] != END => return false,
                _ => {}
            }
            if writes == WRITES_WANTED {
                return true;
            }
            offset = next;
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use crate::format::{ChipId, Instance, Song};

    /// Returns a song of an SN76489 and a YM2612 with these commands.
    fn song(commands: &[u8]) -> Song {
        let mut bytes = vec![0; 0x40];
        bytes[..4].copy_from_slice(b"Vgm ");
        bytes[8..10].copy_from_slice(&[0x51, 0x01]);
        bytes[0x34] = 0x0C;
        bytes[0x0C..0x10].copy_from_slice(&3_579_545u32.to_le_bytes());
        bytes[0x2C..0x30].copy_from_slice(&7_670_454u32.to_le_bytes());
        bytes.extend(commands);
        Song::parse(bytes).unwrap()
    }

    /// Ten writes and ten frames of 1/60 s.
    fn music() -> Vec<u8> {
        [0x50, 0x9F, 0x62].repeat(10)
    }

    const PSG: Instance = Instance {
        chip: ChipId::Sn76489,
        second: false,
    };

    #[test]
    fn undefined_bytes_are_skipped_and_reported() {
        for gap in [
            &[0; 3][..],
            &[0x2F],
            &[0x60],
            &[0x65, 0x65],
            &[0x69, 0x01, 0x02],
            &[0x96, 0x00, 0x6F],
            &[0x9F],
        ] {
            let song = song(&[music(), gap.to_vec(), music(), vec![0x66]].concat());
            assert_eq!(song.ticks(), 20 * 735, "{gap:x?}: {:?}", song.losses());
            assert_eq!(song.writes(PSG), 20, "{gap:x?}");
            assert_eq!(song.losses().len(), 1, "{:?}", song.losses());
            let skipped = format!("{} byte", gap.len());
            assert!(song.losses()[0].contains(&skipped), "{:?}", song.losses());
        }
    }

    #[test]
    fn damage_just_before_the_end_keeps_the_end() {
        let song = song(&[music(), vec![0; 3], vec![0x61, 0x44, 0xAC, 0x66]].concat());
        assert_eq!(song.ticks(), 10 * 735 + 44_100, "{:?}", song.losses());
    }

    #[test]
    fn song_ends_at_damage_that_no_valid_command_follows() {
        let song = song(&[music(), vec![0x00; 100]].concat());
        assert_eq!(song.ticks(), 10 * 735);
        assert!(
            song.losses()[0].contains("the song ends there"),
            "{:?}",
            song.losses()
        );
    }

    #[test]
    fn block_that_reaches_beyond_the_song_is_skipped() {
        let block = [
            &[0x67, 0x66, 0x00, 0xFF, 0xFF, 0xFF, 0x00][..],
            &[0x80; 50],
            &[0xFE],
        ];
        let song = song(&[music(), block.concat(), music(), vec![0x66]].concat());
        assert_eq!(song.ticks(), 20 * 735, "{:?}", song.losses());
    }

    #[test]
    fn block_with_a_length_too_short_is_followed_by_a_gap() {
        let block = [&[0x67, 0x66, 0x00, 4, 0, 0, 0][..], &[0x00; 50]].concat();
        let song = song(&[music(), block, music(), vec![0x66]].concat());
        assert_eq!(song.ticks(), 20 * 735, "{:?}", song.losses());
    }

    #[test]
    fn blocks_that_cannot_be_used_have_no_effect() {
        for (kind, data) in [
            (0x40, vec![0; 5]),
            (0x40, vec![9; 20]),
            (0x7F, vec![0, 2, 8, 2, 9, 0]),
            (0x82, vec![0; 3]),
            (0x82, vec![0xFF; 20]),
            (0xC0, vec![0]),
        ] {
            let mut block = vec![0x67, 0x66, kind, data.len() as u8, 0, 0, 0];
            block.extend(&data);
            let song = song(&[music(), block, music(), vec![0x66]].concat());
            assert_eq!(song.ticks(), 20 * 735, "{kind:x}");
            assert_eq!(song.losses().len(), 1, "{kind:x}: {:?}", song.losses());
        }
    }

    #[test]
    fn hostile_song_is_read_in_linear_time() {
        // After the damaged byte, there are only waits and no command that ends the song. A search
        // that read them to the end from each place would take quadratic time.
        let song = song(&[music(), vec![0x00], vec![0x70; 4 << 20]].concat());
        assert_eq!(song.ticks(), 10 * 735);
    }
}
