//! Reads or generates the network and the demand.

use creel::Pool;
use creel_traffic::city::City;
use creel_traffic::demand::gravity::{self, Gravity};
use creel_traffic::demand::{self, Plans, laps};
use creel_traffic::network::read::{self, Assumed, Unused};
use creel_traffic::network::{Names, Network};
use creel_traffic::route::Router;
use std::error::Error;
use std::path::PathBuf;
use std::sync::Arc;

/// The network and the demand that the caller has asked for.
pub struct Wanted {
    pub network: Option<PathBuf>,
    pub demand: Vec<PathBuf>,
    pub city: Option<(u32, u32)>,
    pub cars: Option<u32>,
    pub seed: u64,
    pub block: u32,
}

type Loaded = (Arc<Network>, Plans, Names, Vec<String>);

impl Wanted {
    /// Loads the network and the demand. Also returns the parts of the files that were not used.
    pub fn load(&self, pool: &Pool) -> Result<Loaded, Box<dyn Error + Send + Sync>> {
        let mut all_unused = Vec::new();
        let mut note = |unused: &Unused| {
            all_unused.extend(
                unused
                    .iter()
                    .map(|(part, count)| format!("{part} ({count})")),
            );
        };
        let raw = match (&self.network, self.city) {
            (Some(_), Some(_)) => return Err("pass either a network or a city".into()),
            (Some(path), None) => {
                let assumed = Assumed {
                    length_mm: self.block * 1000,
                    ..Assumed::default()
                };
                let raw = read::network(path, &assumed, pool);
                raw.map_err(|error| format!("cannot read {}: {error}", path.display()))?
            }
            (None, city) => {
                let (width, height) = city.unwrap_or((30, 30));
                let city = City {
                    block_mm: self.block * 1000,
                    seed: self.seed,
                    ..City::grid(width, height)
                };
                city.raw_network()?
            }
        };
        note(&raw.unused);
        let network = Arc::new(Network::new(raw)?);
        let gravity = |cars: u32| {
            let gravity = Gravity {
                cars,
                within_ms: 3_600_000,
                repeats: false,
                places: 8,
                seed: self.seed,
            };
            let router = Router::new(pool, &network);
            gravity::plans(pool, &network, &router, &gravity).map(|made| made.0)
        };
        let demand: Vec<&str> = self
            .demand
            .iter()
            .filter_map(|path| path.to_str())
            .collect();
        let (plans, names) = match demand[..] {
            // Without a demand, the caller adds the cars.
            [] if self.cars.is_none() && self.demand.is_empty() => {
                (Plans::new([])?, Names::default())
            }
            [] if self.demand.is_empty() => (gravity(self.cars.unwrap_or(1000))?, Names::default()),
            ["gravity"] => (gravity(self.cars.unwrap_or(1000))?, Names::default()),
            ["laps"] => {
                let plans = laps::plans(pool, &network, self.cars.unwrap_or(1000), self.seed)?;
                (plans, Names::default())
            }
            _ => {
                let most = self.cars.map_or(usize::MAX, |cars| cars as usize);
                let mut reader = demand::read::Reader::new(&network, self.seed);
                for path in &self.demand {
                    let read = reader.read(path);
                    read.map_err(|error| format!("cannot read {}: {error}", path.display()))?;
                }
                let read = reader.finish(pool, most, &|_| {});
                let read = read.map_err(|error| format!("cannot read the demand: {error}"))?;
                note(&read.unused);
                if let (number, Some(reason)) = &read.left_out {
                    all_unused.push(format!("{number} travellers or trips, because {reason}"));
                }
                (read.plans, read.names)
            }
        };
        Ok((network, plans, names, all_unused))
    }
}
