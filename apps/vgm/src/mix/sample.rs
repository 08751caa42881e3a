//! Converts mixed samples to the samples of a file: scales, rounds to nearest, and clips.

/// The number format of the samples in a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum SampleFormat {
    /// 8-bit integers, which are unsigned in WAV and signed in other files.
    I8,
    /// 16-bit integers.
    #[default]
    I16,
    /// 24-bit integers.
    I24,
    /// 32-bit integers.
    I32,
    /// 32-bit floating point with full scale at 1. Samples are not clipped.
    F32,
}

impl SampleFormat {
    /// Returns the number of bytes per sample.
    pub fn bytes(self) -> usize {
        match self {
            SampleFormat::I8 => 1,
            SampleFormat::I16 => 2,
            SampleFormat::I24 => 3,
            SampleFormat::I32 | SampleFormat::F32 => 4,
        }
    }
}

/// Converts a sample to 16 bits.
///
/// Adding 1.5 × 2^23 rounds to the nearest whole number, ties to even, and leaves the number in the
/// low bits. Since this needs no call and no branch, the compiler can vectorise the conversion of
/// whole blocks.
pub fn to_i16(sample: f32) -> i16 {
    const ROUND: f32 = 12_582_912.0;
    let scaled = (sample * 32768.0).clamp(-32768.0, 32767.0);
    ((scaled + ROUND).to_bits() as i32) as i16
}

/// Converts a sample to a signed integer of `bits` bits, at most 32.
pub fn to_int(sample: f32, bits: u32) -> i32 {
    let unit = f64::from(1u32 << (bits - 1));
    (f64::from(sample) * unit)
        .round_ties_even()
        .clamp(-unit, unit - 1.0) as i32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_round_to_nearest_and_clip() {
        for bits in [8, 16, 24, 32] {
            let top = (1i64 << (bits - 1)) as i32;
            assert_eq!(to_int(1.0, bits), top.wrapping_sub(1));
            assert_eq!(to_int(-1.0, bits), top.wrapping_neg());
            assert_eq!(to_int(-7.0, bits), top.wrapping_neg());
            assert_eq!(to_int(0.0, bits), 0);
        }
        for step in -70_000..70_000 {
            let sample = step as f32 / 65_536.0;
            assert_eq!(i32::from(to_i16(sample)), to_int(sample, 16), "{sample}");
        }
        assert_eq!(to_i16(f32::INFINITY), i16::MAX);
    }
}
