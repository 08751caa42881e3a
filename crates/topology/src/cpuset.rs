//! A set of PUs by OS index, in Linux list and mask syntax.
//!
//! Invariant: no trailing zero word, so that equal sets have equal words. Indices reach
//! [`CpuSet::INDEX_MAX`], far above any kernel's limit, so that no text can ask for much memory.

use std::fmt;
use std::ops::{BitAnd, BitOr, Sub};
use std::str::FromStr;

use crate::Error;

const WORD_BITS: usize = u64::BITS as usize;

/// A set of PUs (hardware threads), each by its OS index.
///
/// ```
/// use creel_topology::CpuSet;
///
/// let set: CpuSet = "0-3,8".parse()?;
/// assert_eq!(set.len(), 5);
/// assert!(set.contains(8));
/// assert_eq!((&set - &CpuSet::from_iter([1])).to_string(), "0,2-3,8");
/// # Ok::<(), creel_topology::Error>(())
/// ```
#[derive(Clone, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct CpuSet {
    words: Vec<u64>,
}

impl CpuSet {
    /// The largest OS index that a set can hold; kernels number up to 8,192 PUs.
    pub const INDEX_MAX: usize = (1 << 14) - 1;

    /// The empty set.
    pub const fn new() -> CpuSet {
        CpuSet { words: Vec::new() }
    }

    /// The PUs `first` to `last`, both included; empty when `first > last`.
    ///
    /// # Panics
    ///
    /// When `last` is above [`CpuSet::INDEX_MAX`].
    pub fn range(first: usize, last: usize) -> CpuSet {
        (first..=last).collect()
    }

    /// Adds PU `index`; whether it was absent.
    ///
    /// # Panics
    ///
    /// When `index` is above [`CpuSet::INDEX_MAX`].
    pub fn insert(&mut self, index: usize) -> bool {
        assert!(
            index <= Self::INDEX_MAX,
            "PU {index} is above {}",
            Self::INDEX_MAX
        );
        let (word, bit) = (index / WORD_BITS, 1 << (index % WORD_BITS));
        if self.words.len() <= word {
            self.words.resize(word + 1, 0);
        }
        let absent = self.words[word] & bit == 0;
        self.words[word] |= bit;
        absent
    }

    /// Takes PU `index` out; whether it was there.
    pub fn remove(&mut self, index: usize) -> bool {
        let present = self.contains(index);
        if present {
            self.words[index / WORD_BITS] &= !(1 << (index % WORD_BITS));
            self.trim();
        }
        present
    }

    /// Whether PU `index` is in the set.
    pub fn contains(&self, index: usize) -> bool {
        self.words
            .get(index / WORD_BITS)
            .is_some_and(|word| word >> (index % WORD_BITS) & 1 == 1)
    }

    /// How many PUs are in the set.
    pub fn len(&self) -> usize {
        self.words
            .iter()
            .map(|word| word.count_ones() as usize)
            .sum()
    }

    /// Whether the set has no PU.
    pub fn is_empty(&self) -> bool {
        self.words.is_empty()
    }

    /// The lowest OS index.
    pub fn first(&self) -> Option<usize> {
        self.iter().next()
    }

    /// The highest OS index.
    pub fn last(&self) -> Option<usize> {
        let top = self.words.last()?;
        Some(self.words.len() * WORD_BITS - 1 - top.leading_zeros() as usize)
    }

    /// The PUs in ascending order of their OS index.
    pub fn iter(&self) -> impl Iterator<Item = usize> + '_ {
        self.words.iter().enumerate().flat_map(|(i, &word)| {
            let mut rest = word;
            std::iter::from_fn(move || {
                let bit = (rest != 0).then(|| rest.trailing_zeros() as usize)?;
                rest &= rest - 1;
                Some(i * WORD_BITS + bit)
            })
        })
    }

    /// Whether every PU of this set is in `other`.
    pub fn is_subset(&self, other: &CpuSet) -> bool {
        self.words.len() <= other.words.len()
            && self
                .words
                .iter()
                .zip(&other.words)
                .all(|(a, b)| a & !b == 0)
    }

    /// Whether some PU is in both sets.
    pub fn intersects(&self, other: &CpuSet) -> bool {
        self.words.iter().zip(&other.words).any(|(a, b)| a & b != 0)
    }

    /// Reads a kernel mask: hexadecimal words of 32 bits, the highest first, split by commas,
    /// with or without `0x`.
    ///
    /// # Errors
    ///
    /// [`Error::Syntax`] when it is no such mask or reaches above [`CpuSet::INDEX_MAX`].
    ///
    /// Source: Linux, Documentation/admin-guide/cputopology.rst ("human-readable" bitmaps).
    pub fn parse_mask(text: &str) -> Result<CpuSet, Error> {
        let bad = |reason: &str| Error::syntax("CPU mask", text, reason);
        let digits = text.trim();
        let digits = digits.strip_prefix("0x").unwrap_or(digits);
        let mut set = CpuSet::new();
        let mut base = 0;
        for chunk in digits.rsplit(',') {
            if chunk.is_empty() {
                return Err(bad("an empty word"));
            }
            for (i, digit) in chunk.chars().rev().enumerate() {
                let nibble = digit.to_digit(16).ok_or_else(|| bad("not hexadecimal"))?;
                for bit in (0..4).filter(|bit| nibble >> bit & 1 == 1) {
                    let index = base + i * 4 + bit;
                    if index > Self::INDEX_MAX {
                        return Err(bad(&format!("a PU above {}", Self::INDEX_MAX)));
                    }
                    set.insert(index);
                }
            }
            base += (chunk.len() * 4).max(32);
        }
        Ok(set)
    }

    fn trim(&mut self) {
        while self.words.last() == Some(&0) {
            self.words.pop();
        }
    }

    fn from_words(words: Vec<u64>) -> CpuSet {
        let mut set = CpuSet { words };
        set.trim();
        set
    }
}

