//! Builds the tiles of a network, with all cars at their origins. We also find the lookahead here,
//! because it follows from the links between tiles.

use super::priority::{Builder, hidden_ms};
use super::records::*;
use super::slab::NONE;
use super::tile::Tile;
use super::{Ms, Sources};
use crate::demand::{Plans, turn_bits};
use crate::network::{Control, Network, Physics};
use std::cmp::Reverse;
use std::collections::VecDeque;
use std::sync::Arc;

pub(super) struct Built {
    pub tiles: Vec<Tile>,
    pub sources: Vec<Sources>,
    /// The number of neighbours of each tile.
    pub neighbours: Vec<usize>,
    /// The minimum time that a car or a hole (the space of a car that has left a link) takes from
    /// one tile to another.
    pub look_ahead_ms: Ms,
}

pub(super) fn build(network: &Network, plans: &Plans, physics: &Physics) -> Built {
    let ends = LinkEnds::of(network);
    let mut look_ahead_ms = Ms::MAX;
    let mut tiles = Vec::with_capacity(network.tiles().len());
    let mut neighbours: Vec<Vec<u32>> = Vec::with_capacity(network.tiles().len());
    for (index, junctions) in network.tiles().enumerate() {
        let mut builder = TileBuilder {
            network,
            ends: &ends,
            index: index as u32,
            tile: Tile::new(junctions.start, network.out(junctions.start).start),
            neighbours: ends.neighbours(network, index as u32, junctions.clone()),
            look_ahead_ms,
            priority: Builder::default(),
            exits: Vec::new(),
        };
        for junction in junctions.clone() {
            builder.junction(junction, physics);
        }
        builder.finish(physics);
        look_ahead_ms = builder.look_ahead_ms;
        tiles.push(builder.tile);
        neighbours.push(builder.neighbours);
    }
    schedule_first_trips(plans, &ends, &mut tiles);
    let mut sources: Vec<Sources> = vec![Vec::new(); tiles.len()];
    for (tile, neighbours) in neighbours.iter().enumerate() {
        for (slot, &neighbour) in neighbours.iter().enumerate() {
            sources[neighbour as usize].push((tile as u32, slot as u16));
        }
    }
    let neighbours = neighbours.iter().map(Vec::len).collect();
    Built {
        tiles,
        sources,
        neighbours,
        look_ahead_ms,
    }
}

/// The positions of both ends of each link: its entry at the junction where it begins, and its exit
/// at the junction where it ends.
struct LinkEnds {
    tile_of: Vec<u32>,
    /// The first link that begins in each tile.
    first_link: Vec<u32>,
    /// All links, ordered by the junction at which they end. Links that end at the same junction
    /// are in the order of their file.
    exits: Vec<u32>,
    /// The position in `exits` of each junction's first link, plus one entry for the end.
    first_exit: Vec<u32>,
    /// The index of each link's exit among the exits of its tile.
    exit_of: Vec<u16>,
    /// For each link, whether another movement yields to the cars of the link. The junction at its
    /// end must then watch the cars that approach.
    watched: Vec<bool>,
}

impl LinkEnds {
    fn of(network: &Network) -> Self {
        let total = network.junctions().len();
        let mut tile_of = vec![0; total];
        let mut first_exit = vec![0_u32; total + 1];
        for (tile, junctions) in network.tiles().enumerate() {
            tile_of[junctions.start as usize..junctions.end as usize].fill(tile as u32);
        }
        for link in network.links() {
            first_exit[link.to as usize + 1] += 1;
        }
        for junction in 0..total {
            first_exit[junction + 1] += first_exit[junction];
        }
        let mut exits: Vec<u32> = (0..network.links().len() as u32).collect();
        exits.sort_unstable_by_key(|&link| {
            (
                network.links()[link as usize].to,
                network.link_file_index(link),
            )
        });
        let mut exit_of = vec![0; exits.len()];
        for junctions in network.tiles() {
            let first = first_exit[junctions.start as usize];
            for place in first..first_exit[junctions.end as usize] {
                exit_of[exits[place as usize] as usize] = (place - first) as u16;
            }
        }
        let first_link = network
            .tiles()
            .map(|tile| network.out(tile.start).start)
            .collect();
        let mut watched = vec![false; exits.len()];
        for junction in 0..total as u32 {
            for foe in network.yields(junction).iter().flat_map(|one| &one.foes) {
                watched[foe.0 as usize] = true;
            }
        }
        Self {
            watched,
            tile_of,
            first_link,
            exits,
            first_exit,
            exit_of,
        }
    }

    fn exits_of(&self, junction: u32) -> &[u32] {
        let (begin, end) = (
            self.first_exit[junction as usize],
            self.first_exit[junction as usize + 1],
        );
        &self.exits[begin as usize..end as usize]
    }

    fn neighbours(
        &self,
        network: &Network,
        tile: u32,
        junctions: std::ops::Range<u32>,
    ) -> Vec<u32> {
        let mut neighbours: Vec<u32> = junctions
            .flat_map(|junction| {
                let out = network
                    .out(junction)
                    .map(|link| network.links()[link as usize].to);
                let into = self
                    .exits_of(junction)
                    .iter()
                    .map(|&link| network.links()[link as usize].from);
                out.chain(into)
            })
            .map(|junction| self.tile_of[junction as usize])
            .filter(|&other| other != tile)
            .collect();
        neighbours.sort_unstable();
        neighbours.dedup();
        neighbours
    }
}

/// A tile that is being built, with the tables that are needed only for that.
struct TileBuilder<'a> {
    network: &'a Network,
    ends: &'a LinkEnds,
    index: u32,
    tile: Tile,
    neighbours: Vec<u32>,
    look_ahead_ms: Ms,
    priority: Builder,
    /// The link of each exit, which is the end of a link.
    exits: Vec<u32>,
}

