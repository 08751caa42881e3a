//! Arguments that several commands have in common.

use anyhow::{Context, Result, bail};
use clap::ValueEnum;
#[cfg(target_os = "linux")]
use creel_topology::Budget;
use creel_topology::Rounding;

/// The values of `--rounding`.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum Round {
    /// Round down, because an extra worker would be throttled
    Floor,
    /// Round up, so that the whole quota can be used
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

/// Parses a size in bytes, for example `4096`, `512M` or `2GiB`. The units are binary, and the size
/// is at least one byte.
pub fn bytes(text: &str) -> Result<u64> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit = text[digits.len()..].to_ascii_lowercase();
    let shift = match unit.as_str() {
        "" | "b" => 0,
        "k" | "kb" | "kib" => 10,
        "m" | "mb" | "mib" => 20,
        "g" | "gb" | "gib" => 30,
        "t" | "tb" | "tib" => 40,
        _ => bail!("unknown unit of memory: use KiB, MiB, GiB or TiB, for example 512MiB"),
    };
    let number: f64 = digits
        .parse()
        .context("expected a size, for example 512MiB")?;
    let bytes = number * (1u64 << shift) as f64;
    if !(1.0..=1e18).contains(&bytes) {
        bail!("the size must be between one byte and one exabyte");
    }
    Ok(bytes as u64)
}

/// Returns all limits on the number of workers, one per line.
#[cfg(target_os = "linux")]
pub fn limits(budget: &Budget) -> String {
    let mut text = format!("usable workers are bound by {}\n", budget.bound_by());
    for limit in budget.limits() {
        text += &format!("  {limit}: workers: {}\n", limit.workers);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_parsed_with_binary_units() {
        assert_eq!(bytes("4096").unwrap(), 4096);
        assert_eq!(bytes("1.5GiB").unwrap(), 3 << 29);
        assert_eq!(bytes("2G").unwrap(), 2 << 30);
        for wrong in ["", "G", "-1M", "0", "3 Ki", "1e99", "NaN"] {
            assert!(bytes(wrong).is_err(), "{wrong}");
        }
    }
}
