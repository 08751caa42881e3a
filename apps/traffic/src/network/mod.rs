//! Roads and junctions: what a simulation is built from, and never changes.
//!
//! A network is checked and put in order once, when it is made: junctions tile by tile (tile.rs),
//! roads by the junction they begin at. So the roads out of a junction are neighbours, and a route
//! is a list of small numbers, the place of each road among those.
//!
//! Left out on purpose: geometry between junctions, lanes that differ within a road, turn bans.

pub mod city;
pub mod read;
pub mod write;

mod check;
mod coordinates;
mod tiles;

use crate::random::Stream;
use std::{collections::HashMap, fmt, ops::Range};

/// Millimetres.
pub type Mm = u32;
/// Milliseconds.
pub type Ms = u32;

/// A network has at most so many junctions and roads.
pub const LINKS_MAX: usize = 1 << 26;
/// A junction has at most so many roads out, for turns are told in 8 bits, and as many in.
pub const DEGREE_MAX: usize = 256;
/// A road takes at least so long, and a hole runs back through it no faster: the look-ahead of the
/// simulation. (MATSim has the same least travel time.)
pub const LINK_TIME_MS_MIN: Ms = 1000;

/// What cars are like, for all roads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Physics {
    /// The length of road that a standing car takes.
    pub spacing_mm: Mm,
    /// How long a driver takes to follow the car in front.
    pub reaction_ms: Ms,
    /// How long a crossing keeps a stop, or those who must yield, from the next.
    pub gap_ms: Ms,
    /// A car that has headed its road for so long and finds no room steps off it, and waits beside
    /// the road that it wants to enter.
    pub stuck_ms: Ms,
}

impl Default for Physics {
    fn default() -> Self {
        Self {
            spacing_mm: 7500,
            reaction_ms: 1000,
            gap_ms: 2000,
            stuck_ms: 300_000,
        }
    }
}

impl Physics {
    /// Says what is wrong with it, if anything.
    ///
    /// # Errors
    /// The first value that is out of range.
    pub fn check(&self) -> Result<(), NetworkError> {
        let within = |name, value: u32, range: std::ops::RangeInclusive<u32>| {
            let reason = || format!("{name} is {value}, not within {range:?}");
            range
                .contains(&value)
                .then_some(())
                .ok_or_else(|| NetworkError(reason()))
        };
        within("the spacing in mm", self.spacing_mm, 1000..=100_000)?;
        within("the reaction in ms", self.reaction_ms, 100..=10_000)?;
        within("the gap in ms", self.gap_ms, 1..=60_000)?;
        within("the time-out in ms", self.stuck_ms, 1000..=100_000_000)
    }
}

/// How a junction lets cars cross.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub enum Control {
    /// Whoever comes, as the flow of the roads allows.
    #[default]
    Free,
    /// One car at a time, whichever road it comes from.
    Stop,
    /// Roads of approach 0 yield to those of approach 1.
    Priority,
    /// Lights: a program of the network, begun so many milliseconds late.
    Signal {
        /// Which of [`Network::programs`].
        program: u16,
        /// How late its cycle begins.
        offset_ms: Ms,
    },
}

/// A signal's program: when each approach has green, within a cycle.
#[derive(Clone, Debug, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
pub struct Program {
    /// How long a cycle is.
    pub cycle_ms: Ms,
    /// By approach: from (included) and to (excluded) when it has green.
    pub greens: Vec<(Ms, Ms)>,
}

impl Program {
    /// Two approaches that have green in turn, with 3 s between them; `cycle_ms` is 12,000 or more.
    pub fn fixed_time(approaches: u8, cycle_ms: Ms) -> Self {
        let part = cycle_ms / Ms::from(approaches.max(1));
        let green = |i: u8| {
            (
                Ms::from(i) * part,
                (Ms::from(i) + 1) * part - 3000.min(part / 2),
            )
        };
        Self {
            cycle_ms,
            greens: (0..approaches.max(1)).map(green).collect(),
        }
    }

    /// From `at_ms` on, when `approach` has green next: `at_ms` itself where it has it.
    #[inline]
    pub fn green(&self, approach: u8, offset_ms: Ms, at_ms: Ms) -> Ms {
        let (from, to) = self.greens[usize::from(approach)];
        let phase =
            (u64::from(at_ms) + u64::from(self.cycle_ms - offset_ms)) % u64::from(self.cycle_ms);
        let phase = phase as Ms;
        if phase < from {
            at_ms.saturating_add(from - phase)
        } else if phase < to {
            at_ms
        } else {
            at_ms.saturating_add(self.cycle_ms - phase + from)
        }
    }
}

