//! What several commands take as arguments.

use anyhow::{Context, Result, bail};
use clap::ValueEnum;
use creel_topology::Rounding;

/// `--rounding`.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum Round {
    Floor,
    Ceil,
}

impl From<Round> for Rounding {
    fn from(round: Round) -> Rounding {
        match round {
            Round::Floor => Rounding::Floor,
            Round::Ceil => Rounding::Ceil,
        }
    }
}

/// Reads a time in seconds, at most a day.
pub fn seconds(text: &str) -> Result<f64> {
    let s: f64 = text.parse().context("no number")?;
    if !(0.0..=86_400.0).contains(&s) {
        bail!("not between 0 and a day");
    }
    Ok(s)
}

/// Reads a size in bytes: `4096`, `512M`, `2GiB`; the units are binary, at least one byte.
pub fn bytes(text: &str) -> Result<u64> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit = text[digits.len()..].to_ascii_lowercase();
    let shift = match unit.as_str() {
        "" | "b" => 0,
        "k" | "kb" | "kib" => 10,
        "m" | "mb" | "mib" => 20,
        "g" | "gb" | "gib" => 30,
        "t" | "tb" | "tib" => 40,
        _ => bail!("no unit of memory; give one of KiB, MiB, GiB, TiB"),
    };
    let number: f64 = digits.parse().context("no number")?;
    let bytes = number * (1u64 << shift) as f64;
    if !(1.0..=1e18).contains(&bytes) {
        bail!("not between a byte and an exabyte");
    }
    Ok(bytes as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_binary_units() {
        assert_eq!(bytes("4096").unwrap(), 4096);
        assert_eq!(bytes("1.5GiB").unwrap(), 3 << 29);
        assert_eq!(bytes("2G").unwrap(), 2 << 30);
        for wrong in ["", "G", "-1M", "0", "3 Ki", "1e99", "NaN"] {
            assert!(bytes(wrong).is_err(), "{wrong}");
        }
    }
}
