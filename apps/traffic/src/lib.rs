//! Road traffic: a million cars on hundreds of thousands of junctions, the same bits on any number
//! of cores.
//!
//! ```
//! use creel_traffic::{city, demand::laps, sim::Simulation};
//! use std::sync::Arc;
//!
//! let pool = creel::Pool::builder().workers(2).build()?;
//! let network = Arc::new(city::City::grid(8, 8).network()?);
//! let plans = laps::plans(&pool, &network, 100, 1)?;
//! let mut simulation = Simulation::new(&pool, network, Arc::new(plans), Default::default())?;
//! simulation.run(&pool, 600);
//! assert_eq!(simulation.tally().moving + simulation.tally().waiting_to_enter, 100);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! docs/design/traffic.md is the design.
#![forbid(unsafe_code)]

pub mod assign;
pub mod demand;
pub mod network;
pub mod output;
pub mod random;
pub mod route;
pub mod sim;

pub use network::city;
