//! The flags by which every command is told of roads and of those who drive on them.

use std::fs::File;
use std::io::BufReader;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;

use anyhow::Context;
use clap::Args;
use creel::Pool;
use creel_console::{Progress, output};
use creel_traffic::city::City;
use creel_traffic::demand::gravity::{self, Gravity};
use creel_traffic::demand::{self, Plans, laps};
use creel_traffic::network::read::{self, Assumed, ReadError};
use creel_traffic::network::{Names, Network, Physics};
use creel_traffic::route::Router;
use creel_traffic::sim::{Rerouting, Simulation, SnapshotError};

use super::{bad_data, usage};

/// Roads, cars, and what cars are like.
#[derive(Args, Debug)]
pub struct Scene {
    #[command(flatten)]
    roads: Roads,
    #[command(flatten)]
    travellers: Travellers,
    #[command(flatten)]
    physics: PhysicsFlags,
    #[command(flatten)]
    other_ways: OtherWays,
    /// What all that is random is drawn from [default: 1]
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
}

#[derive(Args, Debug)]
#[command(next_help_heading = "Roads")]
struct Roads {
    /// A generated city of so many junctions by so many
    #[arg(long, value_name = "WxH", conflicts_with = "network")]
    city: Option<Size>,
    /// A file of roads: a pair list, DIMACS .gr, TNTP, SUMO net.xml, MATSim network.xml, .osm.pbf;
    /// .gz and .xz are unpacked. Places of NAME.gr are read from NAME.co beside it
    #[arg(long, value_name = "FILE")]
    network: Option<PathBuf>,
    /// The city's blocks, in metres; of files that tell no lengths, the roads
    #[arg(long, value_name = "M", default_value_t = 200, value_parser = clap::value_parser!(u32).range(10..=10_000))]
    block: u32,
    /// What DIMACS files count lengths in, in mm
    #[arg(long, value_name = "MM", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    unit: u32,
    /// How far the city's junctions lie beside their places, in percent of a block
    #[arg(long, value_name = "P", default_value_t = 0, value_parser = clap::value_parser!(u32).range(0..=40))]
    noise: u32,
    /// Every how many blocks the city has an avenue of two lanes, 75 km/h; 0: none
    #[arg(long, value_name = "N", default_value_t = 0)]
    avenues: u32,
    /// A river runs through the city; one street in eight has a bridge
    #[arg(long)]
    river: bool,
    /// The city has no lights
    #[arg(long)]
    no_signals: bool,
}

#[derive(Args, Debug)]
#[command(next_help_heading = "Travellers")]
struct Travellers {
    /// Cars; of a demand file, at most so many
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(0..=100_000_000))]
    cars: Option<u32>,
    /// laps (cars that drive round for ever), gravity (there and back, the nearer the likelier), or
    /// a file: MATSim plans, SUMO routes or trips, a TNTP table. If it is not said, laps, or gravity
    /// where a road has none that leads back
    #[arg(long, value_name = "DEMAND")]
    demand: Option<String>,
    /// Within how many seconds trips of gravity begin
    #[arg(long, value_name = "S", default_value_t = 3600, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    within: u32,
    /// Travellers of gravity drive to and fro for ever
    #[arg(long)]
    again: bool,
    /// Of how many places each of gravity takes one
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = clap::value_parser!(u32).range(1..=1000))]
    places: u32,
}

#[derive(Args, Debug)]
#[command(next_help_heading = "Cars")]
struct PhysicsFlags {
    /// The length of road that a standing car takes, in mm
    #[arg(long, value_name = "MM", default_value_t = Physics::default().spacing_mm)]
    spacing: u32,
    /// How long a driver takes to follow, in ms
    #[arg(long, value_name = "MS", default_value_t = Physics::default().reaction_ms)]
    reaction: u32,
    /// After how many seconds without room a car steps aside [default: 300]
    #[arg(long, value_name = "S", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    stuck: Option<u32>,
}

