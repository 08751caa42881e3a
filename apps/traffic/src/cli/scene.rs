//! The flags that all commands share: the road network, the demand and the car model. Only `assign`
//! does not use them, because it reads TNTP files only.

use std::fs::File;
use std::io::BufReader;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use anyhow::Context;
use clap::Args;
use creel::Pool;
use creel_console::{Progress, output};
use creel_traffic::city::City;
use creel_traffic::demand::gravity::{self, Gravity};
use creel_traffic::demand::prepared::{self, PreparedError};
use creel_traffic::demand::{self, Plans, laps};
use creel_traffic::network::read::{self, Assumed, ReadError, Unused};
use creel_traffic::network::{Names, Network, Physics, Turn};
use creel_traffic::random::Stream;
use creel_traffic::route::Router;
use creel_traffic::sim::{Rerouting, Simulation, SnapshotError};
use serde::Serialize;

use super::{bad_data, milliseconds, output_file, seconds, usage};

/// The road network, the demand and the car model.
#[derive(Args, Debug)]
pub struct Scene {
    #[command(flatten)]
    roads: Roads,
    #[command(flatten)]
    travellers: Travellers,
    #[command(flatten)]
    physics: PhysicsFlags,
    #[command(flatten)]
    rerouting: ReroutingFlags,
    /// Seed the random numbers with N. The same seed gives the same simulation [default: 1]
    #[arg(long, help_heading = "Simulation", value_name = "N")]
    seed: Option<u64>,
    /// Fail if a part of the network or demand file is not used although it could change the result
    #[arg(long, help_heading = "Simulation")]
    strict: bool,
    /// The parts of the network and the demand that were not used. Reading happens through shared
    /// references, so a mutex protects them.
    #[arg(skip)]
    unused: Mutex<UnusedParts>,
}

/// The parts of the input files that were not used.
#[derive(Clone, Debug, Default, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct UnusedParts {
    #[cfg_attr(test, schemars(with = "std::collections::BTreeMap<String, u64>"))]
    network: Unused,
    #[cfg_attr(test, schemars(with = "std::collections::BTreeMap<String, u64>"))]
    demand: Unused,
    /// The number of travellers and trips that were left out.
    left_out: usize,
}

#[derive(Args, Debug)]
#[command(next_help_heading = "Road network")]
struct Roads {
    /// Generate a city with a grid of W by H junctions
    #[arg(long, value_name = "WxH", conflicts_with = "network")]
    city: Option<Size>,
    /// Read the road network from FILE: a pair list, DIMACS .gr, TNTP, SUMO net.xml, MATSim
    /// network.xml or OpenStreetMap .osm.pbf, also compressed (.gz, .xz). Coordinates of NAME.gr
    /// are read from NAME.co in the same folder
    #[arg(long, value_name = "FILE")]
    network: Option<PathBuf>,
    /// Set the length of a city block, in metres. If a network file has no lengths, each of its
    /// roads gets this length
    #[arg(long, value_name = "M", default_value_t = 200, value_parser = clap::value_parser!(u32).range(10..=10_000))]
    block: u32,
    /// Set the unit of the lengths in DIMACS files: one unit is MM millimetres
    #[arg(long, value_name = "MM", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    unit: u32,
    /// Move each junction of the city by a random distance of up to P percent of a block, from 0 to
    /// 40
    #[arg(long, value_name = "P", default_value_t = 0, value_parser = clap::value_parser!(u32).range(0..=40))]
    noise: u32,
    /// Make every Nth street of the city an avenue with two lanes and a speed limit of 75 km/h (0:
    /// no avenues)
    #[arg(long, value_name = "N", default_value_t = 0)]
    avenues: u32,
    /// Add a river to the city. Only one street in eight has a bridge
    #[arg(long)]
    river: bool,
    /// Leave out the traffic lights of the city
    #[arg(long)]
    no_signals: bool,
}

