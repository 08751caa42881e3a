//! Plans as a simulation reads them: turns of a few bits, fifteen or so to a word.
//!
//! A car that crosses a junction needs one thing of its route: which of the roads that begin there
//! it takes. So a route is a list of turns, each in as many bits as the junction's degree needs,
//! packed into words from the low end; a 1 above the last turn tells where a word ends. A car
//! carries the word that it is in and its place here, and comes back once in some fifteen crossings.
//!
//! All plans lie one behind another in one list of words, and a place in it says both whose plan it
//! is and how far it is done. The upper bits tell words apart:
//!
//! | bits | word |
//! |---|---|
//! | `0…` | turns |
//! | `10…` | a trip begins, at this time; ends the trip before |
//! | `11…` | a traveller's plan begins: whether it begins anew after its end, and where; ends the one before |

use crate::network::{LINKS_MAX, Ms, Network, NetworkError};
use creel::Pool;

const TRIP: u32 = 0b10 << 30;
const TRAVELLER: u32 = 0b11 << 30;
const REPEATS: u32 = 1 << 29;
const PLACE: u32 = REPEATS - 1;
const _: () = assert!(LINKS_MAX < PLACE as usize);
/// After the last plan.
const END: u32 = u32::MAX;
/// Bits of a word that hold turns, so that the 1 above them leaves the uppermost bit free.
const TURN_BITS: u32 = 30;
/// The latest time at which a trip begins: twelve days.
pub const DEPART_MS_MAX: Ms = !TRAVELLER;
/// All plans together have at most so many words.
const WORDS_MAX: usize = 1 << 31;
/// Of how many travellers one is known by its place.
const INDEX_STRIDE: usize = 16;

/// Bits of a turn where so many roads begin.
#[inline]
pub(crate) fn turn_bits(degree: u32) -> u32 {
    (u32::BITS - degree.saturating_sub(1).leading_zeros()).max(1)
}

/// Whether a word holds turns.
#[inline]
pub(crate) fn is_turns(word: u32) -> bool {
    word < TRIP
}

/// The trips of all travellers. Each traveller is one car, numbered in this order.
#[derive(Clone, Debug, serde::Serialize, serde::Deserialize)]
pub struct Plans {
    words: Vec<u32>,
    /// The places of travellers 0, 16, 32 and so on.
    index: Vec<u32>,
    travellers: u32,
}

impl Default for Plans {
    fn default() -> Self {
        Self {
            words: vec![END],
            index: Vec::new(),
            travellers: 0,
        }
    }
}

/// One trip's roads, packed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Route(Vec<u32>);

impl Route {
    /// Packs roads that follow each other.
    ///
    /// # Errors
    /// A road that is not there, or does not begin where the one before ends.
    pub fn pack(network: &Network, links: &[u32]) -> Result<Self, NetworkError> {
        let mut words = Vec::with_capacity(links.len() / 8 + 1);
        let (mut word, mut used) = (0, 0);
        let mut place = None;
        for &link in links {
            let Some(road) = network.links().get(link as usize) else {
                return Err(NetworkError(format!(
                    "a route has a road {link} that is not there"
                )));
            };
            if place.is_some_and(|place| place != road.from) {
                let name = network.link_name(link);
                return Err(NetworkError(format!(
                    "a route's road {name} does not begin where the one before ends"
                )));
            }
            place = Some(road.to);
            let out = network.out(road.from);
            let bits = turn_bits(out.len() as u32);
            if used + bits > TURN_BITS {
                words.push(word | 1 << used);
                (word, used) = (0, 0);
            }
            word |= (link - out.start) << used;
            used += bits;
        }
        if used > 0 {
            words.push(word | 1 << used);
        }
        Ok(Self(words))
    }

    pub(crate) fn words(&self) -> &[u32] {
        &self.0
    }
}

