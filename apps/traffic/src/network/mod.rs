//! The road network: junctions, links and signal programs. A network never changes.
//!
//! We check and order a network once, when it is created. Junctions are ordered by tile
//! (`tiles.rs`), and links by the junction at which they begin. Therefore the outgoing links of a
//! junction are contiguous, and a route can be stored as a list of small turn numbers. A turn
//! number is the position of a link among the outgoing links of its junction.
//!
//! In comments and messages we use *road* and *link* for the same thing.
//!
//! We leave out geometry between junctions and lanes that differ within a road on purpose, because
//! the queue model does not use them. Turn restrictions are left out as well.

pub mod city;
pub mod read;
pub mod write;

mod check;
mod coordinates;
mod link;
mod priority;
mod program;
mod tiles;

pub use link::{Flow, Link};
pub use priority::{Gaps, Turn, Yield};
pub use program::Program;

use crate::random::Stream;
use std::{collections::HashMap, fmt, ops::Range};
use tiles::Tiles;

/// A length in millimetres.
pub type Mm = u32;
/// A time in milliseconds.
pub type Ms = u32;

/// The maximum number of junctions, and of links, in a network.
pub const LINKS_MAX: usize = 1 << 26;
/// The maximum number of outgoing links of a junction, and of incoming ones. It is 256 because a
/// turn number has 8 bits.
pub const DEGREE_MAX: usize = 256;
/// The minimum time that a car or a hole takes on a link between two tiles. It is the lower bound
/// for the simulation's lookahead. We put both ends of a shorter link into the same tile. If the
/// tile would become too large, such a link takes this time instead.
pub const LINK_TIME_MS_MIN: Ms = 1000;
/// The maximum storage of a link in cars. It fits into 16 bits.
pub const STORAGE_MAX: u64 = 65_000;
/// The largest value of a headway, which is the minimum time between two cars. It is a capacity of
/// one car in eleven days.
pub const HEADWAY_MS_MAX: Ms = 1_000_000_000;

/// The parameters of the car-following model, which are the same for all links. The defaults suit
/// city traffic, so you rarely need to change them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Physics {
    /// The length of road that a standing car occupies (the inverse of the jam density per lane).
    pub spacing_mm: Mm,
    /// The time that a driver takes to react to the car in front.
    pub reaction_ms: Ms,
    /// The time for which one crossing blocks a stop junction.
    pub gap_ms: Ms,
    /// The critical gaps and follow-up times at priority junctions.
    pub gaps: Gaps,
    /// The time after which a blocked car steps aside. Such a car is the first on its link and
    /// finds no storage on the next link. It drives past the full links ahead, and returns to the
    /// road where there is room.
    pub stuck_ms: Ms,
    /// The share of the flow capacity that is available, in parts per million. For example, use
    /// 100,000 if the demand is a sample of 10 percent.
    pub flow_ppm: u32,
    /// The share of the storage that is available, in parts per million.
    pub storage_ppm: u32,
}

impl Default for Physics {
    fn default() -> Self {
        Self {
            spacing_mm: 7500,
            reaction_ms: 1000,
            gap_ms: 2000,
            gaps: Gaps::HCM,
            stuck_ms: 300_000,
            flow_ppm: 1_000_000,
            storage_ppm: 1_000_000,
        }
    }
}

impl Physics {
    /// Checks the range of each parameter.
    ///
    /// # Errors
    /// Returns an error for the first value that is out of range.
    pub fn check(&self) -> Result<(), NetworkError> {
        let within = |name, value: u32, range: std::ops::RangeInclusive<u32>| {
            let reason = || format!("{name} must be within {range:?}, but is {value}");
            range
                .contains(&value)
                .then_some(())
                .ok_or_else(|| NetworkError(reason()))
        };
        within("the spacing in mm", self.spacing_mm, 1000..=100_000)?;
        within("the reaction time in ms", self.reaction_ms, 100..=10_000)?;
        within("the gap in ms", self.gap_ms, 1..=60_000)?;
        for critical_ms in self.gaps.critical_ms {
            within("a critical gap in ms", critical_ms, 1..=60_000)?;
        }
        for follow_up_ms in self.gaps.follow_up_ms {
            within("a follow-up time in ms", follow_up_ms, 1..=60_000)?;
        }
        within(
            "the share of the flow in ppm",
            self.flow_ppm,
            100..=100_000_000,
        )?;
        within(
            "the share of the storage in ppm",
            self.storage_ppm,
            100..=100_000_000,
        )?;
        within("the stuck time in ms", self.stuck_ms, 1000..=100_000_000)
    }
}

