//! The queue of songs. It determines which song comes next.

use crate::batch::Source;

/// The repeat mode: what follows the last song.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Repeat {
    /// The player stops.
    #[default]
    Off,
    /// The first song follows.
    All,
    /// Each song follows itself.
    One,
}

/// The songs, the order in which they are played, and the current position.
#[derive(Debug, Clone)]
pub struct Queue {
    songs: Vec<Source>,
    /// The indices of all songs in the order of playing.
    order: Vec<usize>,
    at: usize,
    repeat: Repeat,
    shuffled: bool,
    seed: u64,
    /// The number of consecutive songs that could not be played.
    failed: usize,
}

impl Queue {
    /// Creates a queue with the songs in the given order, at the first song.
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

    /// Sets the seed of random orders.
    pub fn seeded(mut self, seed: u64) -> Self {
        self.seed = seed;
        self
    }

    /// Returns all songs in their original order.
    pub fn songs(&self) -> &[Source] {
        &self.songs
    }

    /// Returns the current song and its index, or `None` after the end.
    pub fn current(&self) -> Option<(usize, &Source)> {
        let place = *self.order.get(self.at)?;
        Some((place, &self.songs[place]))
    }

    /// Returns the song that follows this one unless a command changes the queue. At the end of a
    /// shuffled round, the real next song may differ, because the next round has another order.
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

    /// Returns the repeat mode.
    pub fn repeat(&self) -> Repeat {
        self.repeat
    }

    /// Returns whether the order is random.
    pub fn is_shuffled(&self) -> bool {
        self.shuffled
    }

    /// Sets the repeat mode.
    pub fn set_repeat(&mut self, repeat: Repeat) {
        self.repeat = repeat;
    }

    /// Moves on after the current song has ended.
    pub fn advance(&mut self) {
        if self.repeat != Repeat::One {
            self.next();
        }
    }

    /// Moves to the next song, even if the current one is repeated.
    pub fn next(&mut self) {
        self.at += 1;
        if self.at >= self.order.len() && self.repeat == Repeat::All {
            self.at = 0;
            if self.shuffled {
                self.shuffle_round();
            }
        }
    }

    /// Shuffles the order for the next round. The last song of this round does not become the first
    /// of the next, unless it is the only one.
    fn shuffle_round(&mut self) {
        let last = self.order.last().copied();
        shuffle(&mut self.order, &mut self.seed);
        if self.order.len() > 1 && self.order.first().copied() == last {
            let other = 1 + random(&mut self.seed) as usize % (self.order.len() - 1);
            self.order.swap(0, other);
        }
    }

    /// Moves on from a song that cannot be played. If no song of the queue can be played, this ends
    /// the queue, because a repeated queue would otherwise never stop.
    pub fn skip_failed(&mut self) {
        self.failed += 1;
        if self.failed >= self.songs.len() {
            self.at = self.order.len();
        } else {
            self.next();
        }
    }

    /// Records that the current song can be played.
    pub fn mark_played(&mut self) {
        self.failed = 0;
    }

    /// Moves to the previous song, or stays at the first.
    pub fn previous(&mut self) {
        self.at = self.at.min(self.order.len()).saturating_sub(1);
    }

    /// Moves to the song with this index, if it exists.
    pub fn jump(&mut self, place: usize) {
        if let Some(at) = self.order.iter().position(|other| *other == place) {
            self.at = at;
        }
    }

    /// Turns shuffling on or off. If it is on, all songs are shuffled, including the current one.
    /// If it is off, the order stays as it is.
    pub fn shuffle_all(&mut self, shuffled: bool) {
        self.shuffled = shuffled;
        if shuffled {
            shuffle(&mut self.order, &mut self.seed);
        }
    }

    /// Shuffles the songs after the current one, or restores the original order of all songs.
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

/// Shuffles the items with the algorithm of Fisher and Yates.
fn shuffle(places: &mut [usize], seed: &mut u64) {
    for end in (1..places.len()).rev() {
        places.swap(end, (random(seed) % (end as u64 + 1)) as usize);
    }
}

/// Returns the next random number of SplitMix64, which is a counter with a mixing function.
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
                    assert_ne!(at(&queue), last, "seed {seed}: a song plays twice in a row");
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
            assert_eq!(at(&queue), Some(2), "shuffling must keep the current song");
            let mut seen = vec![2];
            queue.next();
            while let Some(place) = at(&queue) {
                seen.push(place);
                queue.next();
            }
            // The songs before the current one have been played.
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