/// The roads that the turns of one word lead over from a junction, each as soon as it is known.
pub(crate) fn unpack<'a>(
    network: &'a Network,
    junction: &'a mut u32,
    mut word: u32,
) -> impl Iterator<Item = u32> + 'a {
    std::iter::from_fn(move || {
        (word > 1).then(|| {
            let out = network.out(*junction);
            let bits = turn_bits(out.len() as u32);
            let link = out.start + (word & ((1 << bits) - 1));
            word >>= bits;
            *junction = network.links()[link as usize].to;
            link
        })
    })
}

/// What one traveller does.
#[derive(Clone, Debug, Default)]
pub struct Traveller {
    /// The junction where it begins.
    pub origin: u32,
    /// When each trip begins (or at once, if the one before ends later), and its roads.
    pub trips: Vec<(Ms, Route)>,
    /// Whether it begins anew after the last, for ever; it ends where it began then.
    pub repeats: bool,
}

impl Plans {
    /// Packs what `cars` travellers of a network do, as `traveller` tells for each number; on the
    /// pool, and the same however large it is. Travellers that stay where they are are welcome.
    ///
    /// Each worker has a scratch of its own, which must not show.
    ///
    /// # Errors
    /// The first of `traveller`, or whose plan is too long or begins too late.
    pub fn from_fn<S: Send>(
        pool: &Pool,
        cars: u32,
        scratch: impl FnMut(usize) -> S,
        traveller: impl Fn(u32, &mut S) -> Result<Traveller, NetworkError> + Sync,
    ) -> Result<Self, NetworkError> {
        const TRAVELLERS_PER_BLOCK: u32 = 64 * INDEX_STRIDE as u32;
        let parts = 0..cars.div_ceil(TRAVELLERS_PER_BLOCK) as usize;
        let mut scratch = pool.scratch(scratch);
        let parts = pool.try_map_indexed((parts, &mut scratch), |index, (_, scratch)| {
            let begin = index as u32 * TRAVELLERS_PER_BLOCK;
            let mut plans = Self::default();
            (begin..cars.min(begin.saturating_add(TRAVELLERS_PER_BLOCK)))
                .try_for_each(|car| plans.push(&traveller(car, scratch)?, car))
                .map(|()| plans)
        })?;
        let words: usize = parts.iter().map(|part| part.words.len() - 1).sum();
        if words >= WORDS_MAX {
            return Err(NetworkError("all plans together are too long".into()));
        }
        let mut plans = Self {
            words: Vec::with_capacity(words + 1),
            index: Vec::with_capacity((cars as usize).div_ceil(INDEX_STRIDE)),
            travellers: cars,
        };
        for part in parts {
            let begin = plans.words.len() as u32;
            plans
                .index
                .extend(part.index.iter().map(|place| begin + place));
            plans.words.extend(&part.words[..part.words.len() - 1]);
        }
        plans.words.push(END);
        Ok(plans)
    }

    /// Packs what travellers do.
    ///
    /// # Errors
    /// One whose plan is too long, or begins too late.
    pub fn new(travellers: impl IntoIterator<Item = Traveller>) -> Result<Self, NetworkError> {
        let mut plans = Self::default();
        for (number, traveller) in travellers.into_iter().enumerate() {
            plans.push(&traveller, number as u32)?;
        }
        plans.words.shrink_to_fit();
        plans.index.shrink_to_fit();
        Ok(plans)
    }

