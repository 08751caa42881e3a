//! Tests of the public API. They are one program, because it then links only once.

mod caches;
mod captured;
mod confines;
#[cfg(unix)]
mod hostile;
mod kinds;
mod layers;
mod mutation;
mod nodes;
mod placement;
#[cfg(target_os = "linux")]
mod real_cgroups;
mod support;
mod synthetic;
mod trees;