impl TileBuilder<'_> {
    fn junction(&mut self, junction: u32, physics: &Physics) {
        let out = self.network.out(junction);
        let exits = self.ends.exits_of(junction);
        let control = self.network.junctions()[junction as usize].control;
        let (rule, program, offset_ms) = match control {
            Control::Free => (Rule::Free, 0, 0),
            Control::Stop => (Rule::Stop, 0, 0),
            Control::Priority => (Rule::Priority, 0, 0),
            Control::Signal { program, offset_ms } => (Rule::Signal, program, offset_ms),
        };
        let local = self.tile.nodes.len() as u16;
        self.tile.nodes.push(Node {
            busy_until: 0,
            offset_ms,
            first_entry: self.tile.entries.len() as u16,
            first_exit: self.tile.exits.len() as u16,
            program,
            turn_bits: turn_bits(out.len() as u32) as u8,
            rule,
        });
        for link in out {
            let flow = self.network.flow(link, physics);
            let road = self.network.links()[link as usize];
            let exit = self.ends.exit_of[link as usize];
            let watched = self.ends.watched[link as usize];
            let seen_ms = match watched {
                true => hidden_ms(flow.free_flow_ms),
                false => flow.free_flow_ms,
            };
            let mut down = self.other_end(road.to, exit, link, seen_ms);
            if watched {
                down |= WATCHED;
            }
            if self.network.ring(link).is_some() {
                down |= RING;
            }
            self.tile.entries.push(LinkEntry::new(down, &flow));
        }
        for &link in exits {
            let flow = self.network.flow(link, physics);
            let road = self.network.links()[link as usize];
            let first = self.ends.first_link[self.ends.tile_of[road.from as usize] as usize];
            let up = self.other_end(road.from, (link - first) as u16, link, flow.hole_ms);
            self.tile.exits.push(LinkExit {
                last: NONE,
                free_at: 0,
                up,
                since: 0,
                hole_ms: flow.hole_ms,
                next_waiter: NONE16,
                junction: local,
                headway_ms: flow.headway_ms,
                approach: road.approach,
                flags: match self.ends.watched[link as usize] {
                    true => LinkExit::WATCHED,
                    false => 0,
                },
                tag: 0,
                tag_of: NONE16,
            });
            self.exits.push(link);
        }
        if rule == Rule::Priority {
            let first = self.network.out(junction).start;
            let first_entry = self.tile.nodes[usize::from(local)].first_entry;
            self.priority.junction(
                self.network.yields(junction),
                |link| self.ends.exit_of[link as usize],
                |link| first_entry + (link - first) as u16,
            );
        }
    }

    /// Builds the right of way, adds the end entry to the list of junctions, and releases unused
    /// memory.
    fn finish(&mut self, physics: &Physics) {
        let tile = &mut self.tile;
        let entries: Vec<u32> = (tile.first_link..).take(tile.entries.len()).collect();
        let rights = std::mem::take(&mut self.priority);
        let rights = rights.finish(self.network, physics, &self.exits, &entries);
        tile.crossed = vec![Crossings::default(); rights.movements()];
        tile.approaching = vec![VecDeque::new(); rights.watched_exits()];
        tile.right_of_way = Arc::new(rights);
        tile.nodes.push(Node {
            busy_until: 0,
            offset_ms: 0,
            first_entry: tile.entries.len() as u16,
            first_exit: tile.exits.len() as u16,
            program: 0,
            turn_bits: 1,
            rule: Rule::Free,
        });
        tile.nodes.shrink_to_fit();
        tile.exits.shrink_to_fit();
        tile.entries.shrink_to_fit();
        tile.cuts.shrink_to_fit();
    }

    /// Returns the value with which one end of a link refers to the other end, for `LinkExit::up`
    /// or `LinkEntry::down`. The other end is at `junction`, and has the index `there` in its tile.
    /// If it is in another tile, adds a [`Cut`], and the value is the index of this cut.
    fn other_end(&mut self, junction: u32, there: u16, link: u32, takes_ms: Ms) -> u32 {
        let tile = self.ends.tile_of[junction as usize];
        if tile == self.index {
            return u32::from(there);
        }
        self.look_ahead_ms = self.look_ahead_ms.min(takes_ms);
        let neighbour =
            self.neighbours
                .binary_search(&tile)
                .expect("the tile of an adjacent junction is a neighbour") as u16;
        self.tile.cuts.push(Cut {
            neighbour,
            there,
            link,
        });
        CUT | (self.tile.cuts.len() as u32 - 1)
    }
}

/// Schedules the first trip of each traveller in the tile of its origin.
fn schedule_first_trips(plans: &Plans, ends: &LinkEnds, tiles: &mut [Tile]) {
    let tile_at = |place| ends.tile_of[plans.origin_at(place) as usize] as usize;
    let mut trips = vec![0; tiles.len()];
    plans
        .plan_starts()
        .for_each(|place| trips[tile_at(place)] += 1);
    for (tile, &trips) in tiles.iter_mut().zip(&trips) {
        tile.departures.reserve_exact(trips);
    }
    for begin in plans.plan_starts() {
        let tile = &mut tiles[tile_at(begin)];
        match plans.departure(begin + 1) {
            None => tile.tally.done += 1,
            Some((at, place)) => {
                let junction = (plans.origin_at(begin) - tile.first_junction) as u16;
                tile.tally.idle += 1;
                tile.departures.push(Reverse(Departure {
                    at,
                    place,
                    junction,
                }));
            }
        }
    }
}
