//! A set of PUs by OS index.
//!
//! Invariant: the last word is not zero, so equal sets have equal words. Indices are at most
//! [`CpuSet::INDEX_MAX`], which is far above the limit of any kernel, so no text can make us
//! allocate much memory.

use std::iter::{Enumerate, FusedIterator};
use std::ops::{BitAnd, BitOr, RangeInclusive, Sub};
use std::slice;

const WORD_BITS: usize = u64::BITS as usize;

/// A set of PUs (hardware threads), identified by OS index.
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
    /// The largest OS index that a set can hold. Kernels support up to 8,192 PUs.
    ///
    /// ```
    /// use creel_topology::CpuSet;
    ///
    /// assert_eq!(CpuSet::range(0..=CpuSet::INDEX_MAX).len(), 16_384);
    /// ```
    pub const INDEX_MAX: usize = (1 << 14) - 1;

    /// Creates an empty set.
    ///
    /// ```
    /// use creel_topology::CpuSet;
    ///
    /// assert!(CpuSet::new().is_empty());
    /// ```
    pub const fn new() -> CpuSet {
        CpuSet { words: Vec::new() }
    }

    /// Returns the PUs of a range. The set is empty if the range is empty.
    ///
    /// # Panics
    ///
    /// Panics if the end of the range is above [`CpuSet::INDEX_MAX`] and the range is not empty.
    ///
    /// ```
    /// use creel_topology::CpuSet;
    ///
    /// assert_eq!(CpuSet::range(2..=4).to_string(), "2-4");
    /// ```
    pub fn range(pus: RangeInclusive<usize>) -> CpuSet {
        pus.collect()
    }

    /// Adds the PU `index`. Returns whether it was absent.
    ///
    /// # Panics
    ///
    /// Panics if `index` is above [`CpuSet::INDEX_MAX`].
    ///
    /// ```
    /// use creel_topology::CpuSet;
    ///
    /// let mut set = CpuSet::new();
    /// assert!(set.insert(7) && !set.insert(7));
    /// ```
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

    /// Removes the PU `index`. Returns whether it was present.
    ///
    /// ```
    /// use creel_topology::CpuSet;
    ///
    /// let mut set = CpuSet::range(0..=3);
    /// assert!(set.remove(1) && !set.remove(1));
    /// assert_eq!(set.to_string(), "0,2-3");
    /// ```
    pub fn remove(&mut self, index: usize) -> bool {
        let present = self.contains(index);
        if present {
            self.words[index / WORD_BITS] &= !(1 << (index % WORD_BITS));
            self.trim();
        }
        present
    }

    /// Returns whether the PU `index` is in the set.
    ///
    /// ```
    /// use creel_topology::CpuSet;
    ///
    /// assert!(CpuSet::range(0..=3).contains(3));
    /// ```
    pub fn contains(&self, index: usize) -> bool {
        self.words
            .get(index / WORD_BITS)
            .is_some_and(|word| word >> (index % WORD_BITS) & 1 == 1)
    }

    /// Returns the number of PUs in the set.
    ///
    /// ```
    /// use creel_topology::CpuSet;
    ///
    /// assert_eq!(CpuSet::range(0..=3).len(), 4);
    /// ```
    pub fn len(&self) -> usize {
        self.words
            .iter()
            .map(|word| word.count_ones() as usize)
            .sum()
    }

    /// Returns whether the set is empty.
    ///
    /// ```
    /// use creel_topology::CpuSet;
    ///
    /// assert!(!CpuSet::range(0..=3).is_empty());
    /// ```
    pub fn is_empty(&self) -> bool {
        self.words.is_empty()
    }

    /// Returns the lowest OS index.
    ///
    /// ```
    /// use creel_topology::CpuSet;
    ///
    /// assert_eq!(CpuSet::range(2..=3).first(), Some(2));
    /// ```
    pub fn first(&self) -> Option<usize> {
        self.iter().next()
    }

    /// Returns the highest OS index.
    ///
    /// ```
    /// use creel_topology::CpuSet;
    ///
    /// assert_eq!(CpuSet::range(2..=3).last(), Some(3));
    /// ```
    pub fn last(&self) -> Option<usize> {
        let top = self.words.last()?;
        Some(self.words.len() * WORD_BITS - 1 - top.leading_zeros() as usize)
    }

    /// Returns an iterator over the PUs in ascending order of their OS index.
    ///
    /// ```
    /// use creel_topology::CpuSet;
    ///
    /// assert!(CpuSet::range(2..=4).iter().eq([2, 3, 4]));
    /// ```
    pub fn iter(&self) -> CpuSetIter<'_> {
        CpuSetIter {
            words: self.words.iter().enumerate(),
            first: 0,
            rest: 0,
        }
    }

    /// Returns whether every PU of this set is in `other`.
    ///
    /// ```
    /// use creel_topology::CpuSet;
    ///
    /// assert!(CpuSet::range(1..=2).is_subset(&CpuSet::range(0..=3)));
    /// ```
    pub fn is_subset(&self, other: &CpuSet) -> bool {
        self.words.len() <= other.words.len()
            && self
                .words
                .iter()
                .zip(&other.words)
                .all(|(a, b)| a & !b == 0)
    }

    /// Returns whether some PU is in both sets.
    ///
    /// ```
    /// use creel_topology::CpuSet;
    ///
    /// assert!(!CpuSet::range(0..=1).intersects(&CpuSet::range(2..=3)));
    /// ```
    pub fn intersects(&self, other: &CpuSet) -> bool {
        self.words.iter().zip(&other.words).any(|(a, b)| a & b != 0)
    }

    /// Removes trailing zero words.
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

impl<'a> IntoIterator for &'a CpuSet {
    type Item = usize;
    type IntoIter = CpuSetIter<'a>;

    /// Returns the iterator of [`CpuSet::iter`].
    fn into_iter(self) -> CpuSetIter<'a> {
        self.iter()
    }
}

/// An iterator over the PUs of a [`CpuSet`], in ascending order of their OS index.
/// [`CpuSet::iter`] creates it.
///
/// ```
/// use creel_topology::CpuSet;
///
/// let set = CpuSet::range(62..=64);
/// let mut pus = Vec::new();
/// for pu in &set {
///     pus.push(pu);
/// }
/// assert_eq!(pus, [62, 63, 64]);
/// ```
#[derive(Debug, Clone)]
pub struct CpuSetIter<'a> {
    /// The remaining words, with their places.
    words: Enumerate<slice::Iter<'a, u64>>,
    /// The index of the first PU of the current word.
    first: usize,
    /// The bits of the current word that were not returned yet.
    rest: u64,
}

impl Iterator for CpuSetIter<'_> {
    type Item = usize;

    fn next(&mut self) -> Option<usize> {
        while self.rest == 0 {
            let (place, &word) = self.words.next()?;
            (self.first, self.rest) = (place * WORD_BITS, word);
        }
        let bit = self.rest.trailing_zeros() as usize;
        self.rest &= self.rest - 1;
        Some(self.first + bit)
    }
}

impl FusedIterator for CpuSetIter<'_> {}

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

/// Returns the PUs that are in both sets.
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

/// Returns the PUs that are in either set.
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

/// Returns the PUs that are in this set and not in the other.
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
    fn sets_of_more_than_1024_pus_obey_set_algebra() {
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
