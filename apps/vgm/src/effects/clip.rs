//! Soft clipping: compresses loud samples, so that none exceeds full scale.

use super::Effect;

/// The level below which samples do not change, 2 dB below full scale.
const KNEE: f32 = 0.8;

/// Compresses each sample independently.
pub(super) struct SoftClip;

impl Effect for SoftClip {
    fn apply(&mut self, frames: &mut [[f32; 2]]) {
        for side in frames.as_flattened_mut() {
            *side = bent(*side);
        }
    }
}

/// Returns the compressed sample.
///
/// Above [`KNEE`], the curve is `x / (1 + x)`. It starts with slope 1 and reaches full scale at
/// infinity.
fn bent(sample: f32) -> f32 {
    let over = (sample.abs() - KNEE) / (1.0 - KNEE);
    if over <= 0.0 {
        return sample;
    }
    let bent = KNEE + (1.0 - KNEE) * (over / (1.0 + over));
    bent.copysign(sample)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn soft_clip_is_monotonic_and_below_full_scale() {
        assert_eq!((bent(0.5), bent(-0.8)), (0.5, -0.8));
        let mut last = 0.0;
        for step in 1..4000 {
            let out = bent(step as f32 / 1000.0);
            assert!(out > last && out < 1.0, "{step}");
            assert_eq!(bent(step as f32 / -1000.0), -out);
            last = out;
        }
    }
}
