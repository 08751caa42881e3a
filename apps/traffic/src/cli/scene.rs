//! The flags by which every command is told of roads and of those who drive on them.

use std::path::PathBuf;
use std::str::FromStr;
use std::sync::Arc;

use clap::Args;
use creel::Pool;
use creel_traffic::city::City;
use creel_traffic::demand::{Plans, laps};
use creel_traffic::network::{Network, Physics};

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
    /// What all that is random is drawn from
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
}

#[derive(Args, Debug)]
#[command(next_help_heading = "Roads")]
struct Roads {
    /// A generated city of so many junctions by so many
    #[arg(long, value_name = "WxH", conflicts_with = "network")]
    city: Option<Size>,
    /// A file of roads
    #[arg(long, value_name = "FILE")]
    network: Option<PathBuf>,
    /// The city's blocks, in metres; of files that tell no lengths, the roads
    #[arg(long, value_name = "M", default_value_t = 200, value_parser = clap::value_parser!(u32).range(10..=10_000))]
    block: u32,
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
    /// laps (cars that drive round for ever) or a file
    #[arg(long, value_name = "DEMAND", default_value = "laps")]
    demand: String,
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
    /// After how many seconds without room a car steps aside
    #[arg(long, value_name = "S", default_value_t = Physics::default().stuck_ms / 1000, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    stuck: u32,
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
        Physics {
            spacing_mm: self.physics.spacing,
            reaction_ms: self.physics.reaction,
            stuck_ms: self.physics.stuck * 1000,
            ..Physics::default()
        }
    }

    /// The roads.
    pub fn network(&self, _pool: &Pool) -> anyhow::Result<Arc<Network>> {
        let roads = &self.roads;
        if let Some(Size(width, height)) = roads.city {
            let city = City {
                block_mm: roads.block * 1000,
                noise: roads.noise,
                avenue: roads.avenues,
                river: roads.river,
                signals: !roads.no_signals,
                seed: self.seed,
                ..City::grid(width, height)
            };
            return Ok(Arc::new(
                city.network().map_err(|error| usage(error.to_string()))?,
            ));
        }
        Err(usage("roads are wanted: --city WxH or --network FILE"))
    }

    /// Who drives.
    pub fn plans(&self, network: &Arc<Network>, pool: &Pool) -> anyhow::Result<Arc<Plans>> {
        let cars = self.travellers.cars.unwrap_or(1000);
        let plans = laps::plans(pool, network, cars, self.seed).map_err(bad_data)?;
        Ok(Arc::new(plans))
    }
}
