//! Which song comes next.

use crate::batch::Source;

/// What comes after the last song.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Repeat {
    /// Nothing.
    #[default]
    Off,
    /// The first again.
    All,
    /// Each song is followed by itself.
    One,
}

/// Songs, the order in which they are played, and where in it we are.
#[derive(Debug, Clone)]
pub struct Queue {
    songs: Vec<Source>,
    /// Places of `songs`, each once.
    order: Vec<usize>,
    at: usize,
    repeat: Repeat,
    shuffled: bool,
    seed: u64,
    /// Songs in a row that could not be played.
    failed: usize,
}

impl Queue {
    /// The songs in their order, at the first.
    pub fn new(songs: Vec<Source>) -> Self {
        Queue {
            order: (0..songs.len()).collect(),
            songs,
            at: 0,
            repeat: Repeat::Off,
            shuffled: false,
            seed: 1,
            failed: 0,
        }
    }

    /// The seed of random orders.
    pub fn seeded(mut self, seed: u64) -> Self {
        self.seed = seed;
        self
    }

    /// All songs, by their place.
    pub fn songs(&self) -> &[Source] {
        &self.songs
    }

    /// The song that we are at, with its place; none after the end.
    pub fn current(&self) -> Option<(usize, &Source)> {
        let place = *self.order.get(self.at)?;
        Some((place, &self.songs[place]))
    }

    /// The song that is played after this one, if all goes as it is.
    pub fn peek_next(&self) -> Option<&Source> {
        let mut after = self.at;
        if self.repeat != Repeat::One {
            after += 1;
        }
        if after >= self.order.len() && self.repeat == Repeat::All {
            after = 0;
        }
        self.order.get(after).map(|place| &self.songs[*place])
    }

    /// What comes after the last song.
    pub fn repeat(&self) -> Repeat {
        self.repeat
    }

    /// Whether the order is a random one.
    pub fn is_shuffled(&self) -> bool {
        self.shuffled
    }

    /// What comes after the last song.
    pub fn set_repeat(&mut self, repeat: Repeat) {
        self.repeat = repeat;
    }

    /// The song after this one has ended.
    pub fn advance(&mut self) {
        if self.repeat != Repeat::One {
            self.next();
        }
    }

    /// The next song, whether or not this one is repeated.
    pub fn next(&mut self) {
        self.at += 1;
        if self.at >= self.order.len() && self.repeat == Repeat::All {
            self.at = 0;
            if self.shuffled {
                self.shuffle_round();
            }
        }
    }

    /// Another order for the next round; the song that was last is not the first of it.
    fn shuffle_round(&mut self) {
        let last = self.order.last().copied();
        shuffle(&mut self.order, &mut self.seed);
        if self.order.len() > 1 && self.order.first().copied() == last {
            let other = 1 + random(&mut self.seed) as usize % (self.order.len() - 1);
            self.order.swap(0, other);
        }
    }

    /// This song cannot be played: the next, but for the same songs not for ever.
    pub fn skip_failed(&mut self) {
        self.failed += 1;
        if self.failed >= self.songs.len() {
            self.at = self.order.len();
        } else {
            self.next();
        }
    }

    /// This song is played.
    pub fn mark_played(&mut self) {
        self.failed = 0;
    }

    /// The song before; the first stays.
    pub fn previous(&mut self) {
        self.at = self.at.min(self.order.len()).saturating_sub(1);
    }

    /// To the song with this place, if there is one.
    pub fn jump(&mut self, place: usize) {
        if let Some(at) = self.order.iter().position(|other| *other == place) {
            self.at = at;
        }
    }

    /// Brings all songs into a random order, this one included, if so asked.
    pub fn shuffle_all(&mut self, shuffled: bool) {
        self.shuffled = shuffled;
        if shuffled {
            shuffle(&mut self.order, &mut self.seed);
        }
    }

    /// Brings what is to come into a random order, or all into the songs' own.
    pub fn shuffle(&mut self, shuffled: bool) {
        if shuffled == self.shuffled {
            return;
        }
        self.shuffled = shuffled;
        if shuffled {
            let from = (self.at + 1).min(self.order.len());
            shuffle(&mut self.order[from..], &mut self.seed);
        } else {
            let place = self.current().map(|(place, _)| place);
            self.order.sort_unstable();
            self.at = place.unwrap_or(self.order.len());
        }
    }
}

/// Fisher and Yates's.
fn shuffle(places: &mut [usize], seed: &mut u64) {
    for end in (1..places.len()).rev() {
        places.swap(end, (random(seed) % (end as u64 + 1)) as usize);
    }
}

/// SplitMix64: one step of a counter, well mixed.
///
/// Source: Steele, Lea, Flood, "Fast splittable pseudorandom number generators" (2014).
fn random(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let mut mixed = *state;
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    mixed ^ (mixed >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::demo::CARRIED;

    fn queue() -> Queue {
        Queue::new(CARRIED.iter().take(5).map(Source::Carried).collect())
    }

    fn at(queue: &Queue) -> Option<usize> {
        queue.current().map(|(place, _)| place)
    }

    #[test]
    fn queue_advances_to_the_end_and_back() {
        let mut queue = queue();
        for place in 0..5 {
            assert_eq!(at(&queue), Some(place));
            queue.advance();
        }
        assert_eq!(at(&queue), None);
        queue.previous();
        assert_eq!(at(&queue), Some(4));
        queue.set_repeat(Repeat::All);
        queue.advance();
        assert_eq!(at(&queue), Some(0));
        queue.previous();
        assert_eq!(at(&queue), Some(0));
        queue.set_repeat(Repeat::One);
        queue.advance();
        assert_eq!(at(&queue), Some(0));
        queue.next();
        assert_eq!(at(&queue), Some(1));
        queue.jump(99);
        assert_eq!(at(&queue), Some(1));
    }

    #[test]
    fn repeat_all_reshuffles_each_round() {
        for seed in 0..50 {
            let mut queue = queue().seeded(seed);
            queue.set_repeat(Repeat::All);
            queue.shuffle_all(true);
            let mut rounds = Vec::new();
            let mut last = None;
            for _ in 0..10 {
                let mut round = Vec::new();
                for _ in 0..5 {
                    assert_ne!(at(&queue), last, "seed {seed}: one song twice in a row");
                    last = at(&queue);
                    round.push(last.unwrap());
                    queue.advance();
                }
                rounds.push(round);
            }
            assert!(
                rounds.iter().any(|round| *round != rounds[0]),
                "seed {seed}"
            );
            for mut round in rounds {
                round.sort_unstable();
                assert_eq!(round, [0, 1, 2, 3, 4], "seed {seed}");
            }
        }
    }

    #[test]
    fn shuffle_plays_each_song_once() {
        for seed in 0..50 {
            let mut queue = queue().seeded(seed);
            queue.jump(2);
            queue.shuffle(true);
            assert_eq!(at(&queue), Some(2), "this one plays on");
            let mut seen = vec![2];
            queue.next();
            while let Some(place) = at(&queue) {
                seen.push(place);
                queue.next();
            }
            // Those before it have been played.
            seen.sort_unstable();
            assert_eq!(seen, [2, 3, 4], "seed {seed}");
            queue.jump(3);
            queue.shuffle(false);
            assert_eq!(at(&queue), Some(3));
            queue.next();
            assert_eq!(at(&queue), Some(4));
        }
    }
}
