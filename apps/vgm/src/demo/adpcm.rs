//! Synthetic drums and strings, and encoders for the three kinds of ADPCM that the chips decode.
//!
//! An encoder tries every code on a copy of the decoder's state, and keeps the code with the
//! nearest result. Therefore, the output of the chip stays close to the original.
//!
//! Source: the same as for the decoders, see the modules of the chips.

use std::f64::consts::TAU;

/// The number of drums. In the order of their keys, they are the bass drum, the snare and the
/// hi-hat.
pub const DRUMS: usize = 3;

/// Synthesizes a drum with `rate` samples per second, from -1 to 1.
pub fn drum(which: usize, rate: f64) -> Vec<f64> {
    let seconds = [0.22, 0.18, 0.06][which % DRUMS];
    let mut noise = 0x1234_5678_u32;
    let mut hiss = move || {
        noise ^= noise << 13;
        noise ^= noise >> 17;
        noise ^= noise << 5;
        f64::from(noise as i32) / 2_147_483_648.0
    };
    let mut before = 0.0;
    let count = (seconds * rate) as usize;
    let mut sound: Vec<f64> = (0..count)
        .map(|n| {
            let t = n as f64 / rate;
            let noise = hiss();
            let bright = (noise - before) / 2.0;
            before = noise;
            match which % DRUMS {
                // A sine that falls from 190 Hz to 48 Hz, with a click at its start.
                0 => {
                    let phase = 48.0 * t + 142.0 * 0.03 * (1.0 - libm::exp(-t / 0.03));
                    0.9 * libm::sin(TAU * phase) * libm::exp(-t / 0.08)
                        + 0.3 * bright * libm::exp(-t / 0.003)
                }
                1 => {
                    let skin = libm::sin(TAU * 185.0 * t) * libm::exp(-t / 0.04);
                    0.45 * skin + 0.55 * noise * libm::exp(-t / 0.05)
                }
                _ => 0.6 * bright * libm::exp(-t / 0.018),
            }
        })
        .collect();
    let fade = (rate * 0.005) as usize;
    for (n, sample) in sound.iter_mut().rev().take(fade).enumerate() {
        *sample *= n as f64 / fade as f64;
    }
    sound
}

/// Synthesizes a plucked string at `hz`: a burst of noise in a filtered delay loop.
///
/// Source: Karplus and Strong, "Digital synthesis of plucked-string and drum timbres" (1983).
pub fn string(hz: f64, seconds: f64, rate: f64) -> Vec<f64> {
    let length = (rate / hz).round() as usize;
    let mut seed = 1u32;
    let mut wire: Vec<f64> = (0..length)
        .map(|_| {
            seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            f64::from(seed as i32) / 2_147_483_648.0
        })
        .collect();
    let count = (seconds * rate) as usize;
    (0..count)
        .map(|n| {
            let (here, next) = (n % length, (n + 1) % length);
            let sample = wire[here];
            wire[here] = 0.498 * (wire[here] + wire[next]);
            sample * 0.8 * ((count - n) as f64 / (count as f64 * 0.1)).min(1.0)
        })
        .collect()
}

/// Returns a step size of the 12-bit codes: 16 × 1.1^n, rounded down.
fn step_size(index: i32) -> i32 {
    (16.0 * libm::pow(1.1, f64::from(index)) + 1e-9) as i32
}

/// The change of the step index for each code of the OKI format.
const OKI_MOVES: [i32; 8] = [-1, -1, -1, -1, 2, 4, 6, 8];
/// The change of the step index for each code of ADPCM-A.
const A_MOVES: [i32; 8] = [-1, -1, -1, -1, 2, 5, 7, 9];
/// The factor of the step size for each code of ADPCM-B, in 64ths.
const B_SCALES: [i32; 8] = [57, 57, 57, 57, 77, 102, 128, 153];

/// The value and the step of a decoder. The step is an index for the 12-bit codes, and a size for
/// ADPCM-B.
#[derive(Clone, Copy)]
struct State {
    value: i32,
    step: i32,
}

