//! Behaviour from outside, in one program so that it links once.

mod captured;
mod confines;
mod mutation;
mod real_cgroups;
mod seating;
mod support;
mod trees;
