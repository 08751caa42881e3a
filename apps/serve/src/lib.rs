//! A signing service that stays responsive under overload, and a load generator that measures it.
//!
//! A request passes four stages: hyper on one pool, [`admission`] control, the cryptography on a
//! pool of its own, and the [`store`]. Admission control rejects a request early if we cannot
//! answer it in time. Requests that are not done in time get status 503. `docs/design/service.md`
//! explains the stages and lists their costs.
#![deny(unsafe_code)]

pub mod admission;
pub mod app;
pub mod crypto;
mod crypto_pool;
pub mod key_file;
pub mod load;
pub mod log;
mod memory;
pub mod metrics;
pub mod routes;
pub mod server;
pub mod settings;
pub mod store;
#[cfg(feature = "tls")]
mod tls;

pub use server::{Server, ServerError};
pub use settings::Settings;
