//! The equaliser: bands that raise or lower frequencies around, below or above a frequency.
//!
//! Source: Bristow-Johnson, "Cookbook formulae for audio equalizer biquad filter coefficients".

use std::f64::consts::{SQRT_2, TAU};
use std::str::FromStr;

use super::Effect;

/// The shape of a band.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Shape {
    Peak,
    LowShelf,
    HighShelf,
}

/// One band of the equaliser.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Band {
    shape: Shape,
    hz: f64,
    gain_db: f64,
    /// The steepness. For a peak it is the frequency divided by the width.
    q: f64,
}

impl FromStr for Band {
    type Err = String;

    /// Parses `HZ:DB`, `HZ:DB:Q`, `low:HZ:DB` or `high:HZ:DB`.
    ///
    /// ```
    /// use creel_vgm::effects::Band;
    ///
    /// assert!("1000:-3:2".parse::<Band>().is_ok());
    /// assert!("low:100:6".parse::<Band>().is_ok());
    /// assert!("1000".parse::<Band>().is_err());
    /// ```
    fn from_str(text: &str) -> Result<Self, String> {
        let shapes = [("low:", Shape::LowShelf), ("high:", Shape::HighShelf)];
        let shelf = shapes.iter().find_map(|(prefix, shape)| {
            let rest = text.strip_prefix(prefix)?;
            Some((*shape, rest))
        });
        let (shape, rest) = shelf.unwrap_or((Shape::Peak, text));
        let numbers: Option<Vec<f64>> = rest.split(':').map(|part| part.parse().ok()).collect();
        let (hz, gain_db, q) = match numbers.as_deref() {
            Some([hz, db]) => (*hz, *db, SQRT_2 / 2.0),
            Some([hz, db, q]) if shape == Shape::Peak => (*hz, *db, *q),
            _ => {
                return Err(
                    "expected HZ:DB, HZ:DB:Q, low:HZ:DB or high:HZ:DB, for example 1000:-3".into(),
                );
            }
        };
        if !(20.0..=20_000.0).contains(&hz) {
            return Err(format!(
                "the frequency of {hz} Hz is out of range: use 20 to 20000"
            ));
        }
        if !(-24.0..=24.0).contains(&gain_db) {
            return Err(format!(
                "the gain of {gain_db} dB is out of range: use -24 to 24"
            ));
        }
        if !(0.1..=20.0).contains(&q) {
            return Err(format!(
                "the steepness Q of {q} is out of range: use 0.1 to 20"
            ));
        }
        Ok(Band {
            shape,
            hz,
            gain_db,
            q,
        })
    }
}

/// The filter of a band: a biquad for each side.
pub(super) struct Filter {
    zeros: [f64; 3],
    poles: [f64; 2],
    held: [[f64; 2]; 2],
}

impl Filter {
    pub(super) fn new(band: Band, sample_rate: u32) -> Self {
        let rate = f64::from(sample_rate);
        let (sin, cos) = libm::sincos(TAU * band.hz.min(0.49 * rate) / rate);
        let a = libm::exp10(band.gain_db / 40.0);
        let alpha = sin / (2.0 * band.q);
        // A high shelf is a low shelf with the unit circle rotated by half a turn.
        let turn = if band.shape == Shape::HighShelf {
            -1.0
        } else {
            1.0
        };
        let (zeros, poles) = match band.shape {
            Shape::Peak => (
                [1.0 + alpha * a, -2.0 * cos, 1.0 - alpha * a],
                [1.0 + alpha / a, -2.0 * cos, 1.0 - alpha / a],
            ),
            Shape::LowShelf | Shape::HighShelf => {
                let (more, less, root) = (a + 1.0, a - 1.0, 2.0 * a.sqrt() * alpha);
                let cos = turn * cos;
                (
                    [
                        a * (more - less * cos + root),
                        2.0 * a * turn * (less - more * cos),
                        a * (more - less * cos - root),
                    ],
                    [
                        more + less * cos + root,
                        -2.0 * turn * (less + more * cos),
                        more + less * cos - root,
                    ],
                )
            }
        };
        Filter {
            zeros: zeros.map(|zero| zero / poles[0]),
            poles: [poles[1] / poles[0], poles[2] / poles[0]],
            held: [[0.0; 2]; 2],
        }
    }
}

impl Effect for Filter {
    fn apply(&mut self, frames: &mut [[f32; 2]]) {
        for frame in frames {
            for (sample, held) in frame.iter_mut().zip(&mut self.held) {
                let now = f64::from(*sample);
                let out = self.zeros[0] * now + held[0];
                held[0] = self.zeros[1] * now - self.poles[0] * out + held[1];
                held[1] = self.zeros[2] * now - self.poles[1] * out;
                *sample = out as f32;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the gain that a band gives to a tone, in dB.
    fn gain_db(band: &str, hz: f64) -> f64 {
        let mut filter = Filter::new(band.parse().unwrap(), 44_100);
        let tone = |at: usize| (TAU * hz * at as f64 / 44_100.0).sin() as f32 * 0.1;
        let mut frames: Vec<_> = (0..44_100).map(|at| [tone(at); 2]).collect();
        filter.apply(&mut frames);
        let power: f64 = frames[22_050..]
            .iter()
            .map(|f| f64::from(f[0]).powi(2))
            .sum();
        10.0 * (power / 22_050.0 / 0.005).log10()
    }

    #[test]
    fn equalizer_bands_have_their_gain() {
        for (band, hz, db) in [
            ("1000:6:2", 1000.0, 6.0),
            ("1000:6:2", 50.0, 0.0),
            ("low:200:-12", 30.0, -12.0),
            ("low:200:-12", 200.0, -6.0),
            ("low:200:-12", 5000.0, 0.0),
            ("high:4000:9", 15_000.0, 9.0),
            ("high:4000:9", 4000.0, 4.5),
            ("high:4000:9", 100.0, 0.0),
        ] {
            let found = gain_db(band, hz);
            assert!((found - db).abs() < 0.4, "{band} at {hz} Hz: {found} dB");
        }
    }

    #[test]
    fn coefficients_have_the_same_bits_on_all_systems() {
        // FNV-1a
        let mut hash = 0xcbf2_9ce4_8422_2325u64;
        for shape in ["", "low:", "high:"] {
            for (hz, tenths) in (20..20_000).step_by(10).zip((-240..=240).cycle()) {
                let band = format!("{shape}{hz}:{}", f64::from(tenths) / 10.0);
                let filter = Filter::new(band.parse().unwrap(), 44_100);
                for value in filter.zeros.into_iter().chain(filter.poles) {
                    hash = (hash ^ value.to_bits()).wrapping_mul(0x100_0000_01b3);
                }
            }
        }
        assert_eq!(hash, 0x612b_e391_9911_2745, "{hash:#x}");
    }

    #[test]
    fn invalid_equalizer_bands_are_rejected() {
        for text in [
            "",
            "1000",
            "5:1",
            "1000:99",
            "1000:1:0",
            "low:100:1:2",
            "mid:1:2",
        ] {
            assert!(text.parse::<Band>().is_err(), "{text}");
        }
    }
}
