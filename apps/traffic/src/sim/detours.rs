//! Routes of cars that have been rerouted.
//!
//! Plans are shared. We therefore store new routes here, at places beyond those of all plans. A
//! detour consists of words with turns, followed by a word that leads back to the place in the
//! plans at which the trip ends.

use super::Rules;
use crate::random::Stream;
use serde::{Deserialize, Serialize};

/// Marks the word that leads back. Its other bits are a place in the plans.
const BACK: u32 = 1 << 31;

/// The first place of a detour. The plans end before it.
pub(super) const DETOURS: u32 = 1 << 31;
/// The maximum number of words of all detours.
pub(super) const DETOUR_WORDS_MAX: usize = (1 << 31) - 2;

/// The words of all detours, one detour after another.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct Detours {
    words: Vec<u32>,
    /// The number of words that were in use when the unused detours were last removed.
    #[serde(skip)]
    used: usize,
}

impl Clone for Detours {
    fn clone(&self) -> Self {
        Self {
            words: self.words.clone(),
            used: self.used,
        }
    }

    fn clone_from(&mut self, from: &Self) {
        self.words.clone_from(&from.words);
        self.used = from.used;
    }
}

/// The smallest number of words at which we remove unused detours. With fewer words, it would not
/// be worth the time.
const COLLECT_FROM: usize = 1 << 16;

impl Detours {
    /// Adds a detour and returns its place.
    pub fn add(&mut self, words: &[u32], back: u32) -> u32 {
        let begin = self.words.len() as u32;
        self.words.extend(words);
        self.words.push(BACK | back);
        DETOURS + begin
    }

    /// Returns whether the number of added detours makes it worth removing the unused ones.
    pub fn is_full(&self) -> bool {
        self.words.len() > COLLECT_FROM.max(2 * self.used)
    }

    /// Records that all of these detours are in use, because the caller has just removed the
    /// others. [`is_full`](Self::is_full) then compares later sizes with this one.
    pub fn collected(mut self) -> Self {
        self.used = self.words.len();
        self
    }

    /// Returns the number of words.
    pub fn len(&self) -> usize {
        self.words.len()
    }

    /// Returns whether every detour leads back to a place for which `ends` returns true.
    pub fn lead_back(&self, ends: impl Fn(u32) -> bool) -> bool {
        let back = |&word: &u32| word < BACK || ends(word & !BACK);
        self.words.last().is_none_or(|&last| last >= BACK) && self.words.iter().all(back)
    }

    pub fn bytes(&self) -> usize {
        4 * self.words.capacity()
    }

    /// Returns the remaining words of a detour from a place on, and the place that it leads back
    /// to.
    pub fn rest(&self, from: u32) -> (&[u32], u32) {
        let rest = &self.words[(from - DETOURS) as usize..];
        let length = rest.iter().position(|&word| word >= BACK);
        let length = length.expect("each detour leads back");
        (&rest[..length], rest[length] & !BACK)
    }
}

impl Rules {
    /// Resolves a place. Returns `place`, or the place in the plans that a detour leads back to,
    /// together with the word there.
    #[inline]
    pub fn follow(&self, place: u32) -> (u32, u32) {
        if place < DETOURS {
            return (place, self.plans.word(place));
        }
        let word = self.detours.words[(place - DETOURS) as usize];
        if word < BACK {
            (place, word)
        } else {
            (word & !BACK, self.plans.word(word & !BACK))
        }
    }

    /// Returns a place in the plans that belongs to the same traveller as `place`. We use it to
    /// order cars: travellers with lower numbers have lower places.
    #[inline]
    pub fn order(&self, place: u32) -> u32 {
        if place < DETOURS {
            return place;
        }
        // `back` is the end of the trip. After a traveller's last trip, it already belongs to the
        // next traveller, so we subtract 1.
        self.detours.rest(place).1 - 1
    }

    /// Returns the number of the traveller at a place.
    pub fn traveller(&self, place: u32) -> u32 {
        self.plans.traveller_at(self.order(place))
    }

    /// Returns a hash of the remaining route from a place on. It does not depend on where a detour
    /// is stored.
    pub fn route_hash(&self, place: u32) -> u64 {
        if place < DETOURS {
            return u64::from(place);
        }
        let (rest, back) = self.detours.rest(place);
        let mut hash = Stream::new(u64::from(back));
        rest.iter().for_each(|&word| hash.mix(u64::from(word)));
        hash.value()
    }
}
