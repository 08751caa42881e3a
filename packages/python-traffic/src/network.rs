//! Reads or generates the network and the demand.

use creel::Pool;
use creel_traffic::city::City;
use creel_traffic::demand::gravity::{self, Gravity};
use creel_traffic::demand::{self, Plans, laps};
use creel_traffic::network::read::{self, Assumed, Unused};
use creel_traffic::network::{Names, Network};
use creel_traffic::route::Router;
use std::error::Error;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The network and the demand that the caller has asked for.
pub struct Wanted {
    pub network: Option<PathBuf>,
    pub demand: Option<String>,
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
        let (plans, names) = match self.demand.as_deref() {
            // Without a demand, the caller adds the cars.
            None if self.cars.is_none() => (Plans::new([])?, Names::default()),
            None | Some("gravity") => (gravity(self.cars.unwrap_or(1000))?, Names::default()),
            Some("laps") => {
                let plans = laps::plans(pool, &network, self.cars.unwrap_or(1000), self.seed)?;
                (plans, Names::default())
            }
            Some(file) => {
                let most = self.cars.map_or(usize::MAX, |cars| cars as usize);
                let read = demand::read::demand(pool, &network, Path::new(file), most, self.seed);
                let read = read.map_err(|error| format!("cannot read {file}: {error}"))?;
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