/// Reads Linux list syntax: `0-3,8`, also with strides (`0-31:2/4`); the empty text is the empty set.
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

/// Adds `N`, `N-M` or `N-M:USED/GROUP`: of each group of that size, the first so many.
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
        return Err(format!("\"{item}\" runs backwards"));
    }
    let (used, group) = match stride {
        Some(stride) => {
            let (used, group) = stride
                .split_once('/')
                .ok_or_else(|| format!("\"{item}\" has no group size"))?;
            (index(used)?, index(group)?)
        }
        None => (1, 1),
    };
    if used == 0 || used > group {
        return Err(format!("\"{item}\" uses {used} of each {group}"));
    }
    for pu in (first..=last).filter(|pu| (pu - first) % group < used) {
        set.insert(pu);
    }
    Ok(())
}

fn index(text: &str) -> Result<usize, String> {
    let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if !digits {
        return Err(format!("\"{text}\" is no number"));
    }
    match text.parse() {
        Ok(index) if index <= CpuSet::INDEX_MAX => Ok(index),
        _ => Err(format!("{text} is above {}", CpuSet::INDEX_MAX)),
    }
}

/// Writes Linux list syntax: ascending, runs as `first-last`.
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

impl FromIterator<usize> for CpuSet {
    fn from_iter<I: IntoIterator<Item = usize>>(indices: I) -> CpuSet {
        let mut set = CpuSet::new();
        set.extend(indices);
        set
    }
}

impl Extend<usize> for CpuSet {
    fn extend<I: IntoIterator<Item = usize>>(&mut self, indices: I) {
        for index in indices {
            self.insert(index);
        }
    }
}

/// The PUs in both sets.
impl BitAnd for &CpuSet {
    type Output = CpuSet;

    fn bitand(self, other: &CpuSet) -> CpuSet {
        CpuSet::from_words(
            self.words
                .iter()
                .zip(&other.words)
                .map(|(a, b)| a & b)
                .collect(),
        )
    }
}

/// The PUs in either set.
impl BitOr for &CpuSet {
    type Output = CpuSet;

    fn bitor(self, other: &CpuSet) -> CpuSet {
        let (long, short) = if self.words.len() >= other.words.len() {
            (self, other)
        } else {
            (other, self)
        };
        let mut words = long.words.clone();
        for (word, more) in words.iter_mut().zip(&short.words) {
            *word |= more;
        }
        CpuSet::from_words(words)
    }
}

/// The PUs in this set and not in the other.
impl Sub for &CpuSet {
    type Output = CpuSet;

    fn sub(self, other: &CpuSet) -> CpuSet {
        let mut words = self.words.clone();
        for (word, out) in words.iter_mut().zip(&other.words) {
            *word &= !out;
        }
        CpuSet::from_words(words)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_read_and_write_alike() {
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
    fn typos_in_lists_are_named() {
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
    fn masks_of_every_width() {
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

    #[test]
    fn sets_obey_set_algebra_beyond_1024() {
        let a: CpuSet = "0-2,1500,4000".parse().unwrap();
        let b: CpuSet = "2-3,1500".parse().unwrap();
        assert_eq!((&a & &b).to_string(), "2,1500");
        assert_eq!((&a | &b).to_string(), "0-3,1500,4000");
        assert_eq!((&b | &a), (&a | &b));
        assert_eq!((&a - &b).to_string(), "0-1,4000");
        assert!((&a & &b).is_subset(&a) && !a.is_subset(&b) && a.intersects(&b));
        assert_eq!((a.first(), a.last(), a.len()), (Some(0), Some(4000), 5));
        let mut c = a.clone();
        assert!(c.remove(4000) && !c.remove(4000));
        assert_eq!(c, "0-2,1500".parse().unwrap());
    }
}