#[derive(Args, Debug)]
#[command(next_help_heading = "Demand")]
struct Travellers {
    /// Simulate N cars, or at most N if the demand comes from a file [default: 1000]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(0..=100_000_000))]
    cars: Option<u32>,
    /// Choose the demand: laps (cars that drive in circles for ever), gravity (round trips, to
    /// near places more often than to far ones), or a file with MATSim plans, SUMO routes or trips,
    /// or a TNTP trip table. If the types of vehicles are in another file (SUMO's vType, or MATSim's
    /// vehicles), give --demand twice, first with that file [default: laps, or gravity if the
    /// network has one-way roads]
    #[arg(long, value_name = "DEMAND")]
    demand: Vec<String>,
    /// Spread the departures of gravity trips over TIME, for example 30m. A number without a unit
    /// is in seconds
    #[arg(long, value_name = "TIME", default_value_t = 3600, value_parser = seconds::<1, 1_000_000>)]
    within: u32,
    /// Repeat gravity trips for ever, instead of one round trip per car
    #[arg(long)]
    again: bool,
    /// Let each car choose its destination among N random places, and prefer near places. This has
    /// an effect only with gravity demand
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = clap::value_parser!(u32).range(1..=1000))]
    places: u32,
    /// Save time in later runs: use the routes in FILE if they were written for the same network
    /// and demand. Otherwise compute the routes and write them to FILE. With --strict, FILE is not
    /// used
    #[arg(long, value_name = "FILE")]
    prepared: Option<PathBuf>,
}

#[derive(Args, Debug)]
#[command(next_help_heading = "Car model")]
struct PhysicsFlags {
    /// Set the length of road that a standing car takes, in mm (inverse of the jam density)
    #[arg(long, value_name = "MM", default_value_t = Physics::default().spacing_mm)]
    spacing: u32,
    /// Set the reaction time of a driver who follows another car, for example 1.2s. A number
    /// without a unit is in milliseconds
    #[arg(long, value_name = "TIME", default_value_t = Physics::default().reaction_ms, value_parser = milliseconds)]
    reaction: u32,
    /// Set critical gaps at priority junctions: the shortest gap that a driver accepts, by kind of
    /// turn, for example left=7.5s,through=6s. Kinds: major (a turn from the major road), right,
    /// through and left (from a minor road), roundabout. A number without a unit is in milliseconds
    /// [default: major=4.1s, right=6.2s, through=6.5s, left=7.1s, roundabout=4.98s]
    #[arg(long, value_name = "KIND=TIME", value_delimiter = ',', value_parser = turn_time)]
    critical_gap: Vec<(Turn, u32)>,
    /// Set follow-up times at priority junctions: the time between two cars of a queue that use the
    /// same gap, by kind of turn as for --critical-gap. A number without a unit is in milliseconds
    /// [default: major=2.2s, right=3.3s, through=4s, left=3.5s, roundabout=2.61s]
    #[arg(long, value_name = "KIND=TIME", value_delimiter = ',', value_parser = turn_time)]
    follow_up: Vec<(Turn, u32)>,
    /// Multiply the flow capacity of all roads by F. For example, use 0.1 if the demand is a sample
    /// of 10 percent of the cars
    #[arg(long, value_name = "F", default_value_t = 1.0, value_parser = factor)]
    flow_factor: f64,
    /// Multiply the storage of all roads by F. The storage is the number of cars that fit on a road
    #[arg(long, value_name = "F", default_value_t = 1.0, value_parser = factor)]
    storage_factor: f64,
    /// Dissolve gridlocks: let a car that has been blocked for TIME, for example 5m, drive past the
    /// full roads ahead until it finds a road with room. A number without a unit is in seconds
    /// [default: 300]
    #[arg(long, value_name = "TIME", value_parser = seconds::<1, 100_000>)]
    stuck: Option<u32>,
}

#[derive(Args, Debug)]
#[command(next_help_heading = "Rerouting")]
struct ReroutingFlags {
    /// Let P percent of the late cars (see --late) search for a quicker route each minute, based on
    /// the travel times of the last minutes
    #[arg(long, value_name = "P", value_parser = percent)]
    reroute: Option<f64>,
    /// Let late cars search for a quicker route every TIME. --reroute is still a percentage per
    /// minute: with `--reroute 10 --reroute-every 2m`, 20 percent of the late cars search every two
    /// minutes. A number without a unit is in seconds
    #[arg(long, value_name = "TIME", default_value_t = 60, requires = "reroute", value_parser = seconds::<1, 86_400>)]
    reroute_every: u32,
    /// Count a car as late, so that it may search for a quicker route, if the rest of its trip
    /// takes more than P percent longer than in free flow
    #[arg(long, value_name = "P", default_value_t = 20, requires = "reroute", value_parser = clap::value_parser!(u32).range(0..=10_000))]
    late: u32,
}