    fn push(&mut self, traveller: &Traveller, number: u32) -> Result<(), NetworkError> {
        let fail = |reason| Err(NetworkError(format!("traveller {}: {reason}", number + 1)));
        let Traveller { trips, .. } = traveller;
        let words: usize = trips.iter().map(|(_, route)| route.0.len() + 1).sum();
        if self.words.len() + words >= WORDS_MAX || self.travellers == u32::MAX {
            return fail("all plans together are too long");
        }
        if trips.iter().any(|&(depart, _)| depart > DEPART_MS_MAX) {
            return fail("begins a trip after more than 12 days");
        }
        self.words.pop();
        if (self.travellers as usize).is_multiple_of(INDEX_STRIDE) {
            self.index.push(self.words.len() as u32);
        }
        self.travellers += 1;
        // One that goes nowhere and begins anew would do so without end at one instant.
        let moves = trips.iter().any(|(_, route)| !route.0.is_empty());
        let repeats = if traveller.repeats && moves {
            REPEATS
        } else {
            0
        };
        self.words.push(TRAVELLER | repeats | traveller.origin);
        for (depart_ms, route) in trips {
            self.words.push(TRIP | depart_ms);
            self.words.extend(&route.0);
        }
        self.words.push(END);
        Ok(())
    }

    /// How many travellers there are.
    pub fn len(&self) -> usize {
        self.travellers as usize
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.travellers == 0
    }

    /// Bytes that they take.
    pub fn bytes(&self) -> usize {
        4 * (self.words.len() + self.index.len())
    }

    /// One place after the last.
    pub(crate) fn end(&self) -> u32 {
        self.words.len() as u32
    }

    /// The word at a place.
    #[inline]
    pub(crate) fn word(&self, place: u32) -> u32 {
        self.words[place as usize]
    }

    /// Whether a trip begins at a place.
    pub(crate) fn is_trip(&self, place: u32) -> bool {
        (TRIP..TRAVELLER).contains(&self.word(place))
    }

    /// Of each traveller, the place where its plan begins.
    pub(crate) fn plan_starts(&self) -> impl Iterator<Item = u32> {
        self.plan_starts_from(0)
    }

    /// The same from a place on where one begins.
    fn plan_starts_from(&self, begin: u32) -> impl Iterator<Item = u32> {
        let rest = self.words[begin as usize..].iter().zip(begin..);
        rest.filter(|&(&word, _)| word >= TRAVELLER && word != END)
            .map(|(_, place)| place)
    }

    /// Where somebody's plan begins.
    fn plan_start(&self, traveller: u32) -> u32 {
        let index = self.index[traveller as usize / INDEX_STRIDE];
        let mut after = self.plan_starts_from(index);
        after
            .nth(traveller as usize % INDEX_STRIDE)
            .expect("a traveller's number")
    }

    /// Whose plan a place belongs to.
    pub(crate) fn traveller_at(&self, place: u32) -> u32 {
        let block = self.index.partition_point(|&index| index <= place) - 1;
        let before = self
            .plan_starts_from(self.index[block])
            .take_while(|&begin| begin <= place);
        (block * INDEX_STRIDE + before.count() - 1) as u32
    }

    /// The junction where the plan that begins at a place begins.
    pub(crate) fn origin_at(&self, place: u32) -> u32 {
        self.words[place as usize] & PLACE
    }

    /// Where somebody is who is done with what is before a place, in plans that fit the network.
    pub(crate) fn junction_at(&self, network: &Network, place: u32) -> Option<u32> {
        let before = self.words.get(..place as usize)?;
        let begin = before.iter().rposition(|&word| word >= TRAVELLER)?;
        let turns = before[begin + 1..].iter().filter(|&&word| is_turns(word));
        turns
            .copied()
            .try_fold(before[begin] & PLACE, |junction, word| {
                follow_turns(network, junction, word)
            })
    }

    /// When the next trip begins of somebody who is done with what is before `place`, and its place:
    /// there, or anew from the first.
    pub(crate) fn departure(&self, place: u32) -> Option<(Ms, u32)> {
        let word = self.word(place);
        if word < TRAVELLER {
            return Some((word & DEPART_MS_MAX, place));
        }
        let mut begin = place - 1;
        while self.word(begin) < TRAVELLER {
            begin -= 1;
        }
        (self.word(begin) & REPEATS != 0).then_some((0, begin + 1))
    }

