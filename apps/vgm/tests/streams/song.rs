//! The writes that a song makes to each FM chip, as streams: over the bus, as the player does it.
//!
//! Memory blocks are there from the start; data streams are left out, and so
//! is the prescaler, which would change the frames' length.

use creel_vgm::chips::Rate;
use creel_vgm::chips::bus::Bus;
use creel_vgm::format::{ChipId, Command, Instance, Song, decode};
use creel_vgm::render::Timebase;

use crate::streams::{Step, memory};

/// A chip of a song.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Ym2151,
    Ym2203,
    Ym2608,
    Ym2610,
    Ym2610B,
    Ym2612,
    Ym3438,
    Ym2413,
    Vrc7,
    Ym3526,
    Y8950,
    Ym3812,
    Ymf262,
}

impl Kind {
    /// Clocks in a native frame and in a tick of the SSG, if it has one.
    pub fn dividers(self) -> (u64, Option<u64>) {
        match self {
            Kind::Ym2151 => (64, None),
            Kind::Ym2203 => (72, Some(16)),
            Kind::Ym2608 | Kind::Ym2610 | Kind::Ym2610B => (144, Some(32)),
            Kind::Ym2612 | Kind::Ym3438 => (144, None),
            Kind::Ymf262 => (288, None),
            Kind::Ym2413 | Kind::Vrc7 | Kind::Ym3526 | Kind::Y8950 | Kind::Ym3812 => (72, None),
        }
    }

    fn of(song: &Song, chip: ChipId) -> Option<Self> {
        Some(match (chip, song.header.is_variant(chip)) {
            (ChipId::Ym2151, _) => Kind::Ym2151,
            (ChipId::Ym2203, _) => Kind::Ym2203,
            (ChipId::Ym2608, _) => Kind::Ym2608,
            (ChipId::Ym2610, false) => Kind::Ym2610,
            (ChipId::Ym2610, true) => Kind::Ym2610B,
            (ChipId::Ym2612, false) => Kind::Ym2612,
            (ChipId::Ym2612, true) => Kind::Ym3438,
            (ChipId::Ym2413, false) => Kind::Ym2413,
            (ChipId::Ym2413, true) => Kind::Vrc7,
            (ChipId::Ym3526, _) => Kind::Ym3526,
            (ChipId::Y8950, _) => Kind::Y8950,
            (ChipId::Ym3812, _) => Kind::Ym3812,
            (ChipId::Ymf262, _) => Kind::Ymf262,
            _ => return None,
        })
    }
}

/// What a song writes to one chip.
pub struct Track {
    pub kind: Kind,
    pub clock_hz: u32,
    /// All writes; runs are in native frames.
    pub steps: Vec<Step>,
    /// The writes to the SSG alone; runs are in its ticks.
    pub ssg: Vec<Step>,
    /// Of ADPCM-A and ADPCM-B.
    pub memories: [Vec<u8>; 2],
}

/// The FM chips of a song, of which at most `seconds` are taken.
pub fn tracks(song: &Song, seconds: u64) -> Vec<Track> {
    let of = |instance: Instance| {
        let kind = Kind::of(song, instance.chip)?;
        Some(track(song, instance, kind, seconds * 44_100))
    };
    song.chips().filter_map(of).collect()
}

