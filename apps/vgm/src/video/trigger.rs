//! The trigger: finds the place in a voice's wave at which to draw it, so that the picture of a
//! steady tone stands still.
//!
//! A picture shows some milliseconds of sound, and the tones do not repeat in step with the
//! pictures. If we drew the wave at the time of the picture, it would jump. Therefore, we move each
//! wave by less than a few periods, as the trigger of an oscilloscope does:
//!
//! 1. We estimate the period of the tone from its autocorrelation.
//! 2. At the start of a tone, we choose the place where the wave rises most. For example, this is
//!    the rising edge of a square wave.
//! 3. In the following pictures, we choose the place where the wave is most similar to the previous
//!    picture. If the pitch has changed a little, we stretch the previous picture first, because a
//!    vibrato must not let the trigger jump.
//!
//! Noise and chords have no period. Their waves stay where they are.
//!
//! Sources: Philip McLeod and Geoff Wyvill, "A smarter way to find pitch", ICMC 2005, for the
//! normalised autocorrelation and the choice of its peak.

use std::ops::Range;

/// The lowest frequency for which we find a period. It is below the lowest string of a bass.
const LOWEST_HZ: f32 = 35.0;
/// The length of the analysed wave, as a multiple of the longest period.
const ANALYSED_PERIODS: f32 = 2.4;
/// The shortest period that we search for, in samples.
const SHORTEST: usize = 3;
/// The factor by which we reduce the sample rate to search for long periods.
const DECIMATION: usize = 4;
/// The longest period, in samples, that we search for at the full sample rate.
const FINE: usize = 6 * DECIMATION;
/// The autocorrelation (1 for a perfect period) below which we assume that there is no period.
const CLEAR: f32 = 0.5;
/// We take the shortest period whose autocorrelation is at least this share of the best one.
const SHORT_ENOUGH: f32 = 0.93;
/// The change of the period between two pictures beyond which a new tone begins.
const NEW_TONE: f32 = 0.08;
/// The similarity to the previous picture below which a new tone begins.
const SIMILAR: f32 = 0.4;
/// The weight of a rising wave, next to the similarity with weight 1.
const EDGE: f32 = 0.25;
/// The penalty for the most distant place. It decides between equal places in several periods.
const DISTANCE: f32 = 0.04;
/// The share of the newest picture in the reference for the next one.
const BLEND: f32 = 0.4;

/// The trigger of one voice.
#[derive(Debug, Clone)]
pub struct Trigger {
    /// The longest period, in samples.
    longest: usize,
    /// The wave of the previous pictures around their trigger, with a mean power of 1. It is empty
    /// before the start of a tone.
    reference: Vec<f32>,
    /// The period of the reference, in samples.
    period: f32,
    /// Scratch memory: waves with fewer samples, a stretched reference, and sums of powers.
    coarse: Vec<f32>,
    coarse_reference: Vec<f32>,
    stretched: Vec<f32>,
    powers: Vec<f32>,
}

impl Trigger {
    /// Creates a trigger for waves of this sample rate.
    pub fn new(sample_rate: u32) -> Self {
        Trigger {
            longest: (sample_rate as f32 / LOWEST_HZ) as usize,
            reference: Vec::new(),
            period: 0.0,
            coarse: Vec::new(),
            coarse_reference: Vec::new(),
            stretched: Vec::new(),
            powers: Vec::new(),
        }
    }

    /// Returns the number of samples that [`find`](Self::find) needs on each side of the centre.
    pub fn margin(&self) -> usize {
        self.longest * 3 + 16
    }

    /// Returns the distance from `centre` to the place that belongs in the middle of the picture,
    /// in samples. It is less than two periods.
    ///
    /// Call this once per picture, in the order of the pictures.
    ///
    /// # Panics
    ///
    /// Panics if `wave` has fewer than [`margin`](Self::margin) samples on a side of the centre.
    pub fn find(&mut self, wave: &[f32], centre: usize) -> f64 {
        let Some(period) = self.find_period(wave, centre) else {
            self.reference.clear();
            return 0.0;
        };
        let ratio = period / self.period;
        let is_same_tone = !self.reference.is_empty() && (ratio - 1.0).abs() < NEW_TONE;
        let place = if is_same_tone {
            self.stretch_reference(ratio, half_window(period));
            self.match_reference(wave, centre, period)
        } else {
            None
        };
        let place = place.unwrap_or_else(|| {
            self.reference.clear();
            steepest(wave, centre, period)
        });
        self.period = period;
        self.update_reference(wave, place, half_window(period));
        place - centre as f64
    }