/// Where roads meet.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Junction {
    /// East, in metres (or degrees where the network is [geographic](Network::geographic)).
    pub x: f64,
    /// North.
    pub y: f64,
    /// Who may cross.
    pub control: Control,
}

/// A road from one junction to another, for one direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Link {
    /// The junction where it begins.
    pub from: u32,
    /// The junction where it ends.
    pub to: u32,
    /// How long it is.
    pub length_mm: Mm,
    /// Millimetres a second, where nobody is in the way.
    pub speed_mm_s: u32,
    /// From one car to the next at its end, at least: 3,600,000 ÷ capacity an hour. 0 where only
    /// [`Physics`] limits it.
    pub headway_ms: u16,
    /// Lanes.
    pub lanes: u8,
    /// Which part of the program of the junction at its end it has; its rank where that is
    /// [`Control::Priority`].
    pub approach: u8,
}

/// What a simulation needs of a road, computed once by [`Network::flow`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flow {
    /// From its begin to its end, where nobody is in the way.
    pub free_flow_ms: Ms,
    /// Until the space of a car that left is free at the begin.
    pub hole_ms: Ms,
    /// From one car to the next.
    pub headway_ms: u16,
    /// Cars that it holds.
    pub storage: u16,
}

impl Link {
    fn flow(&self, physics: &Physics) -> Flow {
        let (length, lanes) = (u64::from(self.length_mm), u64::from(self.lanes));
        let (spacing, reaction) = (
            u64::from(physics.spacing_mm),
            u64::from(physics.reaction_ms),
        );
        let speed = u64::from(self.speed_mm_s);
        let rounded = |a: u64, b: u64| (a + b / 2) / b;
        let free = rounded(length * 1000, speed).max(u64::from(LINK_TIME_MS_MIN));
        // Newell's triangle: a lane lets a car by each reaction + spacing ÷ speed.
        let lane = reaction + rounded(spacing * 1000, speed);
        let headway = rounded(lane, lanes).max(u64::from(self.headway_ms));
        let whole = (length * lanes / spacing).max(1);
        // A road holds whole cars, and must still carry its flow: holes run as much faster as it holds
        // less than its length would, and where they cannot, or its times were made longer, it holds more.
        let hole = rounded(length * reaction, spacing)
            .min((whole * headway).saturating_sub(free))
            .max(u64::from(LINK_TIME_MS_MIN));
        let carried = (free + hole).div_ceil(headway);
        Flow {
            free_flow_ms: free.min(1 << 30) as Ms,
            hole_ms: hole.min(1 << 30) as Ms,
            headway_ms: headway.clamp(1, u64::from(u16::MAX)) as u16,
            storage: whole.max(carried).clamp(1, 65_000) as u16,
        }
    }
}

/// What keeps a network or a demand from being used; names the thing and the reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NetworkError(pub String);

impl fmt::Display for NetworkError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for NetworkError {}

/// Names that a file gave to its junctions or roads, in the file's order.
#[derive(Clone, Debug, Default)]
pub struct Names(Vec<Box<str>>);

impl Names {
    /// Those of a list.
    pub fn new(names: Vec<Box<str>>) -> Self {
        Self(names)
    }

    /// One of them.
    pub fn get(&self, index: u32) -> String {
        self.0
            .get(index as usize)
            .map_or_else(|| (index + 1).to_string(), |name| name.to_string())
    }
}

/// What a reader or a generator gives, to be checked and put in order.
#[derive(Clone, Debug, Default)]
pub struct RawNetwork {
    /// Junctions.
    pub junctions: Vec<Junction>,
    /// Roads between them.
    pub links: Vec<Link>,
    /// Signal programs.
    pub programs: Vec<Program>,
    /// Their names, or none: then they are called by their numbers from 1.
    pub junction_names: Names,
    /// The roads' names, or none.
    pub link_names: Names,
    /// Whether junctions have places at all.
    pub has_coordinates: bool,
    /// Whether places are degrees.
    pub geographic: bool,
}

/// Roads and junctions, checked and in order.
#[derive(Clone, Debug)]
pub struct Network {
    junctions: Vec<Junction>,
    links: Vec<Link>,
    programs: Vec<Program>,
    /// Of each junction, the first road that begins there; one more at the end.
    first_out: Vec<u32>,
    /// Of each tile, its first junction; one more at the end.
    tiles: Vec<u32>,
    /// The numbers that junctions and roads had in their file.
    junction_file_index: Vec<u32>,
    link_file_index: Vec<u32>,
    junction_names: Names,
    link_names: Names,
    has_coordinates: bool,
    geographic: bool,
}

