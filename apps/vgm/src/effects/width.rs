//! Stereo width: scales the difference between the left and the right side.

use super::Effect;

/// The factor by which the difference of left and right is multiplied. A factor of 1 leaves both
/// sides unchanged.
pub(super) struct Width(pub(super) f32);

impl Effect for Width {
    fn apply(&mut self, frames: &mut [[f32; 2]]) {
        for frame in frames {
            let middle = (frame[0] + frame[1]) * 0.5;
            let side = (frame[0] - frame[1]) * 0.5 * self.0;
            *frame = [middle + side, middle - side];
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn width_keeps_the_mid_and_scales_the_side_signal() {
        let widened = |width: f32| {
            let mut frames = [[0.75, 0.25], [0.5, 0.5]];
            Width(width).apply(&mut frames);
            frames
        };
        assert_eq!(widened(0.0), [[0.5, 0.5], [0.5, 0.5]]);
        assert_eq!(widened(2.0), [[1.0, 0.0], [0.5, 0.5]]);
    }
}