    /// Estimates the period around the centre, in samples.
    fn find_period(&mut self, wave: &[f32], centre: usize) -> Option<f32> {
        let half = (self.longest as f32 * ANALYSED_PERIODS / 2.0) as usize;
        let part = &wave[centre - half..centre + half];
        let power: f32 = part.iter().map(|sample| sample * sample).sum();
        if power < 1e-9 * part.len() as f32 {
            return None;
        }
        self.coarse.clear();
        let mean = |samples: &[f32]| samples.iter().sum::<f32>() / samples.len() as f32;
        self.coarse.extend(part.chunks_exact(DECIMATION).map(mean));
        let mut values = Vec::with_capacity(FINE + self.longest / DECIMATION);
        // High tones repeat often, so a part of the wave is enough for them.
        let short = &part[half - half / 2..half + half / 2];
        sum_powers(short, &mut self.powers);
        let fine = SHORTEST..=FINE;
        values.extend(fine.map(|lag| (lag as f32, similarity(short, &self.powers, lag))));
        sum_powers(&self.coarse, &mut self.powers);
        let long = FINE / DECIMATION + 1..=self.longest / DECIMATION;
        let value = |lag| similarity(&self.coarse, &self.powers, lag);
        values.extend(long.map(|lag| ((lag * DECIMATION) as f32, value(lag))));
        let (lag, clarity) = best_peak(&values)?;
        if clarity < CLEAR {
            return None;
        }
        // The exact period, from the full sample rate.
        sum_powers(part, &mut self.powers);
        let (lag, reach) = (
            lag as usize,
            if lag as usize > FINE { DECIMATION } else { 1 },
        );
        let value = |lag| similarity(part, &self.powers, lag);
        let lags = (lag - reach).max(2)..=lag + reach;
        let best = lags.max_by(|a, b| value(*a).total_cmp(&value(*b)))?;
        Some(best as f32 + vertex([best - 1, best, best + 1].map(value)))
    }

    /// Stretches the reference to a period that is `ratio` times as long.
    fn stretch_reference(&mut self, ratio: f32, half: usize) {
        let middle = (self.reference.len() / 2) as f32;
        let old = &self.reference;
        let at = |place: usize| {
            let place = (place as f32 - half as f32) / ratio + middle;
            interpolate(old, f64::from(place))
        };
        self.stretched.clear();
        self.stretched.extend((0..=2 * half).map(at));
        std::mem::swap(&mut self.reference, &mut self.stretched);
    }

    /// Returns the place around the centre that is most similar to the reference, or `None` if no
    /// place is similar.
    fn match_reference(&mut self, wave: &[f32], centre: usize, period: f32) -> Option<f64> {
        let half = self.reference.len() / 2;
        let reach = (period * 1.1).ceil() as usize + 1;
        let penalty = |place: usize| DISTANCE * place.abs_diff(centre) as f32 / reach as f32;
        // We search coarsely first, because low tones have many places and long references.
        let step = ((period / 48.0) as usize).clamp(1, 8);
        let (coarse_half, places) = (half / step, 2 * reach / step + 1);
        let first = centre - reach - coarse_half * step;
        let coarse = wave[first..].iter().step_by(step);
        self.coarse.clear();
        self.coarse.extend(coarse.take(places + 2 * coarse_half));
        let reference = self.reference[half - coarse_half * step..]
            .iter()
            .step_by(step);
        self.coarse_reference.clear();
        self.coarse_reference
            .extend(reference.take(2 * coarse_half + 1));
        let score = |place: &usize| {
            let fit = fit(&self.coarse_reference, &self.coarse, place + coarse_half);
            fit - penalty(centre - reach + place * step)
        };
        let best = maximum(0..places, score).unwrap_or(reach / step);
        let best = centre - reach + best * step;
        let score = |place: usize| fit(&self.reference, wave, place) - penalty(place);
        let best = maximum(best - step..best + step + 1, |place| score(*place)).unwrap_or(best);
        if similarity_to(&self.reference, wave, best) < SIMILAR {
            return None;
        }
        let around = [best - 1, best, best + 1].map(score);
        Some(best as f64 + f64::from(vertex(around)))
    }

    /// Adds the wave around `place` to the reference.
    fn update_reference(&mut self, wave: &[f32], place: f64, half: usize) {
        let at = |offset: usize| interpolate(wave, place + offset as f64 - half as f64);
        let power: f32 = (0..=2 * half).map(|offset| at(offset) * at(offset)).sum();
        let scale = ((2 * half + 1) as f32 / power.max(1e-12)).sqrt();
        if self.reference.len() == 2 * half + 1 {
            for (offset, old) in self.reference.iter_mut().enumerate() {
                *old += BLEND * (at(offset) * scale - *old);
            }
        } else {
            self.reference.clear();
            self.reference
                .extend((0..=2 * half).map(|offset| at(offset) * scale));
        }
    }
}

/// Returns half of the length of the reference for a period.
fn half_window(period: f32) -> usize {
    (period * 1.5) as usize + 8
}

