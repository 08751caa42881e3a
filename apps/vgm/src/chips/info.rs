//! The description of each chip: its name, its level, its voices and how to create it.
//!
//! The file of a chip declares a [`ChipInfo`], and [`registry`](super::registry) lists it. All code
//! that needs information about a [`ChipId`] (the mix, mutes and stems, `creel-vgm chips`) reads it
//! from there. To add a chip, you therefore add a file, a line and tests, unless its [`Create`] is
//! [`ByFactory`](Create::ByFactory). `docs/design/vgm.md` has the steps.

use super::pcm::PcmChip;
use super::step_chip::StepChip;
use crate::format::{ChipId, Header};

/// The description of a chip that can be played.
pub struct ChipInfo {
    /// The chip's id in the header.
    pub chip: ChipId,
    /// The name of the chip, followed by the names of its variants.
    pub name: &'static str,
    /// The reference that we compared the chip with.
    pub verification: &'static str,
    /// The number of songs of this chip that we render in the time that libvgm takes for one, on
    /// one thread.
    ///
    /// It is `None` if we did not measure it. See [`registry`](super::registry).
    pub ratio: Option<f32>,
    /// The level of the chip.
    pub level: Level,
    /// The voices of the chip, in the order of their numbers.
    pub voices: &'static [VoiceGroup],
    /// The approximate time to render a frame, in ns. We use it only for estimates.
    ///
    /// Source: our measurements with the built-in songs on a Cascade Lake at 2.5 GHz.
    pub cost_ns: u64,
    /// The kinds of data blocks and of copies into RAM that load the chip's memory.
    pub memory_blocks: &'static [u8],
    /// The way to create the chip for a song.
    pub create: Create,
}

/// The level of a kind of chip. The module [`levels`](super::levels) explains the numbers.
#[derive(Clone, Copy)]
pub struct Level {
    /// The factor from a step of our core to a step of the format's convention.
    pub scale: f32,
    /// The usual volume. 256 is unity.
    pub volume: u16,
    /// The share of a whole song that we assume for the chip at unity volume.
    pub share: f32,
}

impl Level {
    /// Creates a level from these three numbers.
    pub const fn new(scale: f32, volume: u16, share: f32) -> Self {
        Level {
            scale,
            volume,
            share,
        }
    }
}

/// Voices of a chip that are named in the same way.
pub enum VoiceGroup {
    /// This number of voices, which are named by their number among all voices.
    Numbered(u8),
    /// This number of voices, which share a name and are counted from 1, for example `FM 1` to `FM
    /// 9`.
    Counted(&'static str, u8),
    /// Voices with individual names.
    Named(&'static [&'static str]),
}

impl VoiceGroup {
    /// Returns the number of voices.
    pub fn count(&self) -> u8 {
        match self {
            VoiceGroup::Numbered(count) | VoiceGroup::Counted(_, count) => *count,
            VoiceGroup::Named(names) => names.len() as u8,
        }
    }
}

/// The way to create a chip from the song's header and the chip's clock.
pub enum Create {
    /// A chip that reports its output as steps.
    Steps(fn(u32) -> Box<dyn StepChip>),
    /// A chip that renders frames, in most cases from samples in a memory.
    Samples(fn(&Header, u32) -> Box<dyn PcmChip>),
    /// [`factory`](super::factory) creates the chip, because it has several parts or its own
    /// variant of [`FrameChip`](super::frame_chip::FrameChip).
    ByFactory,
}

/// The names of the drums of an OPL or OPLL chip, by their numbers.
pub const DRUM_VOICES: [&str; 5] = ["hi-hat", "cymbal", "tom", "snare", "bass drum"];

/// The scale of the square waves of AY-3-8910 and OPN chips.
///
/// In our core, three channels at their loudest reach 1.5 times full scale. This factor halves
/// them.
pub const SSG_SCALE: f32 = 0.5;

/// The chip was compared with ymfm.
pub const YMFM: &str = "bit-exact comparison with ymfm on random streams and songs";
/// The chip was compared with documented figures and with spectra.
pub const DOCUMENTS: &str = "documented figures; libvgm's spectra of random songs";
/// The chip was compared with documents only.
pub const SAMPLES: &str =
    "documented steps, loops, ends and sides; libvgm does not play our pieces";
/// The chip was compared with documented figures and with waveforms.
pub const TONES: &str = "documented arithmetic; libvgm's waveforms of random songs";