fn track(song: &Song, instance: Instance, kind: Kind, ticks_max: u64) -> Track {
    let clock_hz = song.header.clock(instance).expect("the song has the chip");
    let (divider, ssg_divider) = kind.dividers();
    let mut own = Stream::new(clock_hz, divider, Bus::of(instance.chip));
    let mut ssg = Stream::new(clock_hz, ssg_divider.unwrap_or(1), None);
    let mut memories = memories(kind);
    let (mut offset, mut tick, mut dac_at) = (song.header.data_offset, 0, 0);
    while tick < ticks_max {
        let (command, next) =
            decode(song.bytes(), offset, song.header.version).expect("the song was read whole");
        offset = next;
        match command {
            Command::End => break,
            Command::Wait(ticks) => tick += u64::from(ticks),
            Command::Seek(to) => dac_at = to as usize,
            Command::DacWait(ticks) => {
                let byte = song.bank(0).and_then(|bank| bank.data.get(dac_at));
                if let (ChipId::Ym2612, false, Some(&byte)) = (instance.chip, instance.second, byte)
                {
                    own.write(tick, (0, 0x2a, byte));
                }
                dac_at += 1;
                tick += u64::from(ticks);
            }
            Command::Write(write) if write.instance == instance => {
                let (port, reg, value) = (write.port, write.reg as u8, write.value as u8);
                let write = (port, reg, value);
                match (kind, port, reg) {
                    (_, 0, 0..0x10) if ssg_divider.is_some() => ssg.carry(tick, write),
                    (Kind::Ym2203 | Kind::Ym2608, _, 0x2d..0x30) => {}
                    (Kind::Ym2612 | Kind::Ym3438, 0, 0x2a) => own.write(tick, write),
                    _ => own.carry(tick, write),
                }
            }
            Command::Block(block) if block.second == instance.second => {
                let place = match (block.kind, instance.chip) {
                    (0x82, ChipId::Ym2610) => 0,
                    (0x83, ChipId::Ym2610) | (0x81, ChipId::Ym2608) | (0x88, ChipId::Y8950) => 1,
                    _ => continue,
                };
                load(&mut memories[place], &song.bytes()[block.data]);
            }
            _ => {}
        }
    }
    Track {
        kind,
        clock_hz,
        steps: own.steps(tick),
        ssg: ssg.steps(tick),
        memories,
    }
}

/// The memories before anything is loaded; the YM2608's rhythm is random.
fn memories(kind: Kind) -> [Vec<u8>; 2] {
    match kind {
        Kind::Ym2608 => [memory(1 << 13, 1), vec![0; 1 << 18]],
        Kind::Y8950 => [Vec::new(), vec![0; 1 << 18]],
        _ => [Vec::new(), Vec::new()],
    }
}

/// A block: the memory's size, where its bytes go, its bytes.
fn load(memory: &mut Vec<u8>, block: &[u8]) {
    let word = |at: usize| u32::from_le_bytes(block[at..at + 4].try_into().expect("four bytes"));
    let (size, start) = (word(0) as usize, word(4) as usize);
    let end = start + block.len() - 8;
    memory.resize(memory.len().max(size).max(end), 0);
    memory[start..end].copy_from_slice(&block[8..]);
}

/// Writes at times in 44,100ths of a second, on their way to frames.
struct Stream {
    timebase: Timebase,
    /// None for the SSG.
    bus: Option<Bus>,
    /// Each with the frame before which it takes effect.
    writes: Vec<(u64, Step)>,
}

impl Stream {
    fn new(clock_hz: u32, divider: u64, bus: Option<Bus>) -> Self {
        Self {
            timebase: Timebase::new(Rate {
                frames: u64::from(clock_hz),
                seconds: divider,
            }),
            bus,
            writes: Vec::new(),
        }
    }

    /// A write over the bus, if there is one.
    fn carry(&mut self, tick: u64, write: (u8, u8, u8)) {
        let due = self.timebase.frame_of(tick);
        let frame = self
            .bus
            .as_mut()
            .map_or(due, |bus| bus.write_frame(due, write));
        self.push(frame, write);
    }

    /// A write that takes effect when it is due.
    fn write(&mut self, tick: u64, write: (u8, u8, u8)) {
        self.push(self.timebase.frame_of(tick), write);
    }

    fn push(&mut self, frame: u64, (port, reg, value): (u8, u8, u8)) {
        self.writes.push((frame, Step::Write(port, reg, value)));
    }

    /// All writes, and runs between them, up to a tick.
    fn steps(mut self, end: u64) -> Vec<Step> {
        self.writes.sort_by_key(|write| write.0);
        let end = self.timebase.frame_of(end);
        let (mut steps, mut frames) = (Vec::new(), 0);
        let mut run_to = |frame: u64, steps: &mut Vec<Step>| {
            if frame > frames {
                steps.push(Step::Run((frame - frames) as usize));
                frames = frame;
            }
        };
        for (frame, write) in self.writes {
            run_to(frame, &mut steps);
            steps.push(write);
        }
        run_to(end, &mut steps);
        steps
    }
}
