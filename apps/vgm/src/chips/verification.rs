//! Which chips are played, how each was checked, and how fast it is beside another player.
//!
//! The ratios were taken on 22 and 23 November 2026, of CPU time, whole programs in turns, on five or
//! ten minutes of random notes over all voices, made outside the project, and cut to one decimal;
//! those of OKIM6258, MSM5205 and PWM of random data of which each byte is a write, PWM with one for
//! each side; with one for both it is 1.4 times as fast. libvgm draws lines between samples where we
//! filter; of the PWM's time most goes into taking in 44,000 writes a second. It plays no ES5506.
//! `CREEL_VGM2WAV=… cargo test --release -p creel-vgm --test players -- --ignored --nocapture`
//! measures shorter songs by wall time, and comes out lower where files weigh.

use crate::format::ChipId;

/// What is known of a chip that is played.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Verification {
    /// The chip's place in the header.
    pub chip: ChipId,
    /// Its name, with those of the variants that are told apart.
    pub name: &'static str,
    /// What it was compared with.
    pub method: &'static str,
    /// Songs of this chip rendered in the time that libvgm takes for one, on one thread, where that
    /// was measured.
    pub ratio: Option<f32>,
}

const fn row(
    chip: ChipId,
    name: &'static str,
    how: &'static str,
    ratio: Option<f32>,
) -> Verification {
    Verification {
        chip,
        name,
        method: how,
        ratio,
    }
}

const YMFM: &str = "ymfm, bit by bit, on random streams and songs";
const DOCUMENTS: &str = "figures of its documents; libvgm's spectra of random songs";

const SAMPLES: &str = "steps, loops, ends and sides of its documents";
const TONES: &str = "arithmetic of its documents; libvgm's waveforms of random songs";

/// Every chip that is played, in the header's order.
pub const CHIPS: &[Verification] = &[
    row(
        ChipId::Sn76489,
        "SN76489",
        "its documents; edges tick by tick",
        Some(12.3),
    ),
    row(ChipId::Ym2413, "YM2413, VRC7", YMFM, Some(5.2)),
    row(ChipId::Ym2612, "YM2612, YM3438", YMFM, Some(2.5)),
    row(ChipId::Ym2151, "YM2151", YMFM, Some(3.4)),
    row(ChipId::Ym2203, "YM2203", YMFM, Some(3.7)),
    row(ChipId::Ym2608, "YM2608", YMFM, Some(4.2)),
    row(ChipId::Ym2610, "YM2610, YM2610B", YMFM, Some(3.6)),
    row(ChipId::Ym3812, "YM3812", YMFM, Some(5.8)),
    row(ChipId::Ym3526, "YM3526", YMFM, Some(3.6)),
    row(ChipId::Y8950, "Y8950", YMFM, Some(3.2)),
    row(ChipId::Ymf262, "YMF262", YMFM, Some(7.2)),
    row(ChipId::Ymz280b, "YMZ280B", DOCUMENTS, Some(1.7)),
    row(
        ChipId::Ay8910,
        "AY8910, YM2149",
        "ymfm's SSG, tick by tick",
        Some(6.9),
    ),
    row(ChipId::GameBoy, "GameBoy", DOCUMENTS, Some(6.5)),
    row(ChipId::NesApu, "NESAPU, FDS", DOCUMENTS, Some(8.5)),
    row(
        ChipId::Okim6258,
        "OKIM6258",
        "figures of its documents",
        Some(1.7),
    ),
    row(ChipId::K051649, "K051649, K052539", DOCUMENTS, Some(1.7)),
    row(ChipId::Huc6280, "HuC6280", DOCUMENTS, Some(2.6)),
    row(ChipId::Pokey, "Pokey", DOCUMENTS, Some(38.0)),
    row(ChipId::WonderSwan, "WonderSwan", DOCUMENTS, Some(1.5)),
    row(ChipId::Vsu, "VSU", DOCUMENTS, Some(2.4)),
    row(ChipId::Saa1099, "SAA1099", DOCUMENTS, Some(2.1)),
    row(ChipId::Es5503, "ES5503", DOCUMENTS, Some(2.9)),
    row(ChipId::Mikey, "Mikey", DOCUMENTS, Some(13.8)),
    row(ChipId::K007232, "K007232", DOCUMENTS, Some(3.2)),
    row(ChipId::SegaPcm, "SegaPCM", TONES, Some(2.0)),
    row(ChipId::Rf5c68, "RF5C68", TONES, Some(2.7)),
    row(ChipId::Pwm, "PWM", TONES, Some(1.2)),
    row(ChipId::Ymf278b, "YMF278B", TONES, Some(3.0)),
    row(ChipId::Ymf271, "YMF271", TONES, Some(1.6)),
    row(ChipId::Rf5c164, "RF5C164", TONES, Some(3.9)),
    row(ChipId::MultiPcm, "MultiPCM", TONES, Some(1.8)),
    row(ChipId::Upd7759, "uPD7759, uPD7756", TONES, Some(6.3)),
    row(ChipId::Okim6295, "OKIM6295", TONES, Some(2.3)),
    row(ChipId::K054539, "K054539", TONES, Some(1.8)),
    row(ChipId::C140, "C140, C219", TONES, Some(5.0)),
    row(ChipId::K053260, "K053260", TONES, Some(2.4)),
    row(ChipId::Qsound, "QSound", TONES, Some(2.9)),
    row(ChipId::Scsp, "SCSP", TONES, Some(1.6)),
    row(ChipId::Es5506, "ES5505, ES5506", SAMPLES, None),
    row(ChipId::X1010, "X1-010", TONES, Some(3.5)),
    row(ChipId::C352, "C352", TONES, Some(3.2)),
    row(ChipId::Ga20, "GA20", TONES, Some(8.0)),
    row(ChipId::Ics2115, "ICS2115", TONES, Some(1.8)),
    row(ChipId::Msm5205, "MSM5205, MSM6585", DOCUMENTS, Some(2.2)),
];

/// What is known of a chip, if it is played.
///
/// ```
/// use creel_vgm::chips::verification;
/// use creel_vgm::format::ChipId;
///
/// assert_eq!(verification::of(ChipId::Ym2413).unwrap().name, "YM2413, VRC7");
/// assert_eq!(verification::of(ChipId::Bsmt2000), None);
/// ```
pub fn of(chip: ChipId) -> Option<&'static Verification> {
    CHIPS.iter().find(|row| row.chip == chip)
}
