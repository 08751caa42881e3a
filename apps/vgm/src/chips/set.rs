//! The chips of one song: which can be played, at what clock and how loud.
//!
//! A chip is played in *parts*. Most have one, made of native frames. The square waves of an OPN
//! chip are a part of their own, made of edges at the output rate, so that their many writes do not
//! cut the FM's blocks short.
//!
//! Levels: by the format's convention 256 is a full-scale chip at unity; each chip has a usual
//! level, and the extra header speaks in the same unit.
//!
//! Source: VGM specification 1.71, "Chip Volume Header".

use super::Rate;
use super::ay8910::Ay8910;
use super::okim6258::Okim6258;
use super::sn76489::{Sn76489, Variant};
use super::ssg::Ssg;
use super::ym2151::Ym2151;
use crate::edges::{Sides, StereoEdges};
use crate::error::{Error, Result};
use crate::format::{ChipId, Header, Instance, Song, Volume};

/// A part of a chip, with its level: the factor from one of its steps to full scale.
pub enum Part {
    /// Native frames.
    Frames(FrameChip, f32),
    /// Square waves, listening to this lane of the chip.
    Squares(SquareChip, usize, f32),
}

/// Clocks that a chip can be asked to run at, in Hz: from a tenth of the slowest in use to more
/// than the fastest. Outside, time would stand still or a second take minutes.
const CLOCKS_HZ: std::ops::RangeInclusive<u32> = 100_000..=40_000_000;

/// Full scale of a native frame.
const FULL_SCALE: f32 = 32768.0;
/// Full scale of an SSG: three channels at their loudest make 1.5 of it.
const SSG_FULL_SCALE: f32 = 1.5 * 32768.0;
/// The SSG beside the FM of its own chip.
const SSG_BESIDE_FM: f32 = 0.5;
/// The same on the Neo Geo, whose resistors make it quieter.
const SSG_BESIDE_OPNB: f32 = 0.28;

/// The parts of one chip of a song; none if it is not a chip that is played.
///
/// # Errors
///
/// [`Error::Malformed`] if its clock is none a chip can run at.
pub fn parts(song: &Song, instance: Instance) -> Result<Vec<Part>> {
    let header = &song.header;
    let Some(clock_hz) = header.clock(instance) else {
        return Ok(Vec::new());
    };
    let level = level(header, instance, false) / FULL_SCALE;
    let parts = match instance.chip {
        ChipId::Okim6258 => {
            let chip = Okim6258::new(clock_hz, header.byte(0x94));
            vec![Part::Frames(FrameChip::Okim6258(Box::new(chip)), level)]
        }
        ChipId::Ay8910 => {
            let chip = Ay8910::new(clock_hz, header.byte(0x78), header.byte(0x79));
            let level = level * FULL_SCALE / SSG_FULL_SCALE;
            vec![Part::Squares(SquareChip::Ay8910(Box::new(chip)), 0, level)]
        }
        ChipId::Ym2151 => {
            let chip = Ym2151::new(clock_hz);
            vec![Part::Frames(FrameChip::Ym2151(Box::new(chip)), level)]
        }
        ChipId::Sn76489 => {
            let chip = Sn76489::new(clock_hz, sn76489_variant(header));
            vec![Part::Squares(SquareChip::Sn76489(Box::new(chip)), 0, level)]
        }
        _ => Vec::new(),
    };
    if !parts.is_empty() && !CLOCKS_HZ.contains(&clock_hz) {
        let name = instance.chip.name();
        let reason = format!("the {name} cannot run at {clock_hz} Hz");
        return Err(Error::malformed(instance.chip.clock_offset(), reason));
    }
    Ok(parts)
}

/// What the header says of the SN76489; where it says nothing, Sega's.
fn sn76489_variant(header: &Header) -> Variant {
    let (taps, width) = (header.word(0x28), header.byte(0x2A));
    if taps == 0 || width == 0 {
        return Variant::SEGA;
    }
    Variant {
        taps,
        width,
        flags: header.byte(0x2B),
    }
}

/// How loud a chip is in a song, or its other half if `paired`: 1 is unity.
fn level(header: &Header, instance: Instance, paired: bool) -> f32 {
    let usual = f32::from(usual_level(instance.chip));
    let given = header
        .chip_volumes
        .iter()
        .find(|volume| volume.instance == instance && volume.paired == paired);
    let level = match given.map(|volume| volume.volume) {
        None => usual,
        Some(Volume::Absolute(level)) => f32::from(level),
        Some(Volume::Relative(factor)) => usual * f32::from(factor) / 256.0,
    };
    level / 256.0
}

