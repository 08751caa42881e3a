//! Behaviour from outside, in one program so that it links once.

mod caches;
mod captured;
mod confines;
mod layers;
mod mutation;
mod nodes;
mod placement;
mod real_cgroups;
mod support;
mod synthetic;
mod trees;