/// Parses a kind of turn and a time, for example `left=7.1s`.
fn turn_time(text: &str) -> Result<(Turn, u32), String> {
    let names = Turn::NAMES.map(|(name, _)| name).join(", ");
    let (kind, time) = text
        .split_once('=')
        .ok_or_else(|| "expected KIND=TIME, for example left=7.1s".to_owned())?;
    let known = Turn::NAMES.into_iter().find(|(name, _)| *name == kind);
    let (_, turn) = known.ok_or_else(|| format!("unknown kind of turn: expected {names}"))?;
    Ok((turn, milliseconds(time)?))
}

fn factor(text: &str) -> Result<f64, String> {
    let value = text.parse::<f64>().ok();
    value
        .filter(|value| (0.0001..=100.0).contains(value))
        .ok_or_else(|| "expected a number from 0.0001 to 100".into())
}

fn percent(text: &str) -> Result<f64, String> {
    let value = text.parse::<f64>().ok();
    value
        .filter(|value| (0.0..=100.0).contains(value))
        .ok_or_else(|| "expected a number from 0 to 100".into())
}

/// The state in which a simulation begins.
#[derive(Args, Debug)]
pub struct Start {
    /// Resume from FILE, which --snapshot has written on the same network. The snapshot contains
    /// the cars, so the flags for demand and car model are not available. --reroute and --stuck
    /// replace the settings of the snapshot
    #[arg(long, help_heading = "Simulation", value_name = "FILE", conflicts_with_all = ["cars", "demand", "within", "again", "places", "spacing", "reaction", "critical_gap", "follow_up", "flow_factor", "storage_factor"])]
    resume: Option<PathBuf>,
}

impl Start {
    /// Returns the path of the snapshot, if the simulation resumes from one.
    pub fn file(&self) -> Option<&Path> {
        self.resume.as_deref()
    }