/// Returns the place around the centre where the wave rises most, at the start of a tone.
fn steepest(wave: &[f32], centre: usize, period: f32) -> f64 {
    let (half, reach) = (half_window(period) / 3, (period * 0.6).ceil() as usize + 1);
    let score = |place: usize| {
        let distance = place.abs_diff(centre) as f32 / reach as f32;
        rise(wave, place, half) - DISTANCE * distance
    };
    let places = centre - reach..centre + reach + 1;
    let best = maximum(places, |place| score(*place)).unwrap_or(centre);
    best as f64 + f64::from(vertex([best - 1, best, best + 1].map(score)))
}

/// Returns the place with the highest score, and the first one of several.
fn maximum(places: Range<usize>, score: impl Fn(&usize) -> f32) -> Option<usize> {
    let scored = places.map(|place| (place, score(&place)));
    let best = scored.reduce(|best, next| if next.1 > best.1 { next } else { best });
    best.map(|(place, _)| place)
}

/// Returns how well a place fits: it is similar to the reference, and the wave rises there.
fn fit(reference: &[f32], wave: &[f32], place: usize) -> f32 {
    similarity_to(reference, wave, place) + EDGE * rise(wave, place, reference.len() / 6)
}

/// Returns how much higher the wave is after a place than before it, relative to its size. The
/// result is between -1 and 1.
fn rise(wave: &[f32], place: usize, half: usize) -> f32 {
    let (mut rise, mut size) = (0.0, 1e-12);
    for distance in 0..half {
        let (after, before) = (wave[place + distance], wave[place - 1 - distance]);
        let weight = 1.0 - distance as f32 / half as f32;
        rise += (after - before) * weight;
        size += (after.abs() + before.abs()) * weight;
    }
    rise / size
}

/// Returns the normalised correlation of the wave around `place` with a reference.
fn similarity_to(reference: &[f32], wave: &[f32], place: usize) -> f32 {
    let wave = &wave[place - reference.len() / 2..][..reference.len()];
    let power = dot(wave, wave) * dot(reference, reference);
    dot(wave, reference) / power.sqrt().max(1e-12)
}

/// Returns the similarity of the wave to itself `lag` samples later. It is 1 if the wave repeats
/// exactly after `lag` samples, and less otherwise. `powers` are those of [`sum_powers`].
fn similarity(wave: &[f32], powers: &[f32], lag: usize) -> f32 {
    let length = wave.len() - lag;
    let power = powers[length] + (powers[wave.len()] - powers[lag]);
    2.0 * dot(&wave[..length], &wave[lag..]) / power.max(1e-12)
}

/// Computes the power of the first samples of a wave, for each number of samples.
fn sum_powers(wave: &[f32], powers: &mut Vec<f32>) {
    powers.clear();
    powers.push(0.0);
    let mut sum = 0.0_f64;
    powers.extend(wave.iter().map(|sample| {
        sum += f64::from(sample * sample);
        sum as f32
    }));
}

/// Returns the sum of the products of two waves.
fn dot(a: &[f32], b: &[f32]) -> f32 {
    // The sums are independent of each other, so that the compiler can use SIMD instructions.
    let mut sums = [0.0_f32; 16];
    let (a, a_rest) = a.as_chunks::<16>();
    let (b, b_rest) = b.as_chunks::<16>();
    for (a, b) in a.iter().zip(b) {
        for (sum, (a, b)) in sums.iter_mut().zip(a.iter().zip(b)) {
            *sum += a * b;
        }
    }
    let rest: f32 = a_rest.iter().zip(b_rest).map(|(a, b)| a * b).sum();
    sums.iter().sum::<f32>() + rest
}

/// Returns the first of the peaks that is nearly as high as the highest. A peak lies between two
/// lower values, and after the first dip, because each wave is similar to itself at a lag of 0.
fn best_peak(values: &[(f32, f32)]) -> Option<(f32, f32)> {
    let dip = values.iter().position(|(_, value)| *value < CLEAR)?;
    let is_peak = |three: &&[(f32, f32)]| three[1].1 >= three[0].1 && three[1].1 >= three[2].1;
    let peaks = || {
        values[dip..]
            .windows(3)
            .filter(is_peak)
            .map(|three| three[1])
    };
    let highest = peaks().map(|peak| peak.1).max_by(f32::total_cmp)?;
    peaks().find(|peak| peak.1 >= SHORT_ENOUGH * highest)
}

/// Returns the place of the maximum of a parabola through three values, relative to the middle one.
fn vertex([left, middle, right]: [f32; 3]) -> f32 {
    let curve = left - 2.0 * middle + right;
    match curve < -1e-12 {
        true => ((left - right) / (2.0 * curve)).clamp(-0.5, 0.5),
        false => 0.0,
    }
}