/// Junctions of a tile, by default: what a second-level cache holds with its roads and cars.
pub const TILE_JUNCTIONS: usize = 512;

impl Network {
    /// Checks a plan and puts it in order.
    ///
    /// # Errors
    /// The first thing that cannot be, by name.
    pub fn new(raw: RawNetwork) -> Result<Self, NetworkError> {
        Self::with_tiles(raw, TILE_JUNCTIONS)
    }

    /// The same with tiles of at most so many junctions. Outcomes do not depend on it.
    ///
    /// # Errors
    /// The first thing that cannot be, by name.
    pub fn with_tiles(raw: RawNetwork, tile_junctions: usize) -> Result<Self, NetworkError> {
        check::check(&raw)?;
        let (order, tiles) = tiles::cut(&raw, tile_junctions.max(1));
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
        Ok(Self {
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

    /// Junctions, tile by tile.
    pub fn junctions(&self) -> &[Junction] {
        &self.junctions
    }

    /// Roads, by the junction where they begin.
    pub fn links(&self) -> &[Link] {
        &self.links
    }

    /// Signal programs.
    pub fn programs(&self) -> &[Program] {
        &self.programs
    }

    /// The roads that begin at a junction.
    #[inline]
    pub fn out(&self, junction: u32) -> Range<u32> {
        self.first_out[junction as usize]..self.first_out[junction as usize + 1]
    }

    /// Of each tile, its junctions.
    pub fn tiles(&self) -> impl ExactSizeIterator<Item = Range<u32>> {
        self.tiles.windows(2).map(|pair| pair[0]..pair[1])
    }

    /// What a road does to cars.
    pub fn flow(&self, link: u32, physics: &Physics) -> Flow {
        self.links[link as usize].flow(physics)
    }

    /// The number that a road had in its file, from 0; also what it is called in hashes, so that
    /// these do not depend on the order here.
    #[inline]
    pub fn link_file_index(&self, link: u32) -> u32 {
        self.link_file_index[link as usize]
    }

    /// The number that a junction had in its file, from 0.
    pub fn junction_file_index(&self, junction: u32) -> u32 {
        self.junction_file_index[junction as usize]
    }

    /// A road's name in its file, or its number from 1.
    pub fn link_name(&self, link: u32) -> String {
        self.link_names.get(self.link_file_index(link))
    }

    /// A junction's name in its file, or its number from 1.
    pub fn junction_name(&self, junction: u32) -> String {
        self.junction_names.get(self.junction_file_index(junction))
    }

    /// Junctions by their names.
    pub fn junctions_by_name(&self) -> HashMap<String, u32> {
        (0..self.junctions.len() as u32)
            .map(|j| (self.junction_name(j), j))
            .collect()
    }

    /// Roads by their names.
    pub fn links_by_name(&self) -> HashMap<String, u32> {
        (0..self.links.len() as u32)
            .map(|l| (self.link_name(l), l))
            .collect()
    }

    /// Whether there are lights, stops or priorities.
    pub fn controlled(&self) -> bool {
        let free = |junction: &Junction| junction.control == Control::Free;
        !self.junctions.iter().all(free)
    }

    /// Whether junctions have places.
    pub fn has_coordinates(&self) -> bool {
        self.has_coordinates
    }

    /// Whether places are degrees of longitude and latitude.
    pub fn geographic(&self) -> bool {
        self.geographic
    }

    /// A number that two networks share only if they are the same, wherever tiles are cut.
    pub fn fingerprint(&self) -> u64 {
        let link = |(index, link): (usize, &Link)| {
            let (from, to) = (
                self.junction_file_index[link.from as usize],
                self.junction_file_index[link.to as usize],
            );
            let mut hash = Stream::new(u64::from(self.link_file_index[index]));
            for part in [
                from,
                to,
                link.length_mm,
                link.speed_mm_s,
                u32::from(link.headway_ms),
            ] {
                hash.mix(u64::from(part));
            }
            hash.mix(u64::from(link.lanes) << 8 | u64::from(link.approach));
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
                    hash.mix(u64::from(program.cycle_ms));
                    program
                        .greens
                        .iter()
                        .for_each(|&(a, b)| hash.mix(u64::from(a) << 32 | u64::from(b)));
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
        self.junctions
            .iter()
            .enumerate()
            .map(control)
            .fold(links, u64::wrapping_add)
    }
}