/// How a junction lets cars cross.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub enum Control {
    /// No control. Cars cross as fast as the flow of the roads allows.
    #[default]
    Free,
    /// An all-way stop. One car at a time crosses, in the order of arrival.
    Stop,
    /// A priority junction. The movements in [`RawNetwork::yields`] yield to others. If none are
    /// listed for the junction, roads with approach 0 yield to the others.
    Priority,
    /// Traffic lights.
    Signal {
        /// The index of the signal program in [`Network::programs`].
        program: u16,
        /// The time by which the cycle starts later than the simulation.
        offset_ms: Ms,
    },
}

/// A junction of roads.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Junction {
    /// The coordinate to the east in metres, or in degrees if the network is
    /// [geographic](Network::geographic).
    pub x: f64,
    /// The coordinate to the north in metres, or in degrees if the network is
    /// [geographic](Network::geographic).
    pub y: f64,
    /// How the junction lets cars cross.
    pub control: Control,
}

/// An invalid network or demand. The message names the element and the reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NetworkError(pub String);

impl fmt::Display for NetworkError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for NetworkError {}

/// The names of junctions, links or cars in a file, in the order of the file.
#[derive(Clone, Debug, Default, serde::Serialize, serde::Deserialize)]
pub struct Names(Vec<Box<str>>);

impl Names {
    /// Creates a list of names.
    pub fn new(names: Vec<Box<str>>) -> Self {
        Self(names)
    }

    /// Returns a name, or the number from 1 if there is no name.
    pub fn get(&self, index: u32) -> String {
        self.0
            .get(index as usize)
            .map_or_else(|| (index + 1).to_string(), |name| name.to_string())
    }
}

/// An unchecked network, as a reader or generator returns it. You can also fill it yourself, and
/// then pass it to [`Network::new`].
#[derive(Clone, Debug, Default)]
pub struct RawNetwork {
    /// The junctions.
    pub junctions: Vec<Junction>,
    /// The links between the junctions.
    pub links: Vec<Link>,
    /// The signal programs.
    pub programs: Vec<Program>,
    /// The movements at priority junctions that yield to others.
    pub yields: Vec<Yield>,
    /// The time that a car takes inside the junction at the end of each link. It is empty if the
    /// file has no lanes inside junctions.
    pub inner_ms: Vec<Ms>,
    /// The links of each roundabout. A car that enters a roundabout leaves a free place on it, so
    /// that the cars on it can always move.
    pub rings: Vec<Vec<u32>>,
    /// The names of the junctions. If empty, junctions are named by their numbers from 1.
    pub junction_names: Names,
    /// The names of the links. If empty, links are named by their numbers from 1.
    pub link_names: Names,
    /// Whether the junctions have coordinates.
    pub has_coordinates: bool,
    /// Whether the coordinates are in degrees of longitude and latitude.
    pub geographic: bool,
    /// The parts of the file that were not used although they could change the result.
    pub unused: read::Unused,
}

