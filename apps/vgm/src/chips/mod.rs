//! The sound chips, each in its own file with its register map at the top.
//!
//! Most chips that play samples implement [`PcmChip`](pcm::PcmChip), and most chips that play
//! square waves implement [`StepChip`](step_chip::StepChip). The others have no common trait, but
//! they have the same methods:
//!
//! - `new` takes the clock in Hz.
//! - `rate` returns the number of native frames per second.
//! - `write` writes a register and takes effect between two native frames.
//! - `render` overwrites a block of native stereo frames.
//!
//! Chips that play square waves can also report their output as steps, which [`blep`](crate::blep)
//! renders at any rate.

pub mod adpcm_a;
pub mod adpcm_b;
pub mod ay8910;
pub mod bus;
mod drums;
pub mod es5503;
pub mod factory;
pub mod fm;
pub mod frame_chip;
pub mod game_boy;
pub mod huc6280;
pub mod info;
pub mod k007232;
pub mod k051649;
pub mod levels;
pub mod mikey;
pub mod msm5205;
pub mod nes;
mod oki_adpcm;
pub mod okim6258;
pub mod opl;
pub mod pcm;
pub mod pokey;
pub mod registry;
pub mod rom;
pub mod saa1099;
pub mod selection;
pub mod sn76489;
pub mod square_chip;
pub mod ssg;
pub mod step_chip;
pub mod streamed_writes;
pub mod t6w28;
pub mod unplayed;
pub mod voices;
pub mod vsu;
pub mod wonderswan;
pub mod y8950;
pub mod ym2151;
pub mod ym2203;
pub mod ym2413;
pub mod ym2608;
pub mod ym2610;
pub mod ym2612;
pub mod ym3526;
pub mod ym3812;
pub mod ymf262;
pub mod ymz280b;

/// A rate in frames (or ticks) per second, as an exact ratio.
///
/// We use a ratio because the rates of most chips are not whole numbers.
///
/// ```
/// use creel_vgm::chips::Rate;
///
/// // A YM2151 at 3.579545 MHz makes a frame every 64 clocks.
/// let rate = Rate { frames: 3_579_545, seconds: 64 };
/// assert_eq!(rate.hz(), 55_930.390625);
/// ```
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Rate {
    /// The number of frames in `seconds`.
    pub frames: u64,
    /// The number of seconds in which `frames` pass. It is above 0.
    pub seconds: u64,
}

impl Rate {
    /// Returns the number of frames per second, rounded to the precision of an `f64`.
    pub fn hz(self) -> f64 {
        self.frames as f64 / self.seconds as f64
    }
}
