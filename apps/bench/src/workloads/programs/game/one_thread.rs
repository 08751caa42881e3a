//! Computes a frame of the game on one thread, without any library.

use super::{CELLS, World};

pub fn frame(world: &mut World, dt: f32) -> f32 {
    let World { x, v, push, cells } = world;
    let mut fastest = 0.0_f32;
    for ((x, v), push) in x.iter_mut().zip(v).zip(push) {
        *v += *push * dt;
        *x = (*x + *v * dt).rem_euclid(CELLS as f32);
        fastest = fastest.max(v.abs());
        if v.abs() > 0.9 {
            cells[(*x as usize).min(CELLS - 1)] += *v;
        }
    }
    fastest
}