    /// The junction where a traveller begins.
    pub fn origin(&self, traveller: u32) -> u32 {
        self.origin_at(self.plan_start(traveller))
    }

    /// Whether a traveller never leaves where it is.
    pub fn stays(&self, traveller: u32) -> bool {
        self.departure(self.plan_start(traveller) + 1).is_none()
    }

    /// Whether somebody begins anew for ever.
    pub fn any_repeats(&self) -> bool {
        self.plan_starts()
            .any(|place| self.word(place) & REPEATS != 0)
    }

    /// The roads of one trip after another, for who looks at plans from outside.
    pub fn trips(&self, network: &Network, traveller: u32) -> Vec<(Ms, Vec<u32>)> {
        let mut trips: Vec<(Ms, Vec<u32>)> = Vec::new();
        let place = self.plan_start(traveller);
        let mut junction = self.origin_at(place);
        let mut rest = self.words[place as usize + 1..].iter();
        while let Some(&word) = rest.next().filter(|&&word| word < TRAVELLER) {
            match trips.last_mut() {
                Some((_, links)) if is_turns(word) => {
                    links.extend(unpack(network, &mut junction, word));
                }
                _ => trips.push((word & DEPART_MS_MAX, Vec::new())),
            }
        }
        trips
    }

    /// Whether every turn of every plan is one of this network.
    pub(crate) fn fits(&self, network: &Network, loops: &Pool) -> bool {
        let all = self.words.len();
        let begins = |place: &u32| {
            let word = self.words.get(*place as usize);
            word.is_some_and(|&word| word >= TRAVELLER && word != END)
        };
        let count = self.len().div_ceil(INDEX_STRIDE);
        let ordered = self.index.is_sorted_by(|a, b| a < b) && self.index.iter().all(begins);
        if self.words.last() != Some(&END) || self.index.len() != count || !ordered {
            return false;
        }
        if self.index.first().is_some_and(|&first| first != 0) || (count == 0 && all > 1) {
            return false;
        }
        loops.all(0..count, |block| {
            let end = self
                .index
                .get(block + 1)
                .map_or(all - 1, |&end| end as usize);
            let travellers = INDEX_STRIDE.min(self.len() - block * INDEX_STRIDE);
            let words = &self.words[self.index[block] as usize..end];
            fits(network, words) == Some(travellers)
        })
    }
}

/// How many plans these words are, if all their turns are of this network.
fn fits(network: &Network, words: &[u32]) -> Option<usize> {
    let junctions = network.junctions().len() as u32;
    let (mut plans, mut junction, mut origin) = (0, 0, None);
    // Who goes nowhere and begins anew would do so without end at one instant.
    let (mut trips, mut stays) = (0, true);
    for &word in words {
        match word {
            TRAVELLER.. => {
                if origin.is_some_and(|origin| origin != junction || stays) {
                    return None;
                }
                junction = word & PLACE;
                if junction >= junctions {
                    return None;
                }
                origin = (word & REPEATS != 0).then_some(junction);
                (plans, trips, stays) = (plans + 1, 0, true);
            }
            TRIP.. => trips += 1,
            0 | 1 => return None,
            turns => {
                if trips == 0 {
                    return None;
                }
                junction = follow_turns(network, junction, turns)?;
                stays = false;
            }
        }
    }
    origin
        .is_none_or(|origin| origin == junction && !stays)
        .then_some(plans)
}

/// Where the turns of a word lead from a junction, if all are of this network.
pub(crate) fn follow_turns(network: &Network, mut junction: u32, mut turns: u32) -> Option<u32> {
    while turns != 1 {
        let out = network.out(junction);
        let bits = turn_bits(out.len() as u32);
        let turn = turns & ((1 << bits) - 1);
        turns >>= bits;
        if turn >= out.len() as u32 || turns == 0 {
            return None;
        }
        junction = network.links()[(out.start + turn) as usize].to;
    }
    Some(junction)
}
