//! What each chip says of itself: its name, its level, its voices and how one is made.
//!
//! A chip's file declares a [`ChipInfo`], and [`registry`](super::registry) lists it. Everything
//! that asks about chips by their [`ChipId`] (the mix, mutes and stems, `creel-vgm chips`) reads it
//! there, so adding a chip means adding a file and a line.

use super::pcm::PcmChip;
use super::step_chip::StepChip;
use crate::format::{ChipId, Header};

/// What is known of a chip that can be played.
pub struct ChipInfo {
    /// The chip's place in the header.
    pub chip: ChipId,
    /// Its name, followed by the names of the variants that it has.
    pub name: &'static str,
    /// What it was compared with.
    pub verification: &'static str,
    /// Songs of this chip rendered in the time that libvgm takes for one, on one thread, if that
    /// was measured; see [`registry`](super::registry).
    pub ratio: Option<f32>,
    /// How loud it is.
    pub level: Level,
    /// Its voices, in the order of their numbers.
    pub voices: &'static [VoiceGroup],
    /// About how long it takes to render a frame, in ns. It is used only to sort songs.
    ///
    /// Source: the carried songs, 2.5 GHz Cascade Lake.
    pub cost_ns: u64,
    /// The kinds of data blocks and of copies into RAM that are for its memory.
    pub memory_blocks: &'static [u8],
    /// How a chip is made for a song.
    pub create: Create,
}

/// How loud a kind of chip is.
#[derive(Clone, Copy)]
pub struct Level {
    /// From a native step of our core to one of the convention.
    pub scale: f32,
    /// The usual volume; 256 is unity.
    pub volume: u16,
    /// How much of a whole song a chip at unity is held for.
    pub share: f32,
}

impl Level {
    /// A level of these three numbers.
    pub const fn new(scale: f32, volume: u16, share: f32) -> Self {
        Level {
            scale,
            volume,
            share,
        }
    }
}

/// Voices of a chip that are named alike.
pub enum VoiceGroup {
    /// This many voices that have only their numbers among all voices.
    Numbered(u8),
    /// This many voices that share a name and are counted from 1.
    Counted(&'static str, u8),
    /// Voices with a name each.
    Named(&'static [&'static str]),
}

impl VoiceGroup {
    /// How many voices it has.
    pub fn count(&self) -> u8 {
        match self {
            VoiceGroup::Numbered(count) | VoiceGroup::Counted(_, count) => *count,
            VoiceGroup::Named(names) => names.len() as u8,
        }
    }
}

/// How a chip is made from the song's header and the chip's clock.
pub enum Create {
    /// A chip that reports its output as steps.
    Steps(fn(u32) -> Box<dyn StepChip>),
    /// A chip that renders frames from samples in a memory.
    Samples(fn(&Header, u32) -> Box<dyn PcmChip>),
    /// [`factory`](super::factory) makes it, because it has several parts or is a
    /// [`FrameChip`](super::frame_chip::FrameChip) of its own.
    ByFactory,
}

/// The drums of an OPL or OPLL chip, by their numbers.
pub const DRUM_VOICES: [&str; 5] = ["hi-hat", "cymbal", "tom", "snare", "bass drum"];

/// The square waves of AY-3-8910 and OPN chips: three channels at their loudest make 1.5 of full
/// scale in the core, and half of that here.
pub const SSG_SCALE: f32 = 0.5;

/// Compared with ymfm.
pub const YMFM: &str = "ymfm, bit by bit, on random streams and songs";
/// Compared with figures and spectra.
pub const DOCUMENTS: &str = "figures of its documents; libvgm's spectra of random songs";
/// Compared with documents alone.
pub const SAMPLES: &str = "steps, loops, ends and sides of its documents";
/// Compared with figures and waveforms.
pub const TONES: &str = "arithmetic of its documents; libvgm's waveforms of random songs";
