//! How the QSound puts voices between and beside two loudspeakers.
//!
//! Each side gets what is *dry*, a little later on the right, and what is *wet*: turned over, softer
//! the higher it is, and a fifth to a quarter of a millisecond behind. A voice at one side is dry
//! there and wet at the other, so the other ear hears the side's shadow taken off; in the middle it is
//! both, on both sides. Pans 140 to 160 are dry alone.
//!
//! The chip's program filters by 95 coefficients from a ROM that is not part of this project. The
//! filter here is of our own making, by three things that were measured of what players put out for
//! single impulses: the gain of the wet below 1.3 kHz (0.80), to 3.9 kHz (0.47) and above (0.155), the
//! time it comes behind the dry, and how much of each a pan has.
//!
//! Source: measured by impulses at each pan, rendered by libvgm as a program at 24,038 Hz.

/// Places from one side to the middle.
const PLACES: usize = 17;

/// What a voice at a place has of the dry on the farther side, and of the wet on both, in
/// thousandths; on its own side it is dry as it is.
const FAR_DRY: [i32; PLACES] = [
    0, 110, 130, 165, 200, 230, 280, 319, 380, 440, 520, 560, 640, 710, 800, 900, 1000,
];
const NEAR_WET: [i32; PLACES] = [
    0, 100, 120, 150, 180, 210, 250, 286, 301, 313, 335, 376, 460, 539, 570, 600, 625,
];
const FAR_WET: [i32; PLACES] = [
    1000, 859, 818, 800, 790, 783, 780, 772, 765, 750, 750, 720, 650, 645, 640, 630, 625,
];

/// A volume that leaves a value as it is.
pub const WHOLE: i32 = 4096;

/// How much of a voice is heard on each side.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pan {
    /// As it is.
    pub dry: [i32; 2],
    /// Through the filter.
    pub wet: [i32; 2],
}

impl Pan {
    /// What a register says: 110 left to 130 right, or 140 to 160 without the filter.
    pub fn of(value: u16) -> Pan {
        let part = |thousandths: i32| (thousandths * WHOLE + 500) / 1000;
        if value >= 0x140 {
            let turn = f64::from((value - 0x140).min(32)) / 32.0 * std::f64::consts::FRAC_PI_2;
            let volume = |amount: f64| (amount * f64::from(WHOLE)).round() as i32;
            return Pan {
                dry: [volume(turn.cos()), volume(turn.sin())],
                wet: [0; 2],
            };
        }
        let place = usize::from(value.saturating_sub(0x110).min(32));
        let is_right = place >= PLACES;
        let from_side = if is_right { 32 - place } else { place };
        let mut pan = Pan {
            dry: [WHOLE, part(FAR_DRY[from_side])],
            wet: [NEAR_WET, FAR_WET].map(|table| part(table[from_side])),
        };
        if is_right {
            pan.dry.swap(0, 1);
            pan.wet.swap(0, 1);
        }
        pan
    }
}

/// Coefficients of the filter of a side.
const TAPS: usize = 64;
/// Frames by which the dry is late, left and right, and where the filters have their middles.
const DRY_LATE: [usize; 2] = [26, 28];
const MIDDLES: [f64; 2] = [31.5, 30.0];
/// The native rate.
const RATE_HZ: f64 = 60_000_000.0 / 2496.0;
/// Up to which frequency the wet has which gain.
const BANDS: [(f64, f64); 3] = [(1300.0, 0.80), (3900.0, 0.47), (RATE_HZ / 2.0, 0.155)];
/// What a coefficient of one is.
const ONE: f64 = 16_384.0;

/// The coefficients of a filter with its middle at a place, the oldest frame's first.
fn taps(middle: f64) -> [i32; TAPS] {
    let pi = std::f64::consts::PI;
    let low_pass = |hz: f64, at: f64| {
        let cut = 2.0 * hz / RATE_HZ;
        if at.abs() < 1e-9 {
            cut
        } else {
            (pi * cut * at).sin() / (pi * at)
        }
    };
    std::array::from_fn(|tap| {
        // The newest frame is the last.
        let at = (TAPS - 1 - tap) as f64 - middle;
        let next = |band: usize| BANDS.get(band + 1).map_or(0.0, |band| band.1);
        let bands = BANDS.iter().enumerate();
        let sum: f64 = bands
            .map(|(band, (hz, gain))| (gain - next(band)) * low_pass(*hz, at))
            .sum();
        // Hann's window.
        let window = 0.5 + 0.5 * (pi * at / (TAPS / 2 + 1) as f64).cos();
        (-sum * window * ONE).round() as i32
    })
}

