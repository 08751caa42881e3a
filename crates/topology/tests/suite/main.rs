//! Behaviour from outside, in one program so that it links once.

mod caches;
mod captured;
mod confines;
mod layers;
mod mutation;
mod nodes;
mod real_cgroups;
mod seating;
mod support;
mod synthetic;
mod trees;
