//! Packed plans: routes as lists of turns, with up to 30 turns per 32-bit word.
//!
//! A car that crosses a junction needs to know only which outgoing road it takes. Therefore a route
//! is a list of turn numbers. A turn takes as many bits as the degree of its junction needs. Turns
//! are packed into words from the low end, and a 1 bit above the last turn marks the end. A car
//! carries its current word and the index of that word, so it reads from memory only once in about
//! fifteen crossings of a grid.
//!
//! All plans are stored in one list of words. We call an index into this list a *place*. A place
//! identifies both the traveller and the progress of its plan. The upper bits of a word say what it
//! contains:
//!
//! | bits | content |
//! |---|---|
//! | `0…` | turns |
//! | `10…` | a trip begins at this departure time, and the previous trip ends |
//! | `11…` | a plan begins (its origin, and whether it repeats), and the previous plan ends |

use super::CarSpeed;
use super::speeds::Speeds;
use crate::network::{LINKS_MAX, Ms, Network, NetworkError};
use creel::Pool;

const TRIP: u32 = 0b10 << 30;
const TRAVELLER: u32 = 0b11 << 30;
const REPEATS: u32 = 1 << 29;
const PLACE: u32 = REPEATS - 1;
const _: () = assert!(LINKS_MAX < PLACE as usize);
/// The word after the last plan.
const END: u32 = u32::MAX;
/// The number of bits for turns in a word. The marker bit above them leaves the uppermost bit free.
const TURN_BITS: u32 = 30;
/// The latest departure time of a trip, which is about twelve days.
pub const DEPART_MS_MAX: Ms = !TRAVELLER;
/// The maximum number of words of all plans together.
const WORDS_MAX: usize = 1 << 31;
/// The index stores the place of every 16th traveller only, which saves memory. To find another
/// traveller, we search from the stored place on.
const INDEX_STRIDE: usize = 16;
/// The number of travellers that one task packs.
const TRAVELLERS_PER_BLOCK: u32 = 64 * INDEX_STRIDE as u32;

/// Returns the number of bits of a turn at a junction with `degree` outgoing roads.
#[inline]
pub(crate) fn turn_bits(degree: u32) -> u32 {
    (u32::BITS - degree.saturating_sub(1).leading_zeros()).max(1)
}

/// Returns whether a word contains turns.
#[inline]
pub(crate) fn is_turns(word: u32) -> bool {
    word < TRIP
}

/// The plans of all travellers. Each traveller is one car, and cars are numbered in this order. You
/// get them from [`laps`](super::laps), [`gravity`](super::gravity) or [`read`](super::read), or
/// you pack your own with [`new`](Self::new).
#[derive(Clone, Debug, serde::Serialize, serde::Deserialize)]
pub struct Plans {
    words: Vec<u32>,
    /// The places of travellers 0, 16, 32 and so on.
    index: Vec<u32>,
    travellers: u32,
    speeds: Speeds,
    /// The network that these plans were made for, as a hash, or 0 if we do not know it.
    #[serde(skip)]
    made_for: u64,
}

impl Default for Plans {
    fn default() -> Self {
        Self {
            words: vec![END],
            index: Vec::new(),
            travellers: 0,
            speeds: Speeds::default(),
            made_for: 0,
        }
    }
}

/// The packed route of one trip.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Route(Vec<u32>);

