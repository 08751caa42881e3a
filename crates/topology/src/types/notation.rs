//! Sets of PUs in the notation of Linux: lists (`0-3,8`) and masks (`0000ffff`).
//!
//! Invariant: [`FromStr`] parses the output of [`Display`](fmt::Display) to an equal set.

use std::fmt;
use std::str::FromStr;

use super::cpuset::CpuSet;
use super::error::Error;

/// Parses a Linux CPU list, for example `0-3,8`, or with strides `0-31:2/4`. An empty text is the
/// empty set.
///
/// # Errors
///
/// Returns [`Error::Syntax`] if the text is not a CPU list or contains an index above
/// [`CpuSet::INDEX_MAX`].
///
/// Source: Linux, Documentation/admin-guide/kernel-parameters.rst ("cpu lists").
impl FromStr for CpuSet {
    type Err = Error;

    fn from_str(text: &str) -> Result<CpuSet, Error> {
        let mut set = CpuSet::new();
        if text.trim().is_empty() {
            return Ok(set);
        }
        for item in text.trim().split(',') {
            add_item(&mut set, item.trim()).map_err(|why| Error::syntax("CPU list", text, why))?;
        }
        Ok(set)
    }
}

/// Adds an item `N`, `N-M` or `N-M:USED/GROUP`. The last form adds the first `USED` PUs of each
/// group of `GROUP` PUs.
fn add_item(set: &mut CpuSet, item: &str) -> Result<(), String> {
    let (range, stride) = match item.split_once(':') {
        Some((range, stride)) => (range, Some(stride)),
        None => (item, None),
    };
    let (first, last) = match range.split_once('-') {
        Some((first, last)) => (index(first)?, index(last)?),
        None => (index(range)?, index(range)?),
    };
    if first > last {
        return Err(format!(
            "\"{item}\" runs backwards: write the smaller index first"
        ));
    }
    let (used, group) = match stride {
        Some(stride) => {
            let (used, group) = stride.split_once('/').ok_or_else(|| {
                format!("\"{item}\" has no group size: write FIRST-LAST:USED/GROUP")
            })?;
            (index(used)?, index(group)?)
        }
        None => (1, 1),
    };
    if used == 0 || used > group {
        return Err(format!(
            "\"{item}\" uses {used} PUs of each group of {group} PUs: USED must be 1 to GROUP"
        ));
    }
    for pu in (first..=last).filter(|pu| (pu - first) % group < used) {
        set.insert(pu);
    }
    Ok(())
}

/// Parses an OS index.
fn index(text: &str) -> Result<usize, String> {
    let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if !digits {
        return Err(format!("\"{text}\" is not a number"));
    }
    match text.parse() {
        Ok(index) if index <= CpuSet::INDEX_MAX => Ok(index),
        _ => Err(format!(
            "the number {text} is above the maximum of {}",
            CpuSet::INDEX_MAX
        )),
    }
}

/// Writes a Linux CPU list in ascending order. A run of PUs is written as `first-last`.
impl fmt::Display for CpuSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut pus = self.iter().peekable();
        let mut comma = "";
        while let Some(first) = pus.next() {
            let mut last = first;
            while let Some(next) = pus.next_if_eq(&(last + 1)) {
                last = next;
            }
            match last - first {
                0 => write!(f, "{comma}{first}")?,
                _ => write!(f, "{comma}{first}-{last}")?,
            }
            comma = ",";
        }
        Ok(())
    }
}

impl fmt::Debug for CpuSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{{{self}}}")
    }
}

impl CpuSet {
    /// Parses a kernel mask: hexadecimal words of 32 bits, the highest first, separated by commas,
    /// with or without `0x`.
    ///
    /// # Errors
    ///
    /// Returns [`Error::Syntax`] if the text is not such a mask or contains an index above
    /// [`CpuSet::INDEX_MAX`].
    ///
    /// Source: Linux, Documentation/admin-guide/cputopology.rst ("human-readable" bitmaps).
    ///
    /// ```
    /// use creel_topology::CpuSet;
    ///
    /// assert_eq!(CpuSet::parse_mask("0xf0")?.to_string(), "4-7");
    /// # Ok::<(), creel_topology::Error>(())
    /// ```
    pub fn parse_mask(text: &str) -> Result<CpuSet, Error> {
        let bad = |reason: &str| Error::syntax("CPU mask", text, reason);
        let digits = text.trim();
        let digits = digits.strip_prefix("0x").unwrap_or(digits);
        let mut set = CpuSet::new();
        let mut base = 0;
        for chunk in digits.rsplit(',') {
            if chunk.is_empty() {
                return Err(bad("a word of the mask is empty"));
            }
            for (i, digit) in chunk.chars().rev().enumerate() {
                let nibble = digit
                    .to_digit(16)
                    .ok_or_else(|| bad("a digit of the mask is not hexadecimal"))?;
                for bit in (0..4).filter(|bit| nibble >> bit & 1 == 1) {
                    let index = base + i * 4 + bit;
                    if index > Self::INDEX_MAX {
                        return Err(bad(&format!("the mask has a PU above {}", Self::INDEX_MAX)));
                    }
                    set.insert(index);
                }
            }
            base += (chunk.len() * 4).max(32);
        }
        Ok(set)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parsed_lists_print_as_written() {
        for text in ["", "0", "0-3", "0,2,4", "0-1,3-5,1000-1030,2047", "16383"] {
            let set: CpuSet = text.parse().unwrap();
            assert_eq!(set.to_string(), text);
            assert_eq!(set.iter().collect::<CpuSet>(), set);
        }
        assert_eq!("8,0-3,2\n".parse::<CpuSet>().unwrap().to_string(), "0-3,8");
        assert_eq!(
            "0-9:2/4".parse::<CpuSet>().unwrap().to_string(),
            "0-1,4-5,8-9"
        );
    }

    #[test]
    fn typos_in_lists_are_reported() {
        for text in [
            "0-", "-3", "3-1", "a", "0,,1", "0-3:2", "0-3:0/2", "0-3:3/2", "1.5", "0x3",
        ] {
            let error = text.parse::<CpuSet>().unwrap_err();
            assert!(matches!(error, Error::Syntax { .. }), "{text}: {error}");
        }
        for text in ["16384", "0-4294967295", "0-99999999999999999999999"] {
            assert!(
                text.parse::<CpuSet>()
                    .unwrap_err()
                    .to_string()
                    .contains("above"),
                "{text}"
            );
        }
    }

    #[test]
    fn masks_of_every_width_are_parsed() {
        for (mask, list) in [
            ("0", ""),
            ("00000001", "0"),
            ("fffff", "0-19"),
            ("0x00fff000", "12-23"),
            ("00000000,00000000,00155550", "4,6,8,10,12,14,16,18,20"),
            ("1,00000000", "32"),
            ("80000000,00000000,00000000", "95"),
            ("ffffffffffffffff", "0-63"),
        ] {
            assert_eq!(
                CpuSet::parse_mask(mask).unwrap().to_string(),
                list,
                "{mask}"
            );
        }
        for mask in ["", ",", "1,", "g", "0x", "1 2"] {
            assert!(CpuSet::parse_mask(mask).is_err(), "{mask}");
        }
    }
}
