//! A road traffic simulation: a million cars on hundreds of thousands of junctions, with identical
//! results on any number of cores.
//!
//! The model is a queue per link, as in MATSim's and SUMO's mesoscopic simulations. You give a
//! [`Simulation`](sim::Simulation) a [`Network`](network::Network) and the [`Plans`](demand::Plans)
//! of all travellers, and advance it by whole seconds. For example:
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
//! The features are for programs that need only a part of the library. `cli` (on by default) has
//! the program `creel-traffic` and pictures. `formats`, which is a part of it, reads OpenStreetMap
//! and files compressed with xz.
//!
//! We explain the design and its reasons in docs/design/traffic.md.
#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::disallowed_methods))]

pub mod assign;
pub mod demand;
pub mod network;
pub mod output;
pub mod random;
pub mod route;
pub mod sim;

pub use network::city;