/// A road network, checked and ordered. You can read one from a file ([`read::network`]) or
/// generate one ([`city::City`]).
#[derive(Clone, Debug)]
pub struct Network {
    junctions: Vec<Junction>,
    links: Vec<Link>,
    programs: Vec<Program>,
    /// The movements that yield, ordered by junction and by the numbers of their links in the file.
    yields: Vec<Yield>,
    /// The number of each link's roundabout. The list is empty if there are no roundabouts.
    ring: Vec<u32>,
    /// The time that a car takes inside the junction at the end of each link. The list is empty if
    /// the file has no such times.
    inner_ms: Vec<Ms>,
    /// Whether each link takes [`LINK_TIME_MS_MIN`] although it is shorter. The list is empty if no
    /// link does.
    raised: Vec<bool>,
    /// The first outgoing link of each junction, plus one entry for the end. The links of a
    /// junction end where those of the next one begin.
    first_out: Vec<u32>,
    /// The first junction of each tile, plus one entry for the end.
    tiles: Vec<u32>,
    /// The numbers that junctions and links had in their file.
    junction_file_index: Vec<u32>,
    link_file_index: Vec<u32>,
    junction_names: Names,
    link_names: Names,
    has_coordinates: bool,
    geographic: bool,
}

/// The default number of junctions per tile. A tile of this size fits into a second-level cache,
/// together with its links and cars.
pub const TILE_JUNCTIONS: usize = 512;

impl Network {
    /// Checks a raw network and orders it.
    ///
    /// # Errors
    /// Returns an error that names the first invalid element.
    pub fn new(raw: RawNetwork) -> Result<Self, NetworkError> {
        Self::with_tiles(raw, TILE_JUNCTIONS)
    }

    /// Like [`new`](Self::new), with at most `tile_junctions` junctions per tile. A tile can be
    /// larger only if links that take less than [`LINK_TIME_MS_MIN`] connect its junctions, because
    /// a link between two tiles takes at least this time. The results of a simulation do not depend
    /// on the size of the tiles.
    ///
    /// # Errors
    /// Returns an error that names the first invalid element.
    pub fn with_tiles(mut raw: RawNetwork, tile_junctions: usize) -> Result<Self, NetworkError> {
        check::check(&raw)?;
        priority::add_missing_yields(&mut raw);
        let ring = priority::rings(&raw);
        priority::mark_entries(&mut raw.yields, &ring);
        let Tiles {
            order,
            begins: tiles,
            raised,
        } = tiles::cut(&raw, tile_junctions.max(1));
        let mut place = vec![0_u32; order.len()];
        for (new, &old) in order.iter().enumerate() {
            place[old as usize] = new as u32;
        }
        let mut link_file_index: Vec<u32> = (0..raw.links.len() as u32).collect();
        link_file_index.sort_by_key(|&link| (place[raw.links[link as usize].from as usize], link));
        let moved = |&old: &u32| {
            let link = raw.links[old as usize];
            Link {
                from: place[link.from as usize],
                to: place[link.to as usize],
                ..link
            }
        };
        let links: Vec<Link> = link_file_index.iter().map(moved).collect();
        let mut first_out = vec![0_u32; order.len() + 1];
        for link in &links {
            first_out[link.from as usize + 1] += 1;
        }
        for junction in 0..order.len() {
            first_out[junction + 1] += first_out[junction];
        }
        let mut number = vec![0_u32; links.len()];
        for (new, &old) in link_file_index.iter().enumerate() {
            number[old as usize] = new as u32;
        }
        let mut yields = raw.yields;
        yields.sort_by_key(|one| {
            let junction = place[raw.links[one.from as usize].to as usize];
            (junction, one.from, one.to)
        });
        for one in &mut yields {
            one.foes.sort_unstable();
            one.foes.dedup();
            for link in [&mut one.from, &mut one.to]
                .into_iter()
                .chain(one.foes.iter_mut().flat_map(|foe| [&mut foe.0, &mut foe.1]))
            {
                *link = number[*link as usize];
            }
        }
        let moved = |values: &[u32]| -> Vec<u32> {
            let old = link_file_index.iter().map(|&old| values[old as usize]);
            if values.is_empty() {
                Vec::new()
            } else {
                old.collect()
            }
        };
        let ring = moved(&ring);
        let inner_ms = moved(&raw.inner_ms);
        let raised = match raised.is_empty() {
            true => raised,
            false => link_file_index
                .iter()
                .map(|&old| raised[old as usize])
                .collect(),
        };
        Ok(Self {
            yields,
            ring,
            inner_ms,
            raised,
            junctions: order
                .iter()
                .map(|&old| raw.junctions[old as usize])
                .collect(),
            links,
            programs: raw.programs,
            first_out,
            tiles,
            junction_file_index: order,
            link_file_index,
            junction_names: raw.junction_names,
            link_names: raw.link_names,
            has_coordinates: raw.has_coordinates,
            geographic: raw.geographic,
        })
    }

