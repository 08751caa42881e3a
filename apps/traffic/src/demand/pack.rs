//! Plans as a simulation reads them: turns of a few bits, sixteen or so to a word.
//!
//! A car that crosses a junction needs one thing of its route: which of the roads that begin there
//! it takes. So a route is a list of turns, each in as many bits as the junction's degree needs,
//! packed into words from the low end; a 1 above the last turn tells where a word ends. A car
//! carries the word that it is in, and comes back here once in some fifteen crossings.

use crate::network::{Ms, Network, NetworkError};
use creel::Pool;

/// After a traveller's last trip.
const END: u32 = u32::MAX;
/// After the last trip of one who begins anew.
const AGAIN: u32 = u32::MAX - 1;
/// The latest time at which a trip begins.
pub const DEPART_MS_MAX: Ms = u32::MAX / 2;

/// Bits of a turn where so many roads begin.
#[inline]
pub(crate) fn turn_bits(degree: u32) -> u32 {
    (u32::BITS - degree.saturating_sub(1).leading_zeros()).max(1)
}

/// The trips of all travellers. Each traveller is one car, and its number is its place here.
#[derive(Clone, Debug, Default, serde::Serialize, serde::Deserialize)]
pub struct Plans {
    /// Of each traveller: for each trip when it begins, its words, and 0; then `END` or `AGAIN`.
    words: Vec<u32>,
    starts: Vec<u32>,
    /// The junction where each traveller begins.
    origins: Vec<u32>,
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
            if used + bits > 31 {
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
}

/// What one traveller does.
#[derive(Clone, Debug, Default)]
pub struct Traveller {
    /// The junction where it begins.
    pub origin: u32,
    /// When each trip begins (or at once, if the one before ends later), and its roads.
    pub trips: Vec<(Ms, Route)>,
    /// Whether it begins anew after the last, for ever; it ends where it began then.
    pub again: bool,
}

impl Plans {
    /// Packs what `cars` travellers of a network do, as `traveller` tells for each number; on the
    /// pool, and the same however large it is. Travellers that stay where they are are welcome.
    ///
    /// Each worker has a scratch of its own, which must not show.
    ///
    /// # Errors
    /// The first of `traveller`, or whose plan is too long or begins too late.
    pub fn gather<S: Send>(
        pool: &Pool,
        cars: u32,
        scratch: impl FnMut(usize) -> S,
        traveller: impl Fn(u32, &mut S) -> Result<Traveller, NetworkError> + Sync,
    ) -> Result<Self, NetworkError> {
        const AT_ONCE: u32 = 1024;
        let parts = 0..cars.div_ceil(AT_ONCE) as usize;
        let mut scratch = pool.scratch(scratch);
        let parts = pool.try_map((parts, &mut scratch), |index, (_, scratch)| {
            let begin = index as u32 * AT_ONCE;
            let mut plans = Self::default();
            (begin..cars.min(begin.saturating_add(AT_ONCE)))
                .try_for_each(|car| plans.push(&traveller(car, scratch)?, car))
                .map(|()| plans)
        })?;
        let mut plans = Self::default();
        let words: usize = parts.iter().map(|part| part.words.len()).sum();
        if words > END as usize {
            return Err(NetworkError("all plans together are too long".into()));
        }
        plans.words.reserve_exact(words);
        plans.starts.reserve_exact(cars as usize);
        plans.origins.reserve_exact(cars as usize);
        for part in parts {
            let begin = plans.words.len() as u32;
            plans
                .starts
                .extend(part.starts.iter().map(|start| begin + start));
            plans.origins.extend(part.origins);
            plans.words.extend(part.words);
        }
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
        plans.starts.shrink_to_fit();
        plans.origins.shrink_to_fit();
        Ok(plans)
    }