    /// Creates the simulation, from the snapshot or from the network and the demand. Also returns
    /// the names of its cars.
    pub fn simulation(
        &self,
        scene: &Scene,
        pool: &Pool,
        quiet: bool,
    ) -> anyhow::Result<(Simulation, Names)> {
        let network = scene.network(pool, quiet)?;
        let Some(path) = &self.resume else {
            let (plans, names) = scene.plans(&network, pool, quiet)?;
            let simulation = Simulation::new(pool, network, plans, scene.physics());
            let mut simulation = simulation.map_err(|error| usage(error.to_string()))?;
            simulation
                .set_rerouting(scene.rerouting())
                .map_err(|error| usage(error.to_string()))?;
            return Ok((simulation, names));
        };
        let file = File::open(path).with_context(|| cannot_read(path))?;
        let loaded = Simulation::load(pool, network, BufReader::new(file));
        let mut simulation = loaded.map_err(|error| match error {
            SnapshotError::Io(error) => anyhow::Error::from(error).context(cannot_read(path)),
            other => bad_data(format!("{}: {other}", cannot_read(path))),
        })?;
        if scene.seed.is_some() && scene.roads.city.is_none() && scene.rerouting().is_none() {
            return Err(usage(
                "--seed has no effect: a resumed run draws random numbers only with --reroute",
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

/// The size of a city, written as `500x400`.
#[derive(Clone, Copy, Debug)]
struct Size(u32, u32);

impl FromStr for Size {
    type Err = &'static str;
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        const EXPECTED: &str = "expected WIDTHxHEIGHT, for example 500x500";
        let (width, height) = text.split_once('x').ok_or(EXPECTED)?;
        let number = |text: &str| text.parse().map_err(|_| EXPECTED);
        Ok(Self(number(width)?, number(height)?))
    }
}

impl Scene {
    /// Returns the parameters of the car model.
    pub fn physics(&self) -> Physics {
        let usual = Physics::default();
        let mut gaps = usual.gaps;
        for &(turn, ms) in &self.physics.critical_gap {
            gaps.critical_ms[turn as usize] = ms;
        }
        for &(turn, ms) in &self.physics.follow_up {
            gaps.follow_up_ms[turn as usize] = ms;
        }
        let ppm = |factor: f64| (factor * 1e6).round() as u32;
        Physics {
            spacing_mm: self.physics.spacing,
            reaction_ms: self.physics.reaction,
            stuck_ms: self
                .physics
                .stuck
                .map_or(usual.stuck_ms, |stuck| stuck * 1000),
            gaps,
            flow_ppm: ppm(self.physics.flow_factor),
            storage_ppm: ppm(self.physics.storage_factor),
            ..usual
        }
    }

    fn seed(&self) -> u64 {
        self.seed.unwrap_or(1)
    }

    /// Returns the paths of the network file and the demand file. A generated network or demand has
    /// no file.
    pub fn files(&self) -> impl Iterator<Item = &Path> {
        let network = self.roads.network.as_deref();
        network.into_iter().chain(self.demand_files())
    }

    fn demand_files(&self) -> impl Iterator<Item = &Path> {
        let demand = self.travellers.demand.iter().map(String::as_str);
        demand.filter(|name| !is_generated(name)).map(Path::new)
    }

    /// Returns the settings for rerouting, if the user asked for it.
    fn rerouting(&self) -> Option<Rerouting> {
        let ReroutingFlags {
            reroute,
            reroute_every,
            late,
        } = self.rerouting;
        // The flag gives the share per minute, but `share_ppm` is the share per round.
        let share = |percent: f64| percent * 1e4 * f64::from(reroute_every) / 60.0;
        reroute.map(|percent| Rerouting {
            every_ticks: reroute_every,
            share_ppm: share(percent).min(1e6) as u32,
            late_percent: late,
            seed: self.seed(),
        })
    }

    /// Returns the unit of lengths in DIMACS files, in mm.
    pub fn unit_mm(&self) -> u32 {
        self.roads.unit
    }

    /// Generates or reads the road network.
    pub fn network(&self, pool: &Pool, quiet: bool) -> anyhow::Result<Arc<Network>> {
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
            return Err(usage(
                "no road network given: use --city WxH or --network FILE",
            ));
        };
        let assumed = Assumed {
            length_mm: roads.block * 1000,
            unit_mm: roads.unit,
            ..Assumed::default()
        };
        let plan = read::network(path, &assumed, pool).map_err(|error| read_error(path, error))?;
        self.report_unused(path, &plan.unused, quiet)?;
        self.unused_parts().network = plan.unused.clone();
        let network = Network::new(plan).map_err(|error| read_error(path, error.into()))?;
        let raised = network.raised_links();
        if raised > 0 && !quiet {
            output::note(&format!(
                "creel-traffic: {}: {raised} roads take one second to drive through, although they are shorter, because too many short roads are connected\n",
                path.display()
            ));
        }
        Ok(Arc::new(network))
    }

    /// Returns the plans of all travellers and their names. Uses the file of prepared plans, if
    /// there is one and the run is not strict.
    pub fn plans(
        &self,
        network: &Arc<Network>,
        pool: &Pool,
        quiet: bool,
    ) -> anyhow::Result<(Arc<Plans>, Names)> {
        // A strict run must read the demand itself, because the file of prepared plans does not say
        // which parts of the demand were not used.
        let Some(path) = self.travellers.prepared.as_ref().filter(|_| !self.strict) else {
            return self.new_plans(network, pool, quiet);
        };
        let key = self.demand_key()?;
        match File::open(path) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            Err(error) => return Err(error).with_context(|| cannot_read(path)),
            Ok(file) => match prepared::read(BufReader::new(file), network, key) {
                Ok((plans, names)) => return Ok((Arc::new(plans), names)),
                Err(PreparedError::Other) => {}
                Err(PreparedError::Io(error)) => {
                    return Err(error).with_context(|| cannot_read(path));
                }
                Err(error) => return Err(bad_data(format!("{}: {error}", cannot_read(path)))),
            },
        }
        let (plans, names) = self.new_plans(network, pool, quiet)?;
        output_file::write(path, false, |to| {
            prepared::write(to, network, key, &plans, &names)
        })?;
        Ok((plans, names))
    }

    /// Returns a hash of everything that the demand depends on, except the network.
    fn demand_key(&self) -> anyhow::Result<u64> {
        let Travellers {
            cars,
            demand,
            within,
            again,
            places,
            ..
        } = &self.travellers;
        let flags = format!(
            "{cars:?} {demand:?} {within} {again} {places} {}",
            self.seed()
        );
        let mut key = Stream::of(0, &flags, 0);
        for file in self.demand_files() {
            let bytes = std::fs::read(file).with_context(|| cannot_read(file))?;
            key.mix(u64::from(crc32fast::hash(&bytes)));
            key.mix(bytes.len() as u64);
        }
        Ok(key.value())
    }

    /// Generates or reads the plans of all travellers. Also returns their names.
    fn new_plans(
        &self,
        network: &Arc<Network>,
        pool: &Pool,
        quiet: bool,
    ) -> anyhow::Result<(Arc<Plans>, Names)> {
        let cars = self.travellers.cars;
        let mut names = Names::default();
        let demand: Vec<&str> = self.travellers.demand.iter().map(String::as_str).collect();
        let plans = match demand[..] {
            [] | ["laps"] => {
                let plans = laps::plans(pool, network, cars.unwrap_or(1000), self.seed());
                if plans.is_err() && demand.is_empty() {
                    note(
                        quiet,
                        "using --demand gravity, because the network has one-way roads",
                    );
                    self.gravity(network, pool, quiet)?
                } else {
                    plans.map_err(bad_data)?
                }
            }
            ["gravity"] => self.gravity(network, pool, quiet)?,
            _ if demand.iter().copied().any(is_generated) => {
                return Err(usage(
                    "--demand laps and --demand gravity cannot be combined with other demand",
                ));
            }
            [..] => {
                let most = cars.map_or(usize::MAX, |cars| cars as usize);
                let progress = Progress::new(0, "cars", quiet);
                progress.set_message("reading the demand");
                let done = |cars| progress.advance(cars);
                let mut reader = demand::read::Reader::new(network, self.seed());
                let mut unused = Vec::new();
                for path in self.demand_files() {
                    let read = reader.read(path);
                    unused.push((path, read.map_err(|error| read_error(path, error))?));
                }
                let read = reader.finish(pool, most, &done);
                progress.finish();
                let files = demand.join(", ");
                let demand = read.map_err(|error| read_error(Path::new(&files), error))?;
                if let (number, Some(reason)) = &demand.left_out {
                    let text = format!(
                        "{files}: left out {number} travellers or trips that cannot drive, for example {reason}"
                    );
                    if self.strict {
                        return Err(bad_data(text));
                    }
                    note(quiet, &text);
                    self.unused_parts().left_out = *number;
                }
                for (path, unused) in unused {
                    self.report_unused(path, &unused, quiet)?;
                }
                self.unused_parts().demand = demand.unused;
                names = demand.names;
                demand.plans
            }
        };
        Ok((Arc::new(plans), names))
    }

    /// Reports the parts of a file that were not used. With `--strict`, they are an error.
    pub fn report_unused(&self, path: &Path, unused: &Unused, quiet: bool) -> anyhow::Result<()> {
        if unused.is_empty() {
            return Ok(());
        }
        let text = format!("{}: not used: {}", path.display(), unused.text());
        if self.strict {
            return Err(bad_data(text));
        }
        note(quiet, &text);
        Ok(())
    }

    /// Returns the parts of the input files that were not used so far.
    pub fn unused_parts(&self) -> MutexGuard<'_, UnusedParts> {
        self.unused.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn gravity(&self, network: &Arc<Network>, pool: &Pool, quiet: bool) -> anyhow::Result<Plans> {
        let cars = self.travellers.cars.unwrap_or(1000);
        // For the progress bar, we count the preparation of the router like the routes of up to
        // 200,000 cars, because it takes about as long.
        let prepare = u64::from(cars / 4).clamp(1, 200_000);
        let progress = Progress::share(u64::from(cars) + prepare, quiet);
        progress.set_message("preparing the router");
        let gravity = Gravity {
            cars,
            within_ms: self.travellers.within * 1000,
            repeats: self.travellers.again,
            places: self.travellers.places,
            seed: self.seed(),
        };
        let router = Router::new(pool, network);
        progress.advance(prepare);
        progress.set_message(format!("routing {} cars", gravity.cars));
        let done = |cars| progress.advance(cars);
        let plans = gravity::plans_with_progress(pool, network, &router, &gravity, &done);
        let (plans, stay) = plans.map_err(bad_data)?;
        progress.finish();
        if stay > 0 {
            let cars = gravity.cars;
            let text = format!(
                "{stay} of {cars} cars stay at home, because they have no route to their destination and back"
            );
            note(quiet, &text);
        }
        Ok(plans)
    }
}

/// Prints a note on stderr, unless the user has set `--quiet`.
pub fn note(quiet: bool, text: &str) {
    if !quiet {
        output::note(&format!("creel-traffic: {text}\n"));
    }
}

/// Returns whether a demand is generated, and not read from a file.
fn is_generated(demand: &str) -> bool {
    matches!(demand, "laps" | "gravity")
}

/// Returns the context of an error that occurs while reading `path`.
fn cannot_read(path: &Path) -> String {
    format!("cannot read {}", path.display())
}

/// Returns an error of an input file, with its exit code.
pub fn read_error(path: &Path, error: ReadError) -> anyhow::Error {
    match error {
        ReadError::Io(error) => anyhow::Error::from(error).context(cannot_read(path)),
        other => bad_data(format!("{}: {other}", cannot_read(path))),
    }
}
