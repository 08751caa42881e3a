//! Makes the samples of a frame longer or shorter, so that playback is slower or faster.

/// Resamples `from` to the length of `into` by linear interpolation.
pub(super) fn resample(from: &[i16], into: &mut [i16]) {
    let last = from.len() - 1;
    let step = last as f32 / (into.len() - 1).max(1) as f32;
    for (n, sample) in into.iter_mut().enumerate() {
        let at = n as f32 * step;
        let index = (at as usize).min(last);
        let (a, b) = (
            f32::from(from[index]),
            f32::from(from[(index + 1).min(last)]),
        );
        *sample = (a + (b - a) * (at - index as f32)).round() as i16;
    }
}

/// Removes `lag` samples of `from`, which has as many samples as `into` and the lag. The first half
/// of the result fades from the samples before the removed ones to those after them. The pitch
/// stays the same if the lag is a whole number of pitch periods.
///
/// Source: the method is known as overlap-add.
pub(super) fn remove(from: &[i16], lag: usize, into: &mut [i16]) {
    let overlap = (into.len() / 2).max(1);
    for (n, sample) in into.iter_mut().enumerate() {
        let (before, after) = (i32::from(from[n]), i32::from(from[n + lag]));
        let (share, all) = (n.min(overlap) as i32, overlap as i32);
        *sample = ((before * (all - share) + after * share) / all) as i16;
    }
}
