//! A Creel pool for libraries of parallel iterators that let their users bring a pool.
//!
//! Each is a feature of the library's name; none is on by default. rayon's iterators are in a crate
//! of their own, `creel-rayon`: rayon takes no pool but its own, so that is a driver, not a pool.
//!
//! | feature | gives | for |
//! |---|---|---|
//! | `orx-parallel` | `Orx` | `.runner(Runner::fixed_with_pool(Orx(&pool)))` |
//! | `paralight` | `Paralight` | `.with_thread_pool(Paralight(&pool))` |

#![warn(clippy::missing_errors_doc, clippy::missing_panics_doc)]

#[cfg(feature = "orx-parallel")]
mod orx;
#[cfg(feature = "paralight")]
mod paralight;

#[cfg(feature = "orx-parallel")]
pub use orx::Orx;
#[cfg(feature = "paralight")]
pub use paralight::Paralight;
