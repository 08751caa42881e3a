//! Routes that cars have taken instead of those of their plans.
//!
//! Plans are shared and never change. Places beyond their end are here: for each detour its words,
//! and a word that leads back to the place in the plans where the trip ends.

use super::Rules;
use crate::random::Stream;
use serde::{Deserialize, Serialize};

/// A word that leads back; the other bits are the place.
const BACK: u32 = 1 << 31;

/// The words of all detours.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct Detours {
    words: Vec<u32>,
}

impl Detours {
    /// Adds one, and gives its place behind plans that end at `end`.
    pub fn add(&mut self, end: u32, words: &[u32], back: u32) -> u32 {
        let begin = self.words.len() as u32;
        self.words.extend(words);
        self.words.push(BACK | back);
        end + begin
    }

    /// How many words there are.
    pub fn len(&self) -> usize {
        self.words.len()
    }

    /// Whether each leads back, to a place that `ends` is true of.
    pub fn lead_back(&self, ends: impl Fn(u32) -> bool) -> bool {
        let back = |&word: &u32| word < BACK || ends(word & !BACK);
        self.words.last().is_none_or(|&last| last >= BACK) && self.words.iter().all(back)
    }

    pub fn bytes(&self) -> usize {
        4 * self.words.capacity()
    }

    /// The words from one on, and where they lead back to.
    pub fn rest(&self, from: u32) -> (&[u32], u32) {
        let rest = &self.words[from as usize..];
        let length = rest.iter().position(|&word| word >= BACK);
        let length = length.expect("each detour leads back");
        (&rest[..length], rest[length] & !BACK)
    }
}

impl Rules {
    /// The place at which a route goes on, which is `place` or where that leads back to, and its word.
    #[inline]
    pub fn follow(&self, place: u32) -> (u32, u32) {
        let end = self.plans.end();
        if place < end {
            return (place, self.plans.word(place));
        }
        let word = self.detours.words[(place - end) as usize];
        if word < BACK {
            (place, word)
        } else {
            (word & !BACK, self.plans.word(word & !BACK))
        }
    }

    /// A place in the plans that tells the same traveller: of two travellers the earlier has the
    /// lower.
    #[inline]
    pub fn order(&self, place: u32) -> u32 {
        let end = self.plans.end();
        if place < end {
            return place;
        }
        // The end of the trip is the next traveller's place if it is the last.
        self.detours.rest(place - end).1 - 1
    }

    /// The number of the traveller at a place.
    pub fn traveller(&self, place: u32) -> u32 {
        self.plans.traveller_at(self.order(place))
    }

    /// A number for somebody's way from a place on.
    pub fn route_hash(&self, place: u32) -> u64 {
        let end = self.plans.end();
        if place < end {
            return u64::from(place);
        }
        let (rest, back) = self.detours.rest(place - end);
        let mut hash = Stream::new(u64::from(back));
        rest.iter().for_each(|&word| hash.mix(u64::from(word)));
        hash.value()
    }
}
