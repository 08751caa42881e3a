//! Formats values for people: with three digits and a short unit.

/// Formats a value with three digits. For example, 17213 ns becomes "17.2 µs".
///
/// A value that the system did not report is "unknown".
pub fn quantity(value: f64, unit: &str) -> String {
    if value.is_nan() {
        return "unknown".into();
    }
    let (prefixes, base): (&[&str], &str) =
        match unit.split_once(' ').map_or(unit, |(unit, _)| unit) {
            "ns" => (&["ns", "µs", "ms", "s"], ""),
            "µs" => (&["µs", "ms", "s"], ""),
            "ms" => (&["ms", "s"], ""),
            "s" => (&["s"], ""),
            "J" => (&["J", "kJ"], ""),
            "B" => (&["B", "kB", "MB", "GB"], ""),
            "MB" => (&["MB", "GB"], ""),
            "%" => return format!("{value:.1} %"),
            "cores" | "ratio" => return format!("{value:.3}"),
            _ => (&["", "k", "M", "G"], " "),
        };
    let mut value = value;
    let mut index = 0;
    while value.abs() >= 999.5 && index + 1 < prefixes.len() {
        value /= 1000.0;
        index += 1;
    }
    let digits = match value.abs() {
        // Zero is exact, for example the additional memory of a sample.
        0.0 => 0,
        v if v >= 99.95 => 0,
        v if v >= 9.995 => 1,
        _ => 2,
    };
    let text = format!("{value:.digits$} {}", prefixes[index]);
    if base.is_empty() {
        text
    } else {
        text.trim_end().into()
    }
}

/// Returns the head of a column: the metric, and its unit if [`quantity`] does not print the unit.
pub fn heading(metric: &str, unit: &str) -> String {
    let first = unit.split(' ').next().unwrap_or(unit);
    match first {
        "ns" | "µs" | "ms" | "s" | "J" | "B" | "MB" | "%" | "ratio" => metric.into(),
        _ if unit.ends_with("/s") => unit.into(),
        _ => format!("{metric}, {unit}"),
    }
}

/// Formats how far the smallest and the largest value are from the median, for example "−3 +12 %".
/// From ten times the median on, the largest value is a factor, for example "−3 % ×1,071".
pub fn spread(min: f64, median: f64, max: f64) -> String {
    let percent = |value: f64| (value / median - 1.0) * 100.0;
    if !(percent(min).is_finite() && percent(max).is_finite()) {
        return String::new();
    }
    let (below, factor) = (percent(min).abs(), max / median);
    if factor < 10.0 {
        return format!("−{below:.0} +{:.0} %", percent(max));
    }
    format!("−{below:.0} % ×{}", grouped(factor.round() as u64))
}

/// Formats a number with a comma between groups of three digits.
fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Formats a factor with two decimals, or without decimals from 10 on.
pub fn factor(value: f64) -> String {
    if value < 9.995 {
        format!("{value:.2}")
    } else {
        format!("{value:.0}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities_have_three_digits() {
        assert_eq!(quantity(17_213.0, "ns a call"), "17.2 µs");
        assert_eq!(quantity(283.4, "ns"), "283 ns");
        assert_eq!(quantity(999.7, "ns"), "1.00 µs");
        assert_eq!(quantity(4_750_000.0, "frames/s"), "4.75 M");
        assert_eq!(quantity(0.0123, "cores"), "0.012");
        assert_eq!(quantity(f64::NAN, "J"), "unknown");
        assert_eq!(quantity(1170.0, "MB"), "1.17 GB");
        assert_eq!(quantity(0.0, "B a task"), "0 B");
        assert_eq!(quantity(0.004, "B a task"), "0.00 B");
    }

    #[test]
    fn headings_do_not_repeat_the_unit() {
        assert_eq!(heading("time", "ns a call"), "time");
        assert_eq!(heading("speed", "tokens/s"), "tokens/s");
        assert_eq!(heading("burnt", "cores"), "burnt, cores");
        assert_eq!(heading("gain", "times"), "gain, times");
    }

    #[test]
    fn spreads_are_percentages_or_large_factors_with_few_digits() {
        assert_eq!(spread(97.0, 100.0, 112.4), "−3 +12 %");
        assert_eq!(spread(97.0, 100.0, 990.0), "−3 +890 %");
        assert_eq!(spread(99.6, 100.0, 107_139.0), "−0 % ×1,071");
        assert_eq!(spread(100.0, 100.0, 1_000.0), "−0 % ×10");
        assert_eq!(spread(0.0, 0.0, 0.0), "");
        assert_eq!(factor(0.536), "0.54");
        assert_eq!(factor(41.7), "42");
    }
}
