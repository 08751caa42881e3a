//! A signing service that holds its ground under load, and the load that shows it.
//!
//! A request passes hyper on one pool, the [`admission`] control that says whether there is time
//! for it, the cryptography on a pool of its own, and the [`store`]; `docs/design/service.md` has
//! the costs. What is not answered in time is answered 503, and before the cryptography where that
//! can be told.
#![deny(unsafe_code)]

pub mod admission;
pub mod app;
pub mod crypto;
mod crypto_pool;
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
