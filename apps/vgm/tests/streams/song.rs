//! Converts the writes of a song to streams for each FM chip, over the bus, as the player does.
//!
//! Memory blocks are loaded at the start. We leave out data streams, and also the prescaler,
//! because it would change the length of frames.

use creel_vgm::chips::Rate;
use creel_vgm::chips::bus::Bus;
use creel_vgm::format::{ChipId, Command, Instance, Song, decode};
use creel_vgm::render::Timebase;

use crate::streams::{Step, memory};

/// An FM chip of a song.
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
    /// The number of clocks in a native frame, and in a tick of the SSG if the chip has one.
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

/// The writes of a song to one chip.
pub struct Track {
    pub kind: Kind,
    pub clock_hz: u32,
    /// All writes. The unit of runs is a native frame.
    pub steps: Vec<Step>,
    /// Only the writes to the SSG. The unit of runs is a tick of the SSG.
    pub ssg: Vec<Step>,
    /// The memories of ADPCM-A and ADPCM-B.
    pub memories: [Vec<u8>; 2],
}

/// Returns the FM chips of a song, with up to `seconds` of it.
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

/// Returns the memories before anything is loaded. The rhythm ROM of the YM2608 is random.
fn memories(kind: Kind) -> [Vec<u8>; 2] {
    match kind {
        Kind::Ym2608 => [memory(1 << 13, 1), vec![0; 1 << 18]],
        Kind::Y8950 => [Vec::new(), vec![0; 1 << 18]],
        _ => [Vec::new(), Vec::new()],
    }
}

/// Parses a block: the size of the memory, the position of its bytes, and its bytes.
fn load(memory: &mut Vec<u8>, block: &[u8]) {
    let word = |at: usize| u32::from_le_bytes(block[at..at + 4].try_into().expect("four bytes"));
    let (size, start) = (word(0) as usize, word(4) as usize);
    let end = start + block.len() - 8;
    memory.resize(memory.len().max(size).max(end), 0);
    memory[start..end].copy_from_slice(&block[8..]);
}

/// Converts writes from ticks of 1/44,100 s to frames.
struct Stream {
    timebase: Timebase,
    /// The bus, or `None` for the SSG.
    bus: Option<Bus>,
    /// The writes, each with the frame before which it takes effect.
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

    /// Adds a write over the bus, if there is one.
    fn carry(&mut self, tick: u64, write: (u8, u8, u8)) {
        let due = self.timebase.frame_of(tick);
        let frame = self
            .bus
            .as_mut()
            .map_or(due, |bus| bus.write_frame(due, write));
        self.push(frame, write);
    }

    /// Adds a write that takes effect when it is due.
    fn write(&mut self, tick: u64, write: (u8, u8, u8)) {
        self.push(self.timebase.frame_of(tick), write);
    }

    fn push(&mut self, frame: u64, (port, reg, value): (u8, u8, u8)) {
        self.writes.push((frame, Step::Write(port, reg, value)));
    }

    /// Returns all writes up to a tick, with the runs between them.
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