/// The level that songs of a chip expect.
fn usual_level(chip: ChipId) -> u16 {
    match chip {
        ChipId::Sn76489 | ChipId::Ym2608 | ChipId::Ym2610 => 0x80,
        ChipId::Ym2413 => 0x200,
        ChipId::Okim6258 => 0x1C0,
        _ => 0x100,
    }
}

/// A chip, or a part of one, that renders native frames.
pub enum FrameChip {
    /// The OKI MSM6258.
    Okim6258(Box<Okim6258>),
    /// The YM2151.
    Ym2151(Box<Ym2151>),
}

/// The fastest that the MSM6258 is run at; songs change its rate as they play.
const OKIM6258_PACE: Rate = Rate {
    frames: 15_625,
    seconds: 1,
};

impl FrameChip {
    /// The native frames a second it makes now.
    pub fn rate(&self) -> Rate {
        match self {
            FrameChip::Okim6258(chip) => chip.rate(),
            FrameChip::Ym2151(chip) => chip.rate(),
        }
    }

    /// The native frames a second to resample from: the highest that its rate is expected to take.
    pub fn pace(&self) -> Rate {
        match self {
            FrameChip::Okim6258(chip) if chip.rate().hz() < OKIM6258_PACE.hz() => OKIM6258_PACE,
            _ => self.rate(),
        }
    }

    /// Writes a register between two native frames.
    pub fn write(&mut self, port: u8, reg: u8, value: u8) {
        match self {
            FrameChip::Okim6258(chip) => chip.write(port, reg, value),
            FrameChip::Ym2151(chip) => chip.write(port, reg, value),
        }
    }

    /// Takes in the memory block whose command lies at byte `offset` of the song.
    pub fn load(&mut self, _song: &Song, _offset: u32) {
        match self {
            FrameChip::Okim6258(_) | FrameChip::Ym2151(_) => {}
        }
    }

    /// Overwrites `out` with the next native frames.
    pub fn render(&mut self, out: &mut [[i32; 2]]) {
        match self {
            FrameChip::Okim6258(chip) => chip.render(out),
            FrameChip::Ym2151(chip) => chip.render(out),
        }
    }
}

/// A chip, or a part of one, that is made of square waves.
pub enum SquareChip {
    /// The AY-3-8910 and its kin.
    Ay8910(Box<Ay8910>),
    /// The SN76489 and its kin.
    Sn76489(Box<Sn76489>),
    /// The SSG of an OPN chip, with ticks a second.
    Ssg(Box<Ssg>, Rate),
}

impl SquareChip {
    /// The ticks a second that its edges are placed in.
    pub fn rate(&self) -> Rate {
        match self {
            SquareChip::Ay8910(chip) => chip.rate(),
            SquareChip::Sn76489(chip) => chip.rate(),
            SquareChip::Ssg(_, rate) => *rate,
        }
    }

    /// Lets tones of at most this half period, in ticks, show nothing but their mean.
    pub fn average_periods_up_to(&mut self, period: u32) {
        match self {
            SquareChip::Ay8910(chip) => chip.average_periods_up_to(period),
            SquareChip::Sn76489(chip) => chip.average_periods_up_to(period),
            SquareChip::Ssg(chip, _) => chip.average_periods_up_to(period),
        }
    }

    /// Writes a register between two ticks.
    pub fn write(&mut self, port: u8, reg: u8, value: u8) {
        match self {
            SquareChip::Ay8910(chip) => chip.write(port, reg, value),
            SquareChip::Sn76489(chip) => chip.write(port, reg, value),
            SquareChip::Ssg(chip, _) => chip.write(reg, value),
        }
    }

    /// Runs `ticks` ticks and places their edges.
    pub fn edges(&mut self, ticks: u32, edges: &mut StereoEdges) {
        match self {
            SquareChip::Ay8910(chip) => chip.edges(ticks, |tick, sides, delta| {
                edges.step(tick, sides, delta);
            }),
            SquareChip::Sn76489(chip) => chip.edges(ticks, |tick, sides, delta| {
                edges.step(tick, sides, delta);
            }),
            SquareChip::Ssg(chip, _) => chip.edges(ticks, |tick, _, delta| {
                edges.step(tick, Sides::Both, delta);
            }),
        }
    }
}
