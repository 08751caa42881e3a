//! Changes the pitch by reading the sound faster or slower.
//!
//! We change the tempo of the player in the opposite direction, so that the song keeps its length.
//!
//! Invariant: at the original pitch, the samples are not changed.

use crate::render::TEMPO;

/// The original pitch, in thousandths.
const UNCHANGED: u32 = 1000;

/// Reads frames faster or slower than they were made for.
#[derive(Debug, Clone)]
pub(super) struct PitchShifter {
    /// The number of input frames per output frame, in thousandths.
    pitch: u32,
    /// The position of the next output frame between the second and the third of the last four
    /// input frames, in thousandths.
    at: u32,
    last: [[f32; 2]; 4],
    taken: Vec<[f32; 2]>,
}

impl Default for PitchShifter {
    fn default() -> Self {
        PitchShifter {
            pitch: UNCHANGED,
            at: 0,
            last: [[0.0; 2]; 4],
            taken: Vec::new(),
        }
    }
}

impl PitchShifter {
    pub(super) fn set(&mut self, pitch: u32) {
        self.pitch = pitch;
    }

    /// Returns the tempo that the player needs so that the song has `tempo` after the pitch shift.
    pub(super) fn tempo_within(&self, tempo: u32) -> u32 {
        if self.pitch == UNCHANGED {
            return tempo;
        }
        (u64::from(tempo) * u64::from(TEMPO) / u64::from(self.pitch)).max(1) as u32
    }

    /// Forgets the last frames, because the next ones do not continue them.
    pub(super) fn reset(&mut self) {
        (self.at, self.last) = (0, [[0.0; 2]; 4]);
    }

    /// Fills `out` from the frames that `make` renders. Returns the number of frames, which is
    /// smaller than `out` if the song ends.
    pub(super) fn fill(
        &mut self,
        out: &mut [[f32; 2]],
        mut make: impl FnMut(&mut [[f32; 2]]) -> usize,
    ) -> usize {
        if self.pitch == UNCHANGED {
            return make(out);
        }
        let steps = self.at as usize + out.len() * self.pitch as usize;
        let mut taken = std::mem::take(&mut self.taken);
        taken.resize(steps / 1000, [0.0; 2]);
        let made = make(&mut taken);
        let is_all = made == taken.len();
        let mut from = taken[..made].iter();
        let mut given = 0;
        for frame in out.iter_mut() {
            *frame = interpolate(&self.last, self.at as f32 / 1000.0);
            self.at += self.pitch;
            while self.at >= 1000 {
                let Some(next) = from.next() else {
                    break;
                };
                self.last.rotate_left(1);
                self.last[3] = *next;
                self.at -= 1000;
            }
            if self.at >= 1000 {
                self.at %= 1000;
                break;
            }
            given += 1;
        }
        self.taken = taken;
        if is_all { out.len() } else { given }
    }
}

/// Interpolates between the second and the third of four frames with a Catmull-Rom spline.
fn interpolate(frames: &[[f32; 2]; 4], at: f32) -> [f32; 2] {
    std::array::from_fn(|side| {
        let [a, b, c, d] = frames.map(|frame| frame[side]);
        let slope = c - a;
        let bend = 2.0 * a - 5.0 * b + 4.0 * c - d;
        let twist = 3.0 * (b - c) + d - a;
        b + 0.5 * at * (slope + at * (bend + at * twist))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pitch_shift_doubles_frequency_across_blocks() {
        let mut frame = 0u32;
        let mut make = |out: &mut [[f32; 2]]| {
            for made in out.iter_mut() {
                *made = [(frame as f32 * 0.05).sin(); 2];
                frame += 1;
            }
            out.len()
        };
        let mut pitch = PitchShifter::default();
        pitch.set(2000);
        assert_eq!(pitch.tempo_within(1000), 500);
        let mut out = vec![[0.0; 2]; 1000];
        for block in out.chunks_mut(77) {
            assert_eq!(pitch.fill(block, &mut make), block.len());
        }
        for (place, frame) in out.iter().enumerate().skip(4) {
            // The interpolation delays the sound by three input frames.
            let wanted = ((2.0 * place as f32 - 3.0) * 0.05).sin();
            assert!(
                (frame[0] - wanted).abs() < 1e-3,
                "{place}: {} {wanted}",
                frame[0]
            );
        }
    }
}
