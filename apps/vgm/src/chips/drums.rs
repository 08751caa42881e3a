//! Six replacement drums for the YM2608.
//!
//! The drums of the chip are in a ROM inside it, which no song contains and which is not part of
//! this project. We synthesise replacements from sines and noise. They have the length and about
//! the level of the original drums, and the encoding that the chip reads. A song that plays them
//! counts as not played in full.
//!
//! Source: the YM2608 application manual on which drums there are; lengths are those of the
//! addresses in [`adpcm_a`](super::adpcm_a), loudness and decay were set by ear in comparison with
//! other players.

use std::f64::consts::TAU;
use std::sync::{Arc, LazyLock};

use super::adpcm_a::{DRUM_ENDS, packed};

/// The sample rate at the chip's usual clock. The last two drums have half of it.
const RATE_HZ: f64 = 18_489.0;

/// Returns the encoded drums, starting at address 0.
pub fn rom() -> Arc<Vec<u8>> {
    static ROM: LazyLock<Arc<Vec<u8>>> = LazyLock::new(|| Arc::new(made()));
    ROM.clone()
}

fn made() -> Vec<u8> {
    let mut rom = Vec::new();
    for (drum, end) in DRUM_ENDS.into_iter().enumerate() {
        let samples = 2 * (usize::from(end) + 1 - rom.len());
        let rate = if drum < 4 { RATE_HZ } else { RATE_HZ / 2.0 };
        let mut noise = Noise(0x2608 + drum as u32);
        let mut last = 0.0;
        let samples = (0..samples).map(|n| {
            let time = n as f64 / rate;
            let white = noise.next();
            // The difference between successive samples of noise contains mainly its high
            // frequencies.
            let bright = (white - last) / 2.0;
            last = white;
            let value = match drum {
                0 => bass(time),
                1 => 0.55 * sine(time, 210.0) * decay(time, 0.03) + 0.7 * white * decay(time, 0.02),
                2 => bright * (0.9 * decay(time, 0.008) + 0.42 * decay(time, 0.35)),
                3 => 1.6 * bright * decay(time, 0.014),
                4 => swept(time, (90.0, 110.0, 0.04)) * decay(time, 0.06),
                _ => (0.8 * sine(time, 1_700.0) + 0.5 * sine(time, 560.0)) * decay(time, 0.007),
            };
            (value * 1_900.0).clamp(-1_900.0, 1_900.0) as i32
        });
        rom.extend(packed(samples));
    }
    rom
}

fn bass(time: f64) -> f64 {
    1.1 * swept(time, (52.0, 130.0, 0.012)) * decay(time, 0.03)
}

fn sine(time: f64, hz: f64) -> f64 {
    libm::sin(TAU * hz * time)
}

/// Returns a sine that falls from `low + above` Hz to `low` Hz with a time constant of `seconds`.
fn swept(time: f64, (low, above, seconds): (f64, f64, f64)) -> f64 {
    libm::sin(TAU * (low * time + above * seconds * (1.0 - decay(time, seconds))))
}

fn decay(time: f64, seconds: f64) -> f64 {
    libm::exp(-time / seconds)
}

/// A generator of random numbers, Marsaglia's xorshift.
struct Noise(u32);

impl Noise {
    /// Returns a number between -1 and 1.
    fn next(&mut self) -> f64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 17;
        self.0 ^= self.0 << 5;
        f64::from(self.0 as i32) / f64::from(i32::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::super::ym2608::Ym2608;
    use super::*;

    #[test]
    fn each_drum_is_audible_and_ends_with_its_samples() {
        for drum in 0..6 {
            let mut chip = Ym2608::new(7_987_200);
            let rom = rom();
            let data = 0..rom.len();
            chip.rhythm_rom_mut().add_block(0, rom, data);
            for (reg, value) in [(0x11, 63), (0x18 + drum, 0xDF), (0x10, 1 << drum)] {
                chip.write(0, reg, value);
            }
            let mut frames = vec![[0; 2]; 55_467];
            chip.render(&mut frames);
            let loudest = frames.iter().map(|frame| frame[0].abs()).max();
            assert!(
                (6_000..16_384).contains(&loudest.unwrap()),
                "{drum} {loudest:?}"
            );
            let last = frames.iter().rposition(|frame| frame[0] != 0).unwrap();
            let ms = last as f64 / 55.467;
            let expected = [48.5, 69.2, 643.8, 41.5, 138.4, 27.7][usize::from(drum)];
            assert!((ms - expected).abs() < 1.0, "{drum} {ms}");
        }
    }
}