    fn push(&mut self, traveller: &Traveller, number: u32) -> Result<(), NetworkError> {
        let fail = |reason| Err(NetworkError(format!("traveller {}: {reason}", number + 1)));
        let words: usize = traveller
            .trips
            .iter()
            .map(|(_, route)| route.0.len() + 2)
            .sum();
        if words >= usize::from(u16::MAX) {
            return fail("more roads than a plan holds");
        }
        if self.words.len() + words + 1 > END as usize || number >= (1 << 28) {
            return fail("all plans together are too long");
        }
        if traveller
            .trips
            .iter()
            .any(|&(depart, _)| depart > DEPART_MS_MAX)
        {
            return fail("begins a trip after more than 24 days");
        }
        self.starts.push(self.words.len() as u32);
        self.origins.push(traveller.origin);
        for (depart_ms, route) in &traveller.trips {
            self.words.push(*depart_ms);
            self.words.extend(&route.0);
            self.words.push(0);
        }
        // One that goes nowhere and begins anew would do so without end at one instant.
        let moves = traveller.trips.iter().any(|(_, route)| !route.0.is_empty());
        self.words
            .push(if traveller.again && moves { AGAIN } else { END });
        Ok(())
    }

    /// How many travellers there are.
    pub fn len(&self) -> usize {
        self.starts.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.starts.is_empty()
    }

    /// Bytes that they take.
    pub fn bytes(&self) -> usize {
        4 * (self.words.len() + self.starts.len() + self.origins.len())
    }

    /// The junction where a traveller begins.
    pub fn origin(&self, traveller: u32) -> u32 {
        self.origins[traveller as usize]
    }

    /// A word of a traveller's plan.
    #[inline]
    pub(crate) fn word(&self, traveller: u32, at: u16) -> u32 {
        self.words[self.starts[traveller as usize] as usize + usize::from(at)]
    }

    /// When the trip at this place of a plan begins, and its place: there, or anew from the first.
    pub(crate) fn departure(&self, traveller: u32, at: u16) -> Option<(Ms, u16)> {
        match self.word(traveller, at) {
            END => None,
            AGAIN => Some((0, 0)),
            depart_ms => Some((depart_ms, at)),
        }
    }

    /// The roads of one trip after another, for who looks at plans from outside.
    pub fn trips(&self, network: &Network, traveller: u32) -> Vec<(Ms, Vec<u32>)> {
        let mut trips = Vec::new();
        let (mut at, mut junction) = (0, self.origin(traveller));
        while let Some((depart_ms, _)) = self.departure(traveller, at).filter(|&(_, to)| to == at) {
            let mut links = Vec::new();
            at += 1;
            while self.word(traveller, at) != 0 {
                let mut word = self.word(traveller, at);
                while word != 1 {
                    let out = network.out(junction);
                    let bits = turn_bits(out.len() as u32);
                    links.push(out.start + (word & ((1 << bits) - 1)));
                    junction = network.links()[links[links.len() - 1] as usize].to;
                    word >>= bits;
                }
                at += 1;
            }
            at += 1;
            trips.push((depart_ms, links));
        }
        trips
    }

    /// Whether every turn of every plan is one of this network.
    pub(crate) fn fits(&self, network: &Network, loops: &Pool) -> bool {
        let junctions = network.junctions().len() as u32;
        let whole = |traveller: u32| {
            let start = self.starts[traveller as usize] as usize;
            let (mut at, mut junction) = (start, self.origins[traveller as usize]);
            if junction >= junctions {
                return false;
            }
            loop {
                match self.words.get(at) {
                    None => return false,
                    Some(&END) => return true,
                    Some(&AGAIN) => {
                        return at > start && junction == self.origins[traveller as usize];
                    }
                    Some(_) => at += 1,
                }
                loop {
                    let Some(&(mut word)) = self.words.get(at) else {
                        return false;
                    };
                    at += 1;
                    if word == 0 {
                        break;
                    }
                    while word != 1 {
                        let out = network.out(junction);
                        let bits = turn_bits(out.len() as u32);
                        let turn = word & ((1 << bits) - 1);
                        word >>= bits;
                        if turn >= out.len() as u32 || word == 0 {
                            return false;
                        }
                        junction = network.links()[(out.start + turn) as usize].to;
                    }
                }
                if at - start > usize::from(u16::MAX) {
                    return false;
                }
            }
        };
        let alike = self.starts.len() == self.origins.len();
        alike && loops.all(0..self.starts.len(), |car, _| whole(car as u32))
    }
}