/// Returns the value of a wave between two samples, or 0 outside of it.
fn interpolate(wave: &[f32], place: f64) -> f32 {
    if place < 0.0 || place >= wave.len() as f64 {
        return 0.0;
    }
    let index = place as usize;
    let next = wave.get(index + 1).unwrap_or(&wave[index]);
    wave[index] + (next - wave[index]) * (place - index as f64) as f32
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::f64::consts::TAU;

    const RATE: u32 = 44_100;
    const PICTURES_PER_SECOND: f64 = 60.0;

    /// Returns the distances, in samples, between the phases of consecutive pictures. `wave` maps a
    /// phase, which counts the periods since the start, to a level. `hz` is the frequency at a
    /// time.
    fn jumps(hz: impl Fn(f64) -> f64, wave: impl Fn(f64) -> f64) -> Vec<f64> {
        let mut trigger = Trigger::new(RATE);
        let margin = trigger.margin();
        let (mut phase, mut phases, mut samples) = (0.0, Vec::new(), Vec::new());
        for at in 0..2 * margin + RATE as usize {
            phases.push(phase);
            samples.push(wave(phase) as f32);
            phase += hz(at as f64 / f64::from(RATE)) / f64::from(RATE);
        }
        let pictures = 0..PICTURES_PER_SECOND as usize;
        let found: Vec<(f64, f64)> = pictures
            .map(|picture| {
                let step = f64::from(RATE) / PICTURES_PER_SECOND;
                let centre = margin + (picture as f64 * step) as usize;
                let place = centre as f64 + trigger.find(&samples, centre);
                let (index, part) = (place as usize, place.fract());
                let period = 1.0 / (phases[index + 1] - phases[index]);
                (phases[index] + part / period, period)
            })
            .collect();
        let jump = |pair: &[(f64, f64)]| {
            let turn = pair[1].0 - pair[0].0;
            (turn - turn.round()) * pair[1].1
        };
        found.windows(2).map(jump).collect()
    }

    fn assert_still(name: &str, most: f64, jumps: &[f64]) {
        assert_eq!(jumps.len(), 59);
        let worst = jumps
            .iter()
            .fold(0.0, |worst: f64, jump| worst.max(jump.abs()));
        assert!(worst < most, "{name}: {worst} samples, {jumps:?}");
    }

    fn square(phase: f64) -> f64 {
        if phase.fract() < 0.5 { 0.4 } else { -0.4 }
    }

    fn saw(phase: f64) -> f64 {
        phase.fract() * 0.8 - 0.4
    }

    fn fm(phase: f64) -> f64 {
        ((phase * TAU).sin() + 0.3 * (phase * 3.0 * TAU + 2.0 * (phase * TAU).sin()).sin()) * 0.3
    }

    #[test]
    fn waves_of_steady_tones_stand_still() {
        for hz in [41.2, 65.4, 110.0, 261.63, 440.3, 1046.5, 2793.8, 4186.0] {
            let pulse = |phase: f64| if phase.fract() < 0.125 { 0.4 } else { -0.1 };
            let waves: [(&str, &dyn Fn(f64) -> f64); 4] = [
                ("square", &square),
                ("saw", &saw),
                ("fm", &fm),
                ("pulse", &pulse),
            ];
            for (name, wave) in waves {
                // A sampled edge has no exact place. It lies anywhere between two samples.
                assert_still(&format!("{name} {hz}"), 1.5, &jumps(|_| hz, wave));
            }
        }
    }

    #[test]
    fn waves_with_vibrato_stand_still() {
        let vibrato = |time: f64| 330.0 * (1.0 + 0.015 * (time * 6.0 * TAU).sin());
        assert_still("square", 2.0, &jumps(vibrato, square));
        assert_still("saw", 2.0, &jumps(vibrato, saw));
        assert_still("fm", 2.0, &jumps(vibrato, fm));
    }

    #[test]
    fn a_changing_timbre_does_not_move_the_wave() {
        let hz = 196.0;
        let wave = |phase: f64| {
            let index = 3.0 * (-phase / hz * 3.0).exp();
            (phase * TAU + index * (phase * 2.0 * TAU).sin()).sin() * 0.4
        };
        assert_still("decaying FM", 3.0, &jumps(|_| hz, wave));
    }

    #[test]
    fn silence_and_noise_do_not_move_the_wave() {
        let mut trigger = Trigger::new(RATE);
        let margin = trigger.margin();
        assert_eq!(trigger.find(&vec![0.0; 2 * margin], margin), 0.0);
        let mut state = 1_u32;
        let mut noise = || {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> 16) as f32 / 65_536.0 - 0.5
        };
        let noise: Vec<f32> = (0..2 * margin).map(|_| noise()).collect();
        assert_eq!(trigger.find(&noise, margin), 0.0);
    }
}