#[derive(Args, Debug)]
#[command(next_help_heading = "Other ways")]
struct OtherWays {
    /// Each minute so many percent of the cars that are late look for a quicker way, by the travel
    /// times of the last minutes
    #[arg(long, value_name = "P", value_parser = percent)]
    reroute: Option<f64>,
    /// Seconds from one look to the next, instead of a minute
    #[arg(long, value_name = "S", default_value_t = 60, requires = "reroute", value_parser = clap::value_parser!(u32).range(1..=86_400))]
    reroute_every: u32,
    /// A car is late if the rest of its trip takes so many percent longer than it would alone
    #[arg(long, value_name = "P", default_value_t = 20, requires = "reroute", value_parser = clap::value_parser!(u32).range(0..=10_000))]
    late: u32,
}

fn percent(text: &str) -> Result<f64, String> {
    let value = text.parse::<f64>().ok();
    value
        .filter(|value| (0.0..=100.0).contains(value))
        .ok_or_else(|| "not a number from 0 to 100".into())
}

/// Where a simulation begins.
#[derive(Args, Debug)]
pub struct Start {
    /// Go on from a file that --snapshot has written, on the same roads; with its cars, so nothing can
    /// be said of these. --reroute and --stuck hold from there on; if they are not said, as before
    #[arg(long, value_name = "FILE", conflicts_with_all = ["cars", "demand", "within", "again", "places", "spacing", "reaction"])]
    resume: Option<PathBuf>,
}

impl Start {
    /// The snapshot, if it begins with one.
    pub fn file(&self) -> Option<&Path> {
        self.resume.as_deref()
    }

    /// The simulation, and what its cars are called.
    pub fn simulation(
        &self,
        scene: &Scene,
        pool: &Pool,
        quiet: bool,
    ) -> anyhow::Result<(Simulation, Names)> {
        let network = scene.network(pool)?;
        let Some(path) = &self.resume else {
            let (plans, names) = scene.plans(&network, pool, quiet)?;
            let simulation = Simulation::new(pool, network, plans, scene.physics());
            let mut simulation = simulation.map_err(|error| usage(error.to_string()))?;
            simulation
                .set_rerouting(scene.rerouting())
                .map_err(|error| usage(error.to_string()))?;
            return Ok((simulation, names));
        };
        let file = File::open(path).with_context(|| path.display().to_string())?;
        let loaded = Simulation::load(pool, network, BufReader::new(file));
        let mut simulation = loaded.map_err(|error| match error {
            SnapshotError::Io(error) => {
                anyhow::Error::from(error).context(path.display().to_string())
            }
            other => bad_data(format!("{}: {other}", path.display())),
        })?;
        if scene.seed.is_some() && scene.roads.city.is_none() && scene.rerouting().is_none() {
            return Err(usage(
                "nothing is drawn by --seed where a snapshot goes on without --reroute",
            ));
        }
        if let Some(stuck) = scene.physics.stuck {
            simulation
                .set_stuck_time(stuck * 1000)
                .map_err(|error| usage(error.to_string()))?;
        }
        if let Some(rerouting) = scene.rerouting() {
            simulation
                .set_rerouting(Some(rerouting))
                .map_err(|error| usage(error.to_string()))?;
        }
        Ok((simulation, Names::default()))
    }
}

/// A city's size, as `500x400`.
#[derive(Clone, Copy, Debug)]
struct Size(u32, u32);

impl FromStr for Size {
    type Err = &'static str;
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (width, height) = text.split_once('x').ok_or("not of the form 500x500")?;
        let number = |text: &str| text.parse().map_err(|_| "not of the form 500x500");
        Ok(Self(number(width)?, number(height)?))
    }
}

impl Scene {
    /// What cars are like.
    pub fn physics(&self) -> Physics {
        let usual = Physics::default();
        Physics {
            spacing_mm: self.physics.spacing,
            reaction_ms: self.physics.reaction,
            stuck_ms: self
                .physics
                .stuck
                .map_or(usual.stuck_ms, |stuck| stuck * 1000),
            ..usual
        }
    }

    fn seed(&self) -> u64 {
        self.seed.unwrap_or(1)
    }

    /// The files that it is read from.
    pub fn files(&self) -> impl Iterator<Item = &Path> {
        let demand = self.travellers.demand.as_deref();
        let demand = demand.filter(|name| !matches!(*name, "laps" | "gravity"));
        let network = self.roads.network.as_deref();
        network.into_iter().chain(demand.map(Path::new))
    }

