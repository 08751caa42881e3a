//! Reads the raw figures of an article on a music player.
//!
//! The file has blocks that start with `NAME:`. A block contains times, one rate per time, and some
//! sizes in bytes. A line holds one value or several. `#` starts a comment.
//!
//! A time is `[hh:]mm:ss.NANOSECONDS`. Note that the nanoseconds are a *number*, because the
//! program of the article printed them without leading zeros. For example, `23:88967938` and
//! `23.88967938` are 23.088967938 s. The products of rates and times confirm this. If we read them
//! as decimals, a time would be up to 0.9 s too long.

use super::{sample::Sample, store::Measured};
use anyhow::{Context, Result, bail};
use std::path::Path;

/// Returns whether a file has this format, which means that its first line with content is `NAME:`.
pub fn is_one(text: &str) -> bool {
    let first = text.lines().map(plain).find(|line| !line.is_empty());
    first.and_then(name).is_some()
}

fn plain(line: &str) -> &str {
    line.split('#').next().unwrap_or("").trim()
}

/// Parses a line that contains only `NAME:`.
fn name(line: &str) -> Option<&str> {
    let name = line.strip_suffix(':')?;
    (!name.is_empty() && !name.contains(char::is_whitespace)).then_some(name)
}

/// Reads the blocks. Each one becomes a command.
pub fn parse(text: &str, file: &Path) -> Result<Vec<Measured>> {
    let mut all: Vec<(String, Vec<f64>, Vec<f64>)> = Vec::new();
    for (i, line) in text.lines().map(plain).enumerate() {
        if let Some(name) = name(line) {
            all.push((name.into(), Vec::new(), Vec::new()));
            continue;
        }
        for word in line.split([' ', '\t', ',']).filter(|w| !w.is_empty()) {
            let at = || format!("{}, line {}: `{word}`", file.display(), i + 1);
            let Some((_, times, numbers)) = all.last_mut() else {
                bail!("{} needs a line `NAME:` before it", at());
            };
            if word.contains(':') || (numbers.is_empty() && times.is_empty()) {
                times.push(time_s(word).with_context(at)?);
            } else if word.starts_with(|c: char| c.is_ascii_digit()) {
                let digits = word.trim_end_matches(|c: char| c.is_ascii_alphabetic() || c == '/');
                numbers.push(digits.parse().with_context(at)?);
            }
        }
    }
    let blocks = all.into_iter().map(|(name, times, numbers)| {
        if times.is_empty() || numbers.len() < times.len() {
            bail!(
                "{}: {name} needs at least one time, and a rate for each time",
                file.display()
            );
        }
        Ok(measured(name, &times, &numbers))
    });
    blocks.collect()
}

/// Combines times and numbers to samples. The numbers are one rate per time, followed by sizes. The
/// first sizes belong to the runs in order. We ignore further sizes.
fn measured(label: String, times: &[f64], numbers: &[f64]) -> Measured {
    let (rates, sizes) = numbers.split_at(times.len());
    let samples = times.iter().enumerate().map(|(i, &time)| {
        let mut sample = Sample::default();
        sample.set("wall_s", Some(time));
        sample.set("rate", rates.get(i).copied());
        sample.set("peak_rss_bytes", sizes.get(i).copied());
        sample
    });
    Measured {
        label,
        samples: samples.collect(),
        ..Measured::default()
    }
}

/// Parses a time, for example `00:00:23.088967938`, `1:02.5` or `23:88967938`. The digits after the
/// last point are a number of nanoseconds. So are those after the last colon if they are too many
/// for seconds.
fn time_s(word: &str) -> Result<f64> {
    let (whole, nanoseconds) = match word.rsplit_once('.') {
        Some(parts) => parts,
        None => match word.rsplit_once(':') {
            Some((whole, last)) if last.len() > 2 => (whole, last),
            _ => (word, "0"),
        },
    };
    let mut seconds = 0.0;
    for part in whole.split(':') {
        let number: u32 = part
            .parse()
            .context("expected a time, for example 1:02.5")?;
        seconds = seconds * 60.0 + f64::from(number);
    }
    let nanoseconds: u32 = nanoseconds
        .parse()
        .context("expected a number of nanoseconds")?;
    if nanoseconds >= 1_000_000_000 {
        bail!("the nanoseconds are more than a second");
    }
    Ok(seconds + f64::from(nanoseconds) / 1e9)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nanoseconds_have_no_leading_zeros() {
        let near =
            |text: &str, s: f64| assert!((time_s(text).unwrap() - s).abs() < 1e-12, "{text}");
        near("00:00:23.088967938", 23.088_967_938);
        near("23:88967938", 23.088_967_938);
        near("00:00:23.88967938", 23.088_967_938);
        near("00:01:02.500000000", 62.5);
        near("01:00:00.1", 3_600.000_000_001);
        for wrong in ["x", "1:x", "00:00:01.9999999999", ""] {
            assert!(time_s(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn article_blocks_become_commands() {
        let text = "# player\nold:\n00:00:23.88967938\n00:00:24.0\n00:00:25.0\n\
                    10.5x\n10.1x\n9.9x\n1000\n2000\n3000\n4000\nnew:\n0:10.0, 0:11.0\n20 19\n500 600\n";
        assert!(is_one(text));
        let all = parse(text, Path::new("f")).unwrap();
        assert_eq!(all.len(), 2);
        assert_eq!(all[0].samples.len(), 3);
        assert_eq!(all[0].samples[2].get("peak_rss_bytes"), Some(3000.0));
        assert_eq!(all[1].values("rate"), Some(vec![20.0, 19.0]));
        assert!(!is_one("command,run\n"));
        assert!(parse("a:\n1:00.0\n", Path::new("f")).is_err());
    }
}
