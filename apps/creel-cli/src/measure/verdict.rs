//! Writes the sentence of a report that compares two commands.

use creel_stats::Ratio;

/// Returns the sentence for the ratio of pairs of runs. `noise_floor` is the factor by which a
/// command differs from itself.
pub fn verdict(ratio: &Ratio, what: &str, than: &str, noise_floor: f64) -> String {
    let (Some(low), Some(high)) = (ratio.low, ratio.high) else {
        return format!(
            "{what}: one pair of runs is not enough to compare it with {than}; use more runs"
        );
    };
    let within = |factor: f64| factor < noise_floor && factor > 1.0 / noise_floor;
    if low <= 1.0 && high >= 1.0 {
        return format!(
            "{what}: no significant difference from {than} (95 %: ×{low:.3} to ×{high:.3})"
        );
    }
    if within(ratio.geometric_mean) {
        return format!(
            "{what}: no difference from {than} above the noise: ×{:.3}, and a command differs \
             from itself by ×{noise_floor:.3}",
            ratio.geometric_mean
        );
    }
    let (factor, word) = match ratio.geometric_mean {
        r if r > 1.0 => (r, "longer"),
        r => (1.0 / r, "shorter"),
    };
    let mut ends = [low, high].map(|end| if word == "longer" { end } else { 1.0 / end });
    ends.sort_by(f64::total_cmp);
    format!(
        "{what} takes {factor:.2} times {word} than {than} (95 %: {:.2} to {:.2})",
        ends[0], ends[1]
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_significant_differences_are_reported() {
        let base = [1.0, 1.1, 0.9, 1.0, 1.05, 0.95];
        let twice = base.map(|v| v * 2.0);
        let ratio = Ratio::of(&base, &twice).unwrap();
        assert!((ratio.geometric_mean - 2.0).abs() < 1e-12);
        assert!(verdict(&ratio, "B", "A", 1.0).contains("B takes 2.00 times longer than A"));
        assert!(verdict(&ratio, "B", "A", 2.5).contains("above the noise"));
        let same = Ratio::of(&base, &[1.1, 0.9, 1.0, 1.05, 0.95, 1.0]).unwrap();
        assert!(verdict(&same, "B", "A", 1.0).contains("no significant difference"));
        assert_eq!(Ratio::of(&base, &[0.0; 6]), None);
    }
}