    /// Returns all junctions, ordered by tile.
    pub fn junctions(&self) -> &[Junction] {
        &self.junctions
    }

    /// Returns all links, ordered by the junction at which they begin.
    pub fn links(&self) -> &[Link] {
        &self.links
    }

    /// Returns all signal programs.
    pub fn programs(&self) -> &[Program] {
        &self.programs
    }

    /// Returns the outgoing links of a junction.
    #[inline]
    pub fn out(&self, junction: u32) -> Range<u32> {
        self.first_out[junction as usize]..self.first_out[junction as usize + 1]
    }

    /// Returns the junctions of each tile.
    pub fn tiles(&self) -> impl ExactSizeIterator<Item = Range<u32>> {
        self.tiles.windows(2).map(|pair| pair[0]..pair[1])
    }

    /// Returns the parameters of the queue model for a link.
    pub fn flow(&self, link: u32, physics: &Physics) -> Flow {
        let raised = self.raised.get(link as usize).is_some_and(|&raised| raised);
        let mut flow = self.links[link as usize].flow(physics, raised, self.inner_ms(link));
        // A car that enters a roundabout must leave a free place on the link of the roundabout that
        // it enters. We add this place to the storage, because the roundabout would lose capacity
        // otherwise.
        if self.ring(link).is_some() {
            flow.storage += 1;
        }
        flow
    }

    /// Returns the time that a car takes inside the junction at the end of a link.
    fn inner_ms(&self, link: u32) -> Ms {
        self.inner_ms.get(link as usize).copied().unwrap_or(0)
    }

    /// Returns the free-flow travel time of a link.
    pub fn free_flow_ms(&self, link: u32) -> Ms {
        let time = self.links[link as usize].free_flow_ms();
        let time = match self.raised.get(link as usize) {
            Some(true) => time.max(LINK_TIME_MS_MIN),
            _ => time,
        };
        time + self.inner_ms(link)
    }

    /// Returns the number of links that take [`LINK_TIME_MS_MIN`] although they are shorter. This
    /// happens only if such links connect more junctions than the largest possible tile can hold.
    pub fn raised_links(&self) -> usize {
        self.raised.iter().filter(|&&raised| raised).count()
    }

    /// Checks that all links can be simulated with these parameters.
    ///
    /// # Errors
    /// Returns an error for the first link that would store too many cars.
    pub fn check_storage(&self, physics: &Physics) -> Result<(), NetworkError> {
        let full = |link: &Link| link.whole_storage(physics) > STORAGE_MAX;
        match self.links.iter().position(full) {
            None => Ok(()),
            Some(link) => Err(NetworkError(format!(
                "road {}: more than {STORAGE_MAX} cars fit on this road, which is the maximum: divide it into shorter roads",
                self.link_name(link as u32)
            ))),
        }
    }

    /// Returns the movements of a junction that yield to others.
    pub fn yields(&self, junction: u32) -> &[Yield] {
        let junction_of = |one: &Yield| self.links[one.from as usize].to;
        let begin = self
            .yields
            .partition_point(|one| junction_of(one) < junction);
        let all = &self.yields[begin..];
        &all[..all.partition_point(|one| junction_of(one) == junction)]
    }

    /// Returns the number of the roundabout that a link belongs to, if there is one.
    #[inline]
    pub fn ring(&self, link: u32) -> Option<u32> {
        self.ring
            .get(link as usize)
            .copied()
            .filter(|&ring| ring != priority::NO_RING)
    }

    /// Returns the number of a link in its file, from 0. Hashes use this number, so that they do
    /// not depend on the order of the links in memory.
    #[inline]
    pub fn link_file_index(&self, link: u32) -> u32 {
        self.link_file_index[link as usize]
    }

