//! The list of all chips that can be played, with the way each was checked and its speed.
//!
//! The speed is a ratio of CPU times compared with libvgm. We measured whole programs alternately
//! on 22 and 23 November 2026 and truncated the ratios to one decimal. The input was five or ten
//! minutes of random notes on all voices, generated outside the project. Some chips are special:
//!
//! - For OKIM6258, MSM5205 and PWM we used random data in which each byte is a write. The PWM was
//!   measured on 26 November, for four minutes and with the DC filter.
//! - The data of the PWM has one write per side. With one write for both sides the ratio is 1.4
//!   times as high.
//! - libvgm does not play the ES5506.
//!
//! Note that libvgm interpolates linearly where we filter. For the PWM, most of our time is spent
//! on 44,000 writes per second.
//!
//! `CREEL_VGM2WAV=… cargo test --release -p creel-vgm --test players -- --ignored --nocapture`
//! measures shorter songs by wall time. Its ratios are lower if writing files dominates.

use super::info::ChipInfo;
use super::{
    ay8910, es5503, game_boy, huc6280, k007232, k051649, mikey, msm5205, nes, okim6258, pcm, pokey,
    saa1099, sn76489, vsu, wonderswan, y8950, ym2151, ym2203, ym2413, ym2608, ym2610, ym2612,
    ym3526, ym3812, ymf262, ymz280b,
};
use crate::format::ChipId;

/// Explains how and when the ratios were measured.
pub const RATIO_METHOD: &str = "CPU time of libvgm's vgm2wav divided by ours, both on one thread and \
    run in turns on 22 and 23 November 2026, for five or ten minutes of random notes on all voices, \
    without the DC filter; that of the PWM on 26 November, for four minutes, with the filter";

/// Explains the comparison of spectra.
pub const SPECTRA_METHOD: &str = "songs of random notes, rendered by both programs: the power in 20 \
    bands from 60 Hz to 15 kHz, every 4,096 frames, differs by at most 4.5 dB on average";

/// Explains the comparison by spectra, balance and onsets.
pub const PIECE_METHOD: &str = "a generated piece of 80 notes of random pitch, volume and side, \
    rendered by both programs on 26 November 2026: the mean difference of these bands, the \
    difference between left and right, and the correlation of the rise of the level per 10 ms";

/// Every chip that can be played, in the order of the header.
pub const CHIPS: &[&ChipInfo] = &[
    &sn76489::INFO,
    &ym2413::INFO,
    &ym2612::INFO,
    &ym2151::INFO,
    &ym2203::INFO,
    &ym2608::INFO,
    &ym2610::INFO,
    &ym3812::INFO,
    &ym3526::INFO,
    &y8950::INFO,
    &ymf262::INFO,
    &ymz280b::INFO,
    &ay8910::INFO,
    &game_boy::INFO,
    &nes::INFO,
    &okim6258::INFO,
    &k051649::INFO,
    &huc6280::INFO,
    &pokey::INFO,
    &wonderswan::INFO,
    &vsu::INFO,
    &saa1099::INFO,
    &es5503::INFO,
    &mikey::INFO,
    &k007232::INFO,
    &pcm::segapcm::INFO,
    &pcm::rf5c68::INFO,
    &pcm::pwm::INFO,
    &pcm::ymf278b::INFO,
    &pcm::ymf271::INFO,
    &pcm::rf5c68::RF5C164,
    &pcm::multipcm::INFO,
    &pcm::upd7759::INFO,
    &pcm::okim6295::INFO,
    &pcm::k054539::INFO,
    &pcm::c140::INFO,
    &pcm::k053260::INFO,
    &pcm::qsound::INFO,
    &pcm::scsp::INFO,
    &pcm::es550x::INFO,
    &pcm::x1_010::INFO,
    &pcm::c352::INFO,
    &pcm::ga20::INFO,
    &pcm::ics2115::INFO,
    &msm5205::INFO,
];

/// Returns the description of a chip, if it can be played.
///
/// ```
/// use creel_vgm::chips::registry;
/// use creel_vgm::format::ChipId;
///
/// assert_eq!(registry::of(ChipId::Ym2413).unwrap().name, "YM2413, VRC7");
/// assert!(registry::of(ChipId::Bsmt2000).is_none());
/// ```
pub fn of(chip: ChipId) -> Option<&'static ChipInfo> {
    CHIPS.iter().copied().find(|info| info.chip == chip)
}

/// Returns the chip whose memory is loaded by blocks of this kind, and by copies into RAM of this
/// kind.
pub fn of_block(kind: u8) -> Option<ChipId> {
    let info = CHIPS
        .iter()
        .find(|info| info.memory_blocks.contains(&kind))?;
    Some(info.chip)
}
