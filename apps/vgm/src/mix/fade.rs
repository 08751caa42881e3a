//! The fade at the end of a song.

/// Fades out the last frames of a song.
///
/// The amplitude falls with the square of the remaining time, because this sounds like an even
/// decrease.
#[derive(Debug, Clone, Copy)]
pub struct Fade {
    /// The first frame of the fade.
    start: u64,
    /// The length of the fade in frames.
    length: u64,
}

impl Fade {
    /// Creates a fade over the last `length` of `total` frames.
    pub fn over_last(length: u64, total: u64) -> Self {
        let length = length.min(total);
        Fade {
            start: total - length,
            length,
        }
    }

    /// Fades a block of frames. `first` is the position of the block's first frame in the song.
    pub fn apply(&self, first: u64, frames: &mut [[f32; 2]]) {
        let skipped = self.start.saturating_sub(first);
        let skipped = usize::try_from(skipped).unwrap_or(usize::MAX);
        if skipped >= frames.len() {
            return;
        }
        for (frame, at) in frames[skipped..].iter_mut().zip(first + skipped as u64..) {
            let past = at - self.start;
            let left = self.length.saturating_sub(past) as f32 / self.length as f32;
            *frame = frame.map(|sample| sample * (left * left));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fade_is_independent_of_block_size() {
        let fade = Fade::over_last(100, 250);
        let mut whole = vec![[1.0; 2]; 250];
        fade.apply(0, &mut whole);
        assert!(whole[..151].iter().all(|frame| *frame == [1.0; 2]));
        assert!(whole.windows(2).all(|pair| pair[1][0] <= pair[0][0]));
        assert!(whole[249][0] > 0.0 && whole[249][0] < 0.001);
        let mut blocks = vec![[1.0; 2]; 250];
        for (place, block) in blocks.chunks_mut(7).enumerate() {
            fade.apply(place as u64 * 7, block);
        }
        assert_eq!(blocks, whole);
    }

    #[test]
    fn zero_length_fade_changes_nothing() {
        let mut frames = vec![[0.5; 2]; 10];
        Fade::over_last(0, 10).apply(0, &mut frames);
        assert_eq!(frames, vec![[0.5; 2]; 10]);
    }
}