fn decode_12(state: State, code: u8, moves: [i32; 8]) -> State {
    let size = step_size(state.step);
    let moved = (2 * i32::from(code & 7) + 1) * size / 8;
    let value = state.value + if code & 8 != 0 { -moved } else { moved };
    State {
        value,
        step: (state.step + moves[usize::from(code & 7)]).clamp(0, 48),
    }
}

fn decode_b(state: State, code: u8) -> State {
    let moved = (2 * i32::from(code & 7) + 1) * state.step / 8;
    let value = state.value + if code & 8 != 0 { -moved } else { moved };
    State {
        value: value.clamp(-32768, 32767),
        step: (state.step * B_SCALES[usize::from(code & 7)] / 64).clamp(127, 24_576),
    }
}

/// Returns the codes whose decoded values are nearest to `sound` times `scale`, and never beyond
/// `limit`.
fn codes(
    sound: &[f64],
    (scale, limit): (f64, i32),
    start: State,
    decode: impl Fn(State, u8) -> State,
) -> Vec<u8> {
    let mut state = start;
    sound
        .iter()
        .map(|sample| {
            let aim = (sample * scale) as i32;
            let within = |code: &u8| decode(state, *code).value.abs() <= limit;
            let miss = |code: &u8| (decode(state, *code).value - aim).abs();
            let code = (0..16).filter(within).min_by_key(miss).unwrap_or(0);
            state = decode(state, code);
            code
        })
        .collect()
}

/// Encodes sound for the MSM6258. The first code is in the low half of each byte.
pub fn oki(sound: &[f64]) -> Vec<u8> {
    let start = State { value: -2, step: 0 };
    let codes = codes(sound, (1900.0, 2000), start, |state, code| {
        decode_12(state, code, OKI_MOVES)
    });
    codes
        .chunks(2)
        .map(|pair| pair[0] | pair.get(1).unwrap_or(&0) << 4)
        .collect()
}

/// Encodes sound for the ADPCM-A of the YM2610. The first code is in the high half of each byte,
/// and the data is padded to a multiple of 256 bytes.
pub fn a(sound: &[f64]) -> Vec<u8> {
    let start = State { value: 0, step: 0 };
    let codes = codes(sound, (1900.0, 2000), start, |state, code| {
        decode_12(state, code, A_MOVES)
    });
    padded(&codes, 256)
}

/// Encodes sound for ADPCM-B in the same layout, padded to a multiple of `unit` bytes.
pub fn b(sound: &[f64], unit: usize) -> Vec<u8> {
    let start = State {
        value: 0,
        step: 127,
    };
    padded(&codes(sound, (30_000.0, 32_000), start, decode_b), unit)
}

/// Packs codes to bytes and adds padding. The padding codes move up and down in turn, which is
/// silent.
fn padded(codes: &[u8], unit: usize) -> Vec<u8> {
    let mut bytes: Vec<u8> = codes
        .chunks(2)
        .map(|pair| pair[0] << 4 | pair.get(1).unwrap_or(&0))
        .collect();
    bytes.resize(bytes.len().next_multiple_of(unit), 0x08);
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn encoded_samples_decode_to_the_input() {
        let sine: Vec<f64> = (0..2000)
            .map(|n| 0.8 * (f64::from(n) * 0.1).sin())
            .collect();
        let mut state = State {
            value: 0,
            step: 127,
        };
        let bytes = b(&sine, 256);
        for (n, aim) in sine.iter().enumerate() {
            let code = bytes[n / 2] >> (4 * (1 - n % 2)) & 15;
            state = decode_b(state, code);
            if n > 20 {
                assert!(
                    (f64::from(state.value) - aim * 30_000.0).abs() < 2_500.0,
                    "{n}"
                );
            }
        }
        assert_eq!(bytes.len() % 256, 0);
    }

    #[test]
    fn step_sizes_match_the_chips() {
        assert_eq!(
            [0, 1, 2, 9, 20, 48].map(step_size),
            [16, 17, 19, 37, 107, 1552]
        );
    }
}
