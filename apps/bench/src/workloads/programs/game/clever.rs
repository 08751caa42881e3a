//! Computes a frame of the game on rayon, as someone writes it who knows where the time goes. It
//! uses one chunk per worker, needs one pass over the bodies, and uses the buffers for the hits
//! again in the next frame.

use super::{CELLS, World};
use rayon::prelude::*;

pub fn frame(world: &mut World, shares: &mut [Vec<(usize, f32)>], dt: f32) -> f32 {
    let World { x, v, push, cells } = world;
    let len = x.len().div_ceil(shares.len());
    let bodies = x.par_chunks_mut(len).zip(v.par_chunks_mut(len));
    let fastest = bodies
        .zip(push.par_chunks(len))
        .zip(shares.par_iter_mut())
        .map(|(((x, v), push), hits)| {
            hits.clear();
            let mut fastest = 0.0_f32;
            for ((x, v), push) in x.iter_mut().zip(v).zip(push) {
                *v += push * dt;
                *x = (*x + *v * dt).rem_euclid(CELLS as f32);
                fastest = fastest.max(v.abs());
                if v.abs() > 0.9 {
                    hits.push(((*x as usize).min(CELLS - 1), *v));
                }
            }
            fastest
        })
        .reduce(|| 0.0, f32::max);
    for (cell, hit) in shares.iter().flatten() {
        cells[*cell] += hit;
    }
    fastest
}
