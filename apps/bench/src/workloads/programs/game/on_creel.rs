//! Computes a frame of the game with loops and an outbox of Creel.

use super::{CELLS, World};
use creel::{Outbox, Pool};

pub fn frame(pool: &Pool, world: &mut World, hits: &mut Outbox<f32>, dt: f32) -> f32 {
    let World { x, v, push, cells } = world;
    let fastest = pool.map_reduce(
        (&mut *x, &mut *v, &*push),
        |(x, v, push)| {
            *v += push * dt;
            *x = (*x + *v * dt).rem_euclid(CELLS as f32);
            v.abs()
        },
        f32::max,
    );
    pool.for_each((&*x, &*v, hits.for_receivers(CELLS)), |(x, v, hits)| {
        if v.abs() > 0.9 {
            hits.send((*x as usize).min(CELLS - 1), *v);
        }
    });
    pool.deliver(hits, cells, |cell, hit| *cell += hit);
    fastest.unwrap_or(0.0)
}