    /// Who looks for other ways.
    fn rerouting(&self) -> Option<Rerouting> {
        let OtherWays {
            reroute,
            reroute_every,
            late,
        } = self.other_ways;
        // By the round: `reroute` is by the minute.
        let share = |percent: f64| percent * 1e4 * f64::from(reroute_every) / 60.0;
        reroute.map(|percent| Rerouting {
            every_ticks: reroute_every,
            share_ppm: share(percent).min(1e6) as u32,
            late_percent: late,
            seed: self.seed(),
        })
    }

    /// What lengths are counted in, in files of whole numbers.
    pub fn unit_mm(&self) -> u32 {
        self.roads.unit
    }

    /// The roads.
    pub fn network(&self, pool: &Pool) -> anyhow::Result<Arc<Network>> {
        let roads = &self.roads;
        if let Some(Size(width, height)) = roads.city {
            let city = City {
                block_mm: roads.block * 1000,
                noise: roads.noise,
                avenue: roads.avenues,
                river: roads.river,
                signals: !roads.no_signals,
                seed: self.seed(),
                ..City::grid(width, height)
            };
            return Ok(Arc::new(
                city.network().map_err(|error| usage(error.to_string()))?,
            ));
        }
        let Some(path) = &roads.network else {
            return Err(usage("roads are wanted: --city WxH or --network FILE"));
        };
        let assumed = Assumed {
            length_mm: roads.block * 1000,
            unit_mm: roads.unit,
            ..Assumed::default()
        };
        let plan = read::network(path, &assumed, pool).map_err(|error| read_error(path, error))?;
        let network = Network::new(plan).map_err(|error| read_error(path, error.into()))?;
        Ok(Arc::new(network))
    }

    /// Who drives, and what they are called.
    pub fn plans(
        &self,
        network: &Arc<Network>,
        pool: &Pool,
        quiet: bool,
    ) -> anyhow::Result<(Arc<Plans>, Names)> {
        let cars = self.travellers.cars;
        let mut names = Names::default();
        let plans = match self.travellers.demand.as_deref() {
            None | Some("laps") => {
                let plans = laps::plans(pool, network, cars.unwrap_or(1000), self.seed());
                if plans.is_err() && self.travellers.demand.is_none() {
                    output::note("creel-traffic: some streets are one-way, so demand is gravity\n");
                    self.gravity(network, pool, quiet)?
                } else {
                    plans.map_err(bad_data)?
                }
            }
            Some("gravity") => self.gravity(network, pool, quiet)?,
            Some(file) => {
                let path = Path::new(file);
                let most = cars.map_or(usize::MAX, |cars| cars as usize);
                let demand = demand::read::demand(pool, network, path, most, self.seed());
                let demand = demand.map_err(|error| read_error(path, error))?;
                if let (number, Some(reason)) = &demand.left_out {
                    output::note(&format!(
                        "creel-traffic: {file}: {number} left out; the first: {reason}\n"
                    ));
                }
                names = demand.names;
                demand.plans
            }
        };
        Ok((Arc::new(plans), names))
    }

    fn gravity(&self, network: &Arc<Network>, pool: &Pool, quiet: bool) -> anyhow::Result<Plans> {
        let progress = Progress::share(2, quiet);
        progress.set_message("order of the junctions");
        let gravity = Gravity {
            cars: self.travellers.cars.unwrap_or(1000),
            within_ms: self.travellers.within * 1000,
            repeats: self.travellers.again,
            places: self.travellers.places,
            seed: self.seed(),
        };
        let router = Router::new(network);
        progress.advance(1);
        progress.set_message(format!("ways of {} cars", gravity.cars));
        let (plans, stay) = gravity::plans(pool, network, &router, &gravity).map_err(bad_data)?;
        progress.finish();
        if stay > 0 {
            output::note(&format!(
                "creel-traffic: {stay} of {} find no way there and back, and stay\n",
                gravity.cars
            ));
        }
        Ok(plans)
    }
}

/// An error of a file, with its exit code.
pub fn read_error(path: &Path, error: ReadError) -> anyhow::Error {
    match error {
        ReadError::Io(error) => anyhow::Error::from(error).context(path.display().to_string()),
        other => bad_data(format!("{}: {other}", path.display())),
    }
}
