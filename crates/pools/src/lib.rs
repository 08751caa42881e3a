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
//!
//! # Versions
//!
//! A library's trait is part of our public API, so your program and this crate must use the same
//! version of the library. For orx-parallel, this is 4. For paralight, this is exactly 0.0.12,
//! because each of its releases may break its API. The feature `paralight` is therefore not covered
//! by semantic versioning: a minor release of this crate may require a newer paralight.

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
