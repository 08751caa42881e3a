//! The spatial panning of the QSound, which can place voices outside of the two loudspeakers.
//!
//! Each side receives a *dry* and a *wet* signal. The dry signal comes a little later on the right.
//! The wet signal is inverted, and attenuated more at higher frequencies. It is also later than the
//! dry signal of its side, by 0.23 ms on the left and by 0.08 ms on the right. A voice at one side
//! is dry there and wet at the other side. This cancels the crosstalk to the other ear. A voice in
//! the middle has both on both sides. Pans 140h to 160h have the dry signal only.
//!
//! The program of the chip filters with 95 coefficients from a ROM that is not part of this
//! project. We designed our own filter from three properties, which we measured in the output of
//! players for single impulses:
//!
//! - The gain of the wet signal is 0.80 below 1.3 kHz, 0.47 up to 3.9 kHz, and 0.155 above.
//! - The delay of the wet signal relative to the dry one.
//! - The amounts of both for each pan.
//!
//! Source: measured by impulses at each pan, rendered by libvgm as a program at 24,038 Hz.

/// The number of places from one side to the middle.
const PLACES: usize = 17;

/// The amounts of a voice at each place, in thousandths: dry on the farther side (`FAR_DRY`), wet
/// on the nearer side (`NEAR_WET`), and wet on the farther side (`FAR_WET`). The first place is at
/// one side, and the last one is the middle. The dry amount on the nearer side is always 1.
const FAR_DRY: [i32; PLACES] = [
    0, 110, 130, 165, 200, 230, 280, 319, 380, 440, 520, 560, 640, 710, 800, 900, 1000,
];
const NEAR_WET: [i32; PLACES] = [
    0, 100, 120, 150, 180, 210, 250, 286, 301, 313, 335, 376, 460, 539, 570, 600, 625,
];
const FAR_WET: [i32; PLACES] = [
    1000, 859, 818, 800, 790, 783, 780, 772, 765, 750, 750, 720, 650, 645, 640, 630, 625,
];

/// The full volume. Products are shifted by 14 bits, so it divides by four, because the core drops
/// two bits.
pub const WHOLE: i32 = 4096;

/// The amounts of the dry and the wet signal of a voice, left and right.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pan {
    /// The amounts of the dry signal, which is not filtered.
    pub dry: [i32; 2],
    /// The amounts of the wet signal, which goes through the filter.
    pub wet: [i32; 2],
}

