//! The rhythm mode, in which channels 6 to 8 become five drums.
//!
//! | channel | operator | drum | its phase |
//! |---|---|---|---|
//! | 6 | 1 → 2 | bass drum | as usual; operator 1 is never added |
//! | 7 | 1 | hi-hat | from two operators' phases and the noise |
//! | 7 | 2 | snare drum | from operator 1's phase and the noise |
//! | 8 | 1 | tom-tom | its own |
//! | 8 | 2 | cymbal | from two operators' phases |
//!
//! All five drums are twice as loud as other channels.
//!
//! Source: YM3812 application manual; the phases as in ymfm.

use super::algorithms::{Family, Values};
use crate::chips::fm::algorithms::tone;
use crate::chips::fm::operator::{BLOCK, Tone};
use crate::chips::fm::tables::Waveform;

/// The waveform and the tone of an operator, and a mask for its values: -1 if the operator is
/// audible, and 0 if it is muted.
pub type Source<'a> = (&'a Waveform, &'a Tone, i32);

/// Computes in which half of their period the hi-hat and the cymbal are in each frame. This depends
/// on the phases of both operators.
///
/// Overwrites `out` with 0 for the first half and 1 for the second half.
pub fn halves(hat: &Tone, cymbal: &Tone, frames: usize, out: &mut [u16; BLOCK]) {
    let phases = hat.phase.iter().zip(&cymbal.phase);
    for (half, (a, b)) in out[..frames].iter_mut().zip(phases) {
        *half = ((a >> 2 ^ a >> 7) | a >> 3 | (b >> 5 ^ b >> 3)) & 1;
    }
}

/// Doubles the values of channel 6, which is the bass drum.
pub fn bass_drum(values: &mut Values, frames: usize) {
    for value in &mut values[..frames] {
        *value *= 2;
    }
}

/// Computes channel 7: hi-hat and snare drum.
pub fn hat_and_snare<F: Family>(
    [hat, snare]: [Source<'_>; 2],
    (halves, noise): (&[u16; BLOCK], &[u16; BLOCK]),
    frames: usize,
    out: &mut Values,
) {
    for i in 0..frames.min(BLOCK) {
        let hat_phase = halves[i] << 9 | 0xd0 >> (2 * (noise[i] ^ halves[i]));
        let snare_phase = (0x100 << (hat.1.phase[i] >> 8 & 1)) ^ noise[i] << 8;
        out[i] = both::<F>((hat, hat_phase), (snare, snare_phase), i);
    }
}

/// Computes channel 8: tom-tom and cymbal.
pub fn tom_and_cymbal<F: Family>(
    [tom, cymbal]: [Source<'_>; 2],
    halves: &[u16; BLOCK],
    frames: usize,
    out: &mut Values,
) {
    for i in 0..frames.min(BLOCK) {
        let cymbal_phase = 0x100 | halves[i] << 9;
        out[i] = both::<F>((tom, tom.1.phase[i]), (cymbal, cymbal_phase), i);
    }
}

fn both<F: Family>(a: (Source<'_>, u16), b: (Source<'_>, u16), i: usize) -> i16 {
    let [a, b] = [a, b].map(|((wave, source, heard), phase)| {
        (tone(wave, phase, 0, source.attenuation[i]) >> F::DROPPED) & heard
    });
    ((a + b).clamp(-F::LIMIT - 1, F::LIMIT) * 2) as i16
}
