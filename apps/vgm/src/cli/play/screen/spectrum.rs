//! The spectrum of the audible sound, in bands of equal width on a logarithmic frequency scale.

use std::f32::consts::TAU;

use ratatui::layout::Rect;
use ratatui::text::{Line, Span};

use super::super::view::{SPECTRUM_FRAMES, View};
use super::style;

/// The frequency of the lowest band.
const LOW_HZ: f32 = 50.0;
/// The frequency of the highest band.
const HIGH_HZ: f32 = 12_000.0;
/// The maximum number of bands.
const BANDS_MAX: usize = 64;
/// The level of the lowest row, in dB relative to full scale.
const FLOOR_DB: f32 = -60.0;
/// The factor by which a band falls from one frame of the screen to the next.
const DECAY: f32 = 0.75;

/// Returns the rows of the spectrum, from the top.
pub fn lines(view: &mut View, area: Rect) -> Vec<Line<'static>> {
    let (rows, columns) = (usize::from(area.height), usize::from(area.width));
    if rows == 0 || columns < 8 {
        return Vec::new();
    }
    let each = columns.div_ceil(BANDS_MAX);
    let bands = columns / each;
    view.bands.resize(bands, 0.0);
    let rate = view.session.controls.sample_rate() as f32;
    let sound = view.samples.make_contiguous();
    let is_paused = view.session.controls.is_paused();
    for (place, band) in view.bands.iter_mut().enumerate().filter(|_| !is_paused) {
        let hz = LOW_HZ * libm::powf(HIGH_HZ / LOW_HZ, place as f32 / (bands - 1).max(1) as f32);
        let db = 20.0 * libm::log10f(goertzel(sound, hz / rate).max(1e-6));
        let share = (1.0 - db / FLOOR_DB).clamp(0.0, 1.0);
        *band = share.max(*band * DECAY);
    }
    let row = |row: usize| {
        let spans = view.bands.iter().map(|band| {
            let eighths = (band * rows as f32 * 8.0) as usize;
            let here = eighths.saturating_sub((rows - 1 - row) * 8).min(8);
            let sign = style::glyphs().heights[here];
            Span::styled(sign.repeat(each), style::shade(*band))
        });
        Line::from(spans.collect::<Vec<_>>())
    };
    (0..rows).map(row).collect()
}

/// Returns the strength of a frequency, which is 1 for a sine of full scale. It uses Goertzel's
/// algorithm on the latest frames. It takes eight periods of the frequency, but at least 192 and at
/// most [`SPECTRUM_FRAMES`] frames, or all frames if there are fewer. High frequencies therefore
/// use fewer frames than low ones.
fn goertzel(sound: &[f32], turns: f32) -> f32 {
    let length = ((8.0 / turns) as usize)
        .clamp(192, SPECTRUM_FRAMES)
        .min(sound.len());
    if length == 0 || turns >= 0.5 {
        return 0.0;
    }
    let turn = 2.0 * libm::cosf(TAU * turns);
    let (mut last, mut before) = (0.0f32, 0.0f32);
    for (at, sample) in sound[sound.len() - length..].iter().enumerate() {
        // A parabola as an approximation of the Hann window.
        let x = 2.0 * at as f32 / length as f32 - 1.0;
        let next = sample * (1.0 - x * x) + turn * last - before;
        (before, last) = (last, next);
    }
    let power = last * last + before * before - turn * last * before;
    power.max(0.0).sqrt() * 3.0 / length as f32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spectrum_peaks_at_the_frequency_of_a_sine() {
        for hz in [150.0f32, 1000.0, 8000.0] {
            let turns = hz / 44_100.0;
            let sine: Vec<f32> = (0..SPECTRUM_FRAMES)
                .map(|n| (TAU * turns * n as f32).sin())
                .collect();
            let here = goertzel(&sine, turns);
            assert!((0.8..1.2).contains(&here), "{hz}: {here}");
            assert!(goertzel(&sine, turns * 2.0) < 0.1, "{hz}");
        }
        assert_eq!(goertzel(&[], 0.1), 0.0);
    }
}