impl Route {
    /// Packs a sequence of consecutive links.
    ///
    /// # Errors
    /// Returns an error if a link does not exist, or does not begin where the previous one ends.
    pub fn pack(network: &Network, links: &[u32]) -> Result<Self, NetworkError> {
        let mut words = Vec::with_capacity(links.len() / 8 + 1);
        let (mut word, mut used) = (0, 0);
        let mut place = None;
        for &link in links {
            let Some(road) = network.links().get(link as usize) else {
                return Err(NetworkError(format!(
                    "invalid route: there is no road number {link}"
                )));
            };
            if place.is_some_and(|place| place != road.from) {
                let name = network.link_name(link);
                return Err(NetworkError(format!(
                    "invalid route: road {name} does not begin where the previous road ends"
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

/// Follows the turns that are packed in `word`, starting at `junction`, and iterates over the roads
/// that they select. After each road, `junction` is the junction at its end.
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

/// The plan of one traveller.
#[derive(Clone, Debug, Default)]
pub struct Traveller {
    /// The junction at which the traveller starts.
    pub origin: u32,
    /// The departure time and route of each trip. If the previous trip ends later, the next trip
    /// departs at once.
    pub trips: Vec<(Ms, Route)>,
    /// Whether the plan starts again after the last trip. It must then end where it started.
    pub repeats: bool,
}

impl Plans {
    /// Packs the plans that `traveller` returns for the numbers below `cars`, in parallel on the
    /// pool. The result does not depend on the number of workers. A traveller without trips is
    /// allowed.
    ///
    /// Each worker has its own scratch value. The scratch value must not influence the result.
    ///
    /// # Errors
    /// Returns the first error of `traveller`, or an error if all plans together are too long or a
    /// trip departs too late.
    pub fn from_fn<S: Send>(
        pool: &Pool,
        cars: u32,
        scratch: impl FnMut(usize) -> S,
        traveller: impl Fn(u32, &mut S) -> Result<Traveller, NetworkError> + Sync,
    ) -> Result<Self, NetworkError> {
        let parts = 0..cars.div_ceil(TRAVELLERS_PER_BLOCK) as usize;
        let mut scratch = pool.scratch(scratch);
        let parts = pool.try_map_indexed((parts, &mut scratch), |index, (_, scratch)| {
            let begin = index as u32 * TRAVELLERS_PER_BLOCK;
            let mut plans = Self::default();
            (begin..cars.min(begin.saturating_add(TRAVELLERS_PER_BLOCK)))
                .try_for_each(|car| plans.push(&traveller(car, scratch)?, car))
                .map(|()| plans)
        })?;
        Self::concatenate(parts, cars)
    }

    /// Joins the plans of several blocks of travellers.
    fn concatenate(parts: Vec<Self>, cars: u32) -> Result<Self, NetworkError> {
        let words: usize = parts.iter().map(|part| part.words.len() - 1).sum();
        if words >= WORDS_MAX {
            return Err(NetworkError(
                "cannot pack the plans: all plans together are too long. Use fewer cars".into(),
            ));
        }
        let mut plans = Self {
            words: Vec::with_capacity(words + 1),
            index: Vec::with_capacity((cars as usize).div_ceil(INDEX_STRIDE)),
            travellers: cars,
            speeds: Speeds::default(),
            made_for: 0,
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

    /// Packs the given plans, in parallel on the pool.
    ///
    /// # Errors
    /// Returns an error if all plans together are too long or a trip departs too late.
    pub fn from_slice(pool: &Pool, travellers: &[Traveller]) -> Result<Self, NetworkError> {
        let parts = travellers.chunks(TRAVELLERS_PER_BLOCK as usize);
        let parts: Vec<&[Traveller]> = parts.collect();
        let parts = pool.try_map_indexed(&parts, |index, part| {
            let begin = index as u32 * TRAVELLERS_PER_BLOCK;
            let mut plans = Self::default();
            (begin..)
                .zip(part.iter())
                .try_for_each(|(car, traveller)| plans.push(traveller, car))
                .map(|()| plans)
        })?;
        Self::concatenate(parts, travellers.len() as u32)
    }

    /// Packs the given plans.
    ///
    /// # Errors
    /// Returns an error if all plans together are too long or a trip departs too late.
    pub fn new(travellers: impl IntoIterator<Item = Traveller>) -> Result<Self, NetworkError> {
        let mut plans = Self::default();
        for (number, traveller) in travellers.into_iter().enumerate() {
            plans.push(&traveller, number as u32)?;
        }
        plans.words.shrink_to_fit();
        plans.index.shrink_to_fit();
        Ok(plans)
    }

    pub(crate) fn push(&mut self, traveller: &Traveller, number: u32) -> Result<(), NetworkError> {
        let fail = |reason| Err(NetworkError(format!("traveller {}: {reason}", number + 1)));
        let Traveller { trips, .. } = traveller;
        let words: usize = trips.iter().map(|(_, route)| route.0.len() + 1).sum();
        if self.words.len() + words >= WORDS_MAX || self.travellers == u32::MAX {
            return fail("all plans together are too long: use fewer cars");
        }
        if trips.iter().any(|&(depart, _)| depart > DEPART_MS_MAX) {
            return fail("a trip departs after more than 12 days, which is the maximum");
        }
        self.words.pop();
        if (self.travellers as usize).is_multiple_of(INDEX_STRIDE) {
            self.index.push(self.words.len() as u32);
        }
        self.travellers += 1;
        if !self.speeds.is_empty() {
            self.speeds.push(self.words.len() as u32, CarSpeed::ROAD);
        }
        // A plan that repeats and has no road would begin again and again at the same instant, and
        // the simulation would hang. Therefore such a plan does not repeat.
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

    /// Sets the speeds of all travellers, in the order of their numbers. If `speeds` ends early, the
    /// other travellers drive as fast as the roads allow, which is the default. Speeds that are out
    /// of range are clamped.
    pub fn set_speeds(&mut self, speeds: impl IntoIterator<Item = CarSpeed>) {
        let mut runs = Speeds::default();
        let speeds = speeds.into_iter().chain(std::iter::repeat(CarSpeed::ROAD));
        for (place, speed) in self.plan_starts().zip(speeds) {
            runs.push(place, speed.in_range());
        }
        self.speeds = runs;
    }

    /// Sets the speed of the last traveller.
    pub(crate) fn set_last_speed(&mut self, speed: CarSpeed) {
        if let Some(last) = self.travellers.checked_sub(1) {
            let place = self.plan_start(last);
            self.speeds.set_last(place, speed.in_range());
        }
    }

    /// Returns how fast a traveller drives.
    pub fn speed(&self, traveller: u32) -> CarSpeed {
        match self.speeds.is_empty() {
            true => CarSpeed::ROAD,
            false => self.speeds.at(self.plan_start(traveller)),
        }
    }

    /// Returns the speed of the traveller whose plan contains a place.
    #[inline]
    pub(crate) fn speed_at(&self, place: u32) -> CarSpeed {
        self.speeds.at(place)
    }

    /// Returns whether some traveller drives slower than the roads allow.
    pub(crate) fn has_speeds(&self) -> bool {
        !self.speeds.is_empty()
    }

    /// Returns the number of travellers.
    pub fn len(&self) -> usize {
        self.travellers as usize
    }

    /// Returns whether there are no travellers.
    pub fn is_empty(&self) -> bool {
        self.travellers == 0
    }

    /// Returns the memory size of the plans in bytes.
    pub fn bytes(&self) -> usize {
        4 * (self.words.len() + self.index.len())
    }

    /// Returns the place after the last word of all plans.
    pub(crate) fn end(&self) -> u32 {
        self.words.len() as u32
    }

    /// Returns the word of the plans at a place, which is an index into their list of words.
    #[inline]
    pub(crate) fn word(&self, place: u32) -> u32 {
        self.words[place as usize]
    }

    /// Returns whether a trip begins at a place of the plans.
    pub(crate) fn is_trip(&self, place: u32) -> bool {
        (TRIP..TRAVELLER).contains(&self.word(place))
    }

    /// Returns the place where each plan begins.
    pub(crate) fn plan_starts(&self) -> impl Iterator<Item = u32> {
        self.plan_starts_from(0)
    }

    /// Returns the place where each plan begins, from the plan that begins at `begin` on.
    fn plan_starts_from(&self, begin: u32) -> impl Iterator<Item = u32> {
        let rest = self.words[begin as usize..].iter().zip(begin..);
        rest.filter(|&(&word, _)| word >= TRAVELLER && word != END)
            .map(|(_, place)| place)
    }

    /// Returns the place where the plan of a traveller begins.
    fn plan_start(&self, traveller: u32) -> u32 {
        let index = self.index[traveller as usize / INDEX_STRIDE];
        let mut after = self.plan_starts_from(index);
        after
            .nth(traveller as usize % INDEX_STRIDE)
            .expect("the traveller's number is less than the number of travellers")
    }

    /// Returns the range of places that the plan of a traveller takes.
    pub(crate) fn places_of(&self, traveller: u32) -> std::ops::Range<u32> {
        let begin = self.plan_start(traveller);
        let next = self.plan_starts_from(begin).nth(1);
        begin..next.unwrap_or(self.end() - 1)
    }

    /// Returns the number of the traveller whose plan contains a place.
    pub(crate) fn traveller_at(&self, place: u32) -> u32 {
        let block = self.index.partition_point(|&index| index <= place) - 1;
        let before = self
            .plan_starts_from(self.index[block])
            .take_while(|&begin| begin <= place);
        (block * INDEX_STRIDE + before.count() - 1) as u32
    }

    /// Returns the junction of origin of the plan that begins at a place.
    pub(crate) fn origin_at(&self, place: u32) -> u32 {
        self.words[place as usize] & PLACE
    }

    /// Returns the junction that a traveller has reached before a place. The plans must fit the
    /// network.
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

    /// Returns the departure time and the place of the next trip, for a traveller that has
    /// completed everything before `place`. A repeating plan continues with its first trip.
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

    /// Returns the junction at which a traveller starts.
    pub fn origin(&self, traveller: u32) -> u32 {
        self.origin_at(self.plan_start(traveller))
    }

    /// Returns whether a traveller makes no trips.
    pub fn stays(&self, traveller: u32) -> bool {
        self.departure(self.plan_start(traveller) + 1).is_none()
    }

    /// Returns whether any plan repeats.
    pub fn any_repeats(&self) -> bool {
        self.plan_starts()
            .any(|place| self.word(place) & REPEATS != 0)
    }

    /// Returns the departure time and the links of each trip. It unpacks the plan, so it is meant
    /// for output rather than simulation.
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

    /// Notes that all routes were computed for this network, so that [`fits`](Self::fits) does not
    /// need to follow them.
    pub(crate) fn set_made_for(&mut self, network: &Network) {
        self.made_for = network.partition_fingerprint();
    }

    /// Returns whether the plans are valid for this network.
    pub(crate) fn fits(&self, network: &Network, loops: &Pool) -> bool {
        if self.made_for != 0 && self.made_for == network.partition_fingerprint() {
            return true;
        }
        // We copy the junctions at which links end into a list of their own, because this list fits
        // better into a cache than the links do.
        let heads: Vec<u32> = network.links().iter().map(|link| link.to).collect();
        let all = self.words.len();
        let begins = |place: &u32| {
            let word = self.words.get(*place as usize);
            word.is_some_and(|&word| word >= TRAVELLER && word != END)
        };
        let count = self.len().div_ceil(INDEX_STRIDE);
        let ordered = self.index.is_sorted_by(|a, b| a < b) && self.index.iter().all(begins);
        if !self.speeds.is_valid()
            || self.words.last() != Some(&END)
            || self.index.len() != count
            || !ordered
        {
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
            fits(network, &heads, words) == Some(travellers)
        })
    }
}

/// Returns the number of plans in `words`, or `None` if one of them is not valid in this network.
fn fits(network: &Network, heads: &[u32], words: &[u32]) -> Option<usize> {
    let junctions = network.junctions().len() as u32;
    let (mut plans, mut junction, mut origin) = (0, 0, None);
    // A plan that repeats and has no road would begin again and again at the same instant, so we
    // reject it.
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
                junction = follow(network, heads, junction, turns)?;
                stays = false;
            }
        }
    }
    origin
        .is_none_or(|origin| origin == junction && !stays)
        .then_some(plans)
}

/// Returns the junction to which the turns of a word lead, or `None` if a turn does not exist.
pub(crate) fn follow_turns(network: &Network, junction: u32, turns: u32) -> Option<u32> {
    let head = |link: u32| network.links()[link as usize].to;
    follow_by(network, head, junction, turns)
}

/// Like [`follow_turns`], but takes the junction at which each link ends from the list `heads`,
/// which fits better into a cache than the links do.
fn follow(network: &Network, heads: &[u32], junction: u32, turns: u32) -> Option<u32> {
    follow_by(network, |link| heads[link as usize], junction, turns)
}

#[inline]
fn follow_by(
    network: &Network,
    head: impl Fn(u32) -> u32,
    mut junction: u32,
    mut turns: u32,
) -> Option<u32> {
    while turns != 1 {
        let out = network.out(junction);
        let bits = turn_bits(out.len() as u32);
        let turn = turns & ((1 << bits) - 1);
        turns >>= bits;
        if turn >= out.len() as u32 || turns == 0 {
            return None;
        }
        junction = head(out.start + turn);
    }
    Some(junction)
}