/// The filters and delays of both sides.
#[derive(Clone, Debug)]
pub struct SpatialFilter {
    taps: [[i32; TAPS]; 2],
    /// The last frames, and those of the block being rendered, of the left and the right.
    dry: [Vec<i32>; 2],
    wet: [Vec<i32>; 2],
    /// How many of the last frames are known to have nothing wet.
    plain: usize,
}

impl SpatialFilter {
    /// Silence.
    pub fn new() -> Self {
        SpatialFilter {
            taps: MIDDLES.map(taps),
            dry: DRY_LATE.map(|late| vec![0; late]),
            wet: [vec![0; TAPS - 1], vec![0; TAPS - 1]],
            plain: TAPS,
        }
    }

    /// Takes the sums of a block's voices, dry in `out` and wet, and overwrites `out` with what is
    /// heard.
    pub fn render(&mut self, wet: &[[i32; 2]], out: &mut [[i32; 2]]) {
        let frames = out.len();
        let is_plain = wet.iter().all(|frame| *frame == [0; 2]);
        self.plain = if is_plain { self.plain + frames } else { 0 };
        let silent = self.plain >= frames + TAPS;
        for side in 0..2 {
            let (dry, wets) = (&mut self.dry[side], &mut self.wet[side]);
            dry.extend(out.iter().map(|frame| frame[side]));
            wets.extend(wet.iter().map(|frame| frame[side]));
            for (frame, dry) in out.iter_mut().zip(&*dry) {
                frame[side] = *dry;
            }
            if !silent {
                let taps = &self.taps[side];
                for (frame, wets) in out.iter_mut().zip(wets.windows(TAPS)) {
                    let products = taps.iter().zip(wets);
                    let sum: i64 = products
                        .map(|(tap, wet)| i64::from(*tap) * i64::from(*wet))
                        .sum();
                    frame[side] += (sum >> 14) as i32;
                }
            }
            dry.drain(..frames);
            wets.drain(..frames);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Gain and phase, in degrees beside the dry, of the wet of a side.
    fn response(side: usize, hz: f64) -> (f64, f64) {
        let (mut re, mut im) = (0.0, 0.0);
        for (tap, value) in taps(MIDDLES[side]).into_iter().enumerate() {
            let late = (TAPS - 1 - tap) as f64 - DRY_LATE[side] as f64;
            let angle = -std::f64::consts::TAU * hz / RATE_HZ * late;
            re += f64::from(value) / ONE * angle.cos();
            im += f64::from(value) / ONE * angle.sin();
        }
        (re.hypot(im), im.atan2(re).to_degrees())
    }

    #[test]
    fn spatial_filters_match_measured_gains() {
        // Hz, decibels left and right, degrees left and right.
        for (hz, db, degrees) in [
            (100.0, [-1.9, -1.9], Some([173.0, 178.0])),
            (400.0, [-2.0, -2.0], Some([147.0, 167.0])),
            (800.0, [-1.4, -2.1], Some([115.0, 156.0])),
            (2400.0, [-6.8, -6.2], None),
            (3200.0, [-6.0, -7.3], None),
            (6400.0, [-16.1, -15.9], None),
            (10_000.0, [-16.3, -16.0], None),
        ] {
            for side in 0..2 {
                let (gain, phase) = response(side, hz);
                let found = 20.0 * gain.log10();
                assert!(
                    (found - db[side]).abs() < 1.5,
                    "{hz} Hz, {side}: {found} dB"
                );
                if let Some(degrees) = degrees {
                    let apart = (phase - degrees[side] + 540.0).rem_euclid(360.0) - 180.0;
                    assert!(apart.abs() < 12.0, "{hz} Hz, {side}: {phase}°");
                }
            }
        }
    }

    #[test]
    fn spatial_filter_is_independent_of_block_size() {
        let frames = |cut: usize| {
            let mut space = SpatialFilter::new();
            let mut all = Vec::new();
            let sent = |at: usize| {
                [
                    (at * 7919 % 2001) as i32 - 1000,
                    (at * 104_729 % 999) as i32,
                ]
            };
            let wet: Vec<_> = (0..400)
                .map(|at| if at < 200 { sent(at) } else { [0; 2] })
                .collect();
            let mut out: Vec<_> = (0..400).map(|at| sent(at + 5)).collect();
            for (wet, out) in wet.chunks(cut).zip(out.chunks_mut(cut)) {
                space.render(wet, out);
                all.extend_from_slice(out);
            }
            all
        };
        let whole = frames(400);
        for cut in [1, 7, 64] {
            assert!(frames(cut) == whole, "cut at every {cut}");
        }
    }
}
