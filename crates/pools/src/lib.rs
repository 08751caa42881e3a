//! Lets libraries of parallel iterators run on a Creel pool, if they accept a thread pool of the
//! user.
//!
//! Each library has a feature of its name. No feature is on by default. For rayon, use the crate
//! `creel-rayon`. rayon accepts no other pool, so that crate drives rayon's iterators itself.
//!
//! | feature | type | use |
//! |---|---|---|
//! | `orx-parallel` | `Orx` | `.runner(Runner::fixed_with_pool(Orx(&pool)))` |
//! | `paralight` | `Paralight` | `.with_thread_pool(Paralight(&pool))` |

#![cfg_attr(docsrs, feature(doc_cfg))]
#![warn(clippy::missing_errors_doc, clippy::missing_panics_doc)]

#[cfg(feature = "orx-parallel")]
mod orx;
#[cfg(feature = "paralight")]
mod paralight;

#[cfg(feature = "orx-parallel")]
pub use orx::Orx;
#[cfg(feature = "paralight")]
pub use paralight::Paralight;
