//! Which chips are played, how each was checked, and how fast it is beside another player.

use crate::format::ChipId;

/// What is known of a chip that is played.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Checked {
    /// The chip's place in the header.
    pub chip: ChipId,
    /// Its name, with those of the variants that are told apart.
    pub name: &'static str,
    /// What it was compared with.
    pub how: &'static str,
    /// Songs of this chip rendered in the time that libvgm takes for one, on one thread, where that
    /// was measured.
    pub ratio: Option<f32>,
}

const fn row(chip: ChipId, name: &'static str, how: &'static str, ratio: Option<f32>) -> Checked {
    Checked {
        chip,
        name,
        how,
        ratio,
    }
}

const YMFM: &str = "ymfm, bit by bit, on random streams and songs";
const DOCUMENTS: &str = "pitch, levels, times and noises of its documents";
const SAMPLES: &str = "steps, loops, ends and sides of its documents";

const TONES: &str = "arithmetic of its documents; libvgm's waveforms of random songs";

/// Every chip that is played, in the header's order.
pub const CHIPS: &[Checked] = &[
    row(
        ChipId::Sn76489,
        "SN76489",
        "its documents; edges tick by tick",
        None,
    ),
    row(ChipId::Ym2413, "YM2413, VRC7", YMFM, None),
    row(ChipId::Ym2612, "YM2612, YM3438", YMFM, None),
    row(ChipId::Ym2151, "YM2151", YMFM, None),
    row(ChipId::Ym2203, "YM2203", YMFM, None),
    row(ChipId::Ym2608, "YM2608", YMFM, None),
    row(ChipId::Ym2610, "YM2610, YM2610B", YMFM, None),
    row(ChipId::Ym3812, "YM3812", YMFM, None),
    row(ChipId::Ym3526, "YM3526", YMFM, None),
    row(ChipId::Y8950, "Y8950", YMFM, None),
    row(ChipId::Ymf262, "YMF262", YMFM, None),
    row(ChipId::Ymz280b, "YMZ280B", SAMPLES, None),
    row(
        ChipId::Ay8910,
        "AY8910, YM2149",
        "ymfm's SSG, tick by tick",
        None,
    ),
    row(ChipId::GameBoy, "GameBoy", DOCUMENTS, None),
    row(ChipId::NesApu, "NESAPU, FDS", DOCUMENTS, None),
    row(ChipId::Okim6258, "OKIM6258", SAMPLES, None),
    row(ChipId::K051649, "K051649, K052539", DOCUMENTS, None),
    row(ChipId::Huc6280, "HuC6280", DOCUMENTS, None),
    row(ChipId::Pokey, "Pokey", DOCUMENTS, None),
    row(ChipId::WonderSwan, "WonderSwan", DOCUMENTS, None),
    row(ChipId::Vsu, "VSU", DOCUMENTS, None),
    row(ChipId::Saa1099, "SAA1099", DOCUMENTS, None),
    row(ChipId::Es5503, "ES5503", SAMPLES, None),
    row(ChipId::Mikey, "Mikey", DOCUMENTS, None),
    row(ChipId::K007232, "K007232", SAMPLES, None),
    row(ChipId::SegaPcm, "SegaPCM", TONES, None),
    row(ChipId::Rf5c68, "RF5C68", TONES, None),
    row(ChipId::Pwm, "PWM", TONES, None),
    row(ChipId::Ymf278b, "YMF278B", TONES, None),
    row(ChipId::Rf5c164, "RF5C164", TONES, None),
    row(ChipId::MultiPcm, "MultiPCM", TONES, None),
    row(ChipId::Upd7759, "uPD7759, uPD7756", TONES, None),
    row(ChipId::Okim6295, "OKIM6295", TONES, None),
    row(ChipId::K054539, "K054539", TONES, None),
    row(ChipId::C140, "C140, C219", TONES, None),
    row(ChipId::K053260, "K053260", TONES, None),
    row(ChipId::Qsound, "QSound", TONES, None),
    row(ChipId::Scsp, "SCSP", TONES, None),
    row(ChipId::Es5506, "ES5505, ES5506", SAMPLES, None),
    row(ChipId::X1010, "X1-010", TONES, None),
    row(ChipId::C352, "C352", TONES, None),
    row(ChipId::Ga20, "GA20", TONES, None),
    row(ChipId::Msm5205, "MSM5205, MSM6585", SAMPLES, None),
];

/// What is known of a chip, if it is played.
///
/// ```
/// use creel_vgm::chips::checked;
/// use creel_vgm::format::ChipId;
///
/// assert_eq!(checked::of(ChipId::Ym2413).unwrap().name, "YM2413, VRC7");
/// assert_eq!(checked::of(ChipId::Bsmt2000), None);
/// ```
pub fn of(chip: ChipId) -> Option<&'static Checked> {
    CHIPS.iter().find(|row| row.chip == chip)
}