    /// Returns the number of a junction in its file, from 0.
    pub fn junction_file_index(&self, junction: u32) -> u32 {
        self.junction_file_index[junction as usize]
    }

    /// Returns the name of a link in its file, or its number from 1.
    pub fn link_name(&self, link: u32) -> String {
        self.link_names.get(self.link_file_index(link))
    }

    /// Returns the name of a junction in its file, or its number from 1.
    pub fn junction_name(&self, junction: u32) -> String {
        self.junction_names.get(self.junction_file_index(junction))
    }

    /// Returns a map from names to junctions.
    pub fn junctions_by_name(&self) -> HashMap<String, u32> {
        (0..self.junctions.len() as u32)
            .map(|j| (self.junction_name(j), j))
            .collect()
    }

    /// Returns a map from names to links.
    pub fn links_by_name(&self) -> HashMap<String, u32> {
        (0..self.links.len() as u32)
            .map(|l| (self.link_name(l), l))
            .collect()
    }

    /// Returns whether any junction has traffic lights, stops or priorities.
    pub fn controlled(&self) -> bool {
        let free = |junction: &Junction| junction.control == Control::Free;
        !self.junctions.iter().all(free)
    }

    /// Returns whether the junctions have coordinates.
    pub fn has_coordinates(&self) -> bool {
        self.has_coordinates
    }

    /// Returns whether the coordinates are in degrees of longitude and latitude.
    pub fn geographic(&self) -> bool {
        self.geographic
    }

    /// Returns a hash of the network and of its partition into tiles. Two different inputs have the
    /// same hash only by accident.
    pub(crate) fn partition_fingerprint(&self) -> u64 {
        let mut stream = Stream::new(self.fingerprint());
        self.tiles()
            .for_each(|tile| stream.mix(u64::from(tile.end)));
        stream.value()
    }

    /// Returns a hash of the network. It does not depend on the tiles. Two different networks have
    /// the same hash only by accident. We use it to check that a snapshot belongs to a network.
    pub fn fingerprint(&self) -> u64 {
        let link = |(index, link): (usize, &Link)| {
            let (from, to) = (
                self.junction_file_index[link.from as usize],
                self.junction_file_index[link.to as usize],
            );
            let mut hash = Stream::new(u64::from(self.link_file_index[index]));
            for part in [from, to, link.length_mm, link.speed_mm_s, link.headway_ms] {
                hash.mix(u64::from(part));
            }
            hash.mix(u64::from(link.lanes) << 8 | u64::from(link.approach));
            hash.mix(u64::from(self.inner_ms(index as u32)));
            hash.value()
        };
        let control = |(index, junction): (usize, &Junction)| {
            let mut hash = Stream::new(!u64::from(self.junction_file_index[index]));
            match junction.control {
                Control::Free => hash.mix(0),
                Control::Stop => hash.mix(1),
                Control::Priority => hash.mix(2),
                Control::Signal { program, offset_ms } => {
                    hash.mix(3 << 48 | u64::from(program) << 32 | u64::from(offset_ms));
                    let program = &self.programs[usize::from(program)];
                    hash.mix(program.hash());
                }
            }
            hash.value()
        };
        let links = self
            .links
            .iter()
            .enumerate()
            .map(link)
            .fold(0, u64::wrapping_add);
        let name = |link: u32| u64::from(self.link_file_index(link));
        let yields = |one: &Yield| {
            let mut hash = Stream::new(name(one.from) << 32 | name(one.to));
            hash.mix(one.turn as u64);
            one.foes
                .iter()
                .for_each(|foe| hash.mix(name(foe.0) << 32 | name(foe.1)));
            hash.value()
        };
        let rings = (0..self.ring.len() as u32).filter(|&link| self.ring(link).is_some());
        let rings = rings.map(|link| Stream::of(name(link), "ring", 0).value());
        let others = self.yields.iter().map(yields).chain(rings);
        self.junctions
            .iter()
            .enumerate()
            .map(control)
            .chain(others)
            .fold(links, u64::wrapping_add)
    }
}