impl Pan {
    /// Returns the pan of a register value: 110h left to 130h right, or 140h to 160h without the
    /// filter.
    pub fn of(value: u16) -> Pan {
        let part = |thousandths: i32| (thousandths * WHOLE + 500) / 1000;
        if value >= 0x140 {
            let turn = f64::from((value - 0x140).min(32)) / 32.0 * std::f64::consts::FRAC_PI_2;
            let volume = |amount: f64| (amount * f64::from(WHOLE)).round() as i32;
            return Pan {
                dry: [volume(libm::cos(turn)), volume(libm::sin(turn))],
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

/// The number of coefficients of the filter of a side.
const TAPS: usize = 64;
/// The delays in frames after reset, in the order of their registers: wet and dry on the left, wet
/// and dry on the right.
pub const DELAYS: [u16; 4] = [0, 46, 0, 48];
/// The length of a delay line of the chip.
const DELAY_LINE: i16 = 51;
/// The number of frames by which our filters are less late than those of the chip, which are
/// longer. The dry signals are less late by the same time.
const EARLY: usize = 20;
/// The delays of the dry signal in frames, left and right, and the centres of the filters.
const DRY_LATE: [usize; 2] = [DELAYS[1] as usize - EARLY, DELAYS[3] as usize - EARLY];
const MIDDLES: [f64; 2] = [31.5, 30.0];
/// The native rate of the QSound at its usual clock of 60 MHz.
const RATE_HZ: f64 = 60_000_000.0 / 2496.0;
/// The upper frequency and the gain of each band of the wet signal.
const BANDS: [(f64, f64); 3] = [(1300.0, 0.80), (3900.0, 0.47), (RATE_HZ / 2.0, 0.155)];
/// The coefficient that stands for 1.
const ONE: f64 = 16_384.0;

/// Returns the coefficients of a filter with its centre at `middle`, oldest frame first.
fn taps(middle: f64) -> [i32; TAPS] {
    let pi = std::f64::consts::PI;
    let low_pass = |hz: f64, at: f64| {
        let cut = 2.0 * hz / RATE_HZ;
        if at.abs() < 1e-9 {
            cut
        } else {
            libm::sin(pi * cut * at) / (pi * at)
        }
    };
    std::array::from_fn(|tap| {
        // The newest frame is the last one.
        let at = (TAPS - 1 - tap) as f64 - middle;
        let next = |band: usize| BANDS.get(band + 1).map_or(0.0, |band| band.1);
        let bands = BANDS.iter().enumerate();
        let sum: f64 = bands
            .map(|(band, (hz, gain))| (gain - next(band)) * low_pass(*hz, at))
            .sum();
        // Hann's window.
        let window = 0.5 + 0.5 * libm::cos(pi * at / (TAPS / 2 + 1) as f64);
        (-sum * window * ONE).round() as i32
    })
}

/// The volume that stands for 1 in our arithmetic. The largest volume of the chip is 0x3FFF.
const UNITY: i32 = 0x4000;

/// Returns a value times a volume.
#[inline]
fn scaled(value: i32, volume: i32) -> i32 {
    match volume {
        UNITY => value,
        _ => ((i64::from(value) * i64::from(volume)) >> 14) as i32,
    }
}

/// The filters and delays of both sides.
#[derive(Clone, Debug)]
pub struct SpatialFilter {
    taps: [[i32; TAPS]; 2],
    /// The volumes of the wet and the dry signal, left and right.
    volumes: [[i32; 2]; 2],
    /// The last frames and those of the current block, left and right.
    dry: [Vec<i32>; 2],
    wet: [Vec<i32>; 2],
    /// The number of frames before the current block that are known to have no wet signal.
    plain: usize,
}

impl SpatialFilter {
    /// Creates filters in silence.
    pub fn new() -> Self {
        SpatialFilter {
            taps: MIDDLES.map(taps),
            volumes: [[UNITY; 2]; 2],
            dry: DRY_LATE.map(|late| vec![0; late]),
            wet: [vec![0; TAPS - 1], vec![0; TAPS - 1]],
            plain: SILENT_AFTER,
        }
    }

    /// Sets a volume. The signals are in the order of their registers: wet and dry on the left, wet
    /// and dry on the right.
    pub fn set_volume(&mut self, signal: usize, volume: i16) {
        self.volumes[signal / 2][signal % 2] = match volume {
            0x3FFF => UNITY,
            _ => volume.into(),
        };
    }

    /// Sets the delays of the signals in frames, in the order of their registers.
    pub fn set_delays(&mut self, delays: [u16; 4]) {
        let delays = delays.map(|delay| (delay as i16).rem_euclid(DELAY_LINE) as usize);
        // A dry signal cannot come before its voice. If it had to, all other signals come later.
        let early = delays[1].min(delays[3]).min(EARLY);
        for side in 0..2 {
            let [wet, dry] = [delays[2 * side], delays[2 * side + 1]];
            resize(&mut self.wet[side], TAPS - 1 + wet + EARLY - early);
            resize(&mut self.dry[side], dry - early);
        }
    }

    /// Filters a block. `out` contains the dry sums of the voices and is overwritten with the
    /// output.
    pub fn render(&mut self, wet: &[[i32; 2]], out: &mut [[i32; 2]]) {
        let frames = out.len();
        let is_plain = wet.iter().all(|frame| *frame == [0; 2]);
        self.plain = if is_plain { self.plain + frames } else { 0 };
        let silent = self.plain >= frames + SILENT_AFTER;
        for side in 0..2 {
            let [wet_volume, dry_volume] = self.volumes[side];
            let (dry, wets) = (&mut self.dry[side], &mut self.wet[side]);
            dry.extend(out.iter().map(|frame| frame[side]));
            wets.extend(wet.iter().map(|frame| frame[side]));
            for (frame, dry) in out.iter_mut().zip(&*dry) {
                frame[side] = scaled(*dry, dry_volume);
            }
            if !silent {
                let taps = &self.taps[side];
                for (frame, wets) in out.iter_mut().zip(wets.windows(TAPS)) {
                    let products = taps.iter().zip(wets);
                    let sum: i64 = products
                        .map(|(tap, wet)| i64::from(*tap) * i64::from(*wet))
                        .sum();
                    frame[side] += scaled((sum >> 14) as i32, wet_volume);
                }
            }
            dry.drain(..frames);
            wets.drain(..frames);
        }
    }
}

/// The number of frames without a wet signal after which the filters output nothing.
const SILENT_AFTER: usize = TAPS + DELAY_LINE as usize + EARLY;

/// Changes the number of last frames that are kept. New ones are silent.
fn resize(last: &mut Vec<i32>, frames: usize) {
    match frames.checked_sub(last.len()) {
        Some(more) => drop(last.splice(0..0, std::iter::repeat_n(0, more))),
        None => drop(last.drain(..last.len() - frames)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the gain of the wet signal of a side, and its phase relative to the dry signal in
    /// degrees.
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
        // Each row has a frequency in Hz, the gains left and right in dB, and the phases left and
        // right in degrees.
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
