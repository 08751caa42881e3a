//! Computes a frame of the game on rayon, in the way that comes to mind first. A parallel loop
//! collects the hits, and then one thread applies them.

use super::{CELLS, World};
use rayon::prelude::*;

pub fn frame(world: &mut World, dt: f32) -> f32 {
    let World { x, v, push, cells } = world;
    let bodies = x.par_iter_mut().zip(v.par_iter_mut()).zip(&*push);
    let fastest = bodies
        .map(|((x, v), push)| {
            *v += push * dt;
            *x = (*x + *v * dt).rem_euclid(CELLS as f32);
            v.abs()
        })
        .reduce(|| 0.0, f32::max);
    let hits: Vec<(usize, f32)> = x
        .par_iter()
        .zip(&*v)
        .filter(|(_, v)| v.abs() > 0.9)
        .map(|(x, v)| ((*x as usize).min(CELLS - 1), *v))
        .collect();
    for (cell, hit) in hits {
        cells[cell] += hit;
    }
    fastest
}
