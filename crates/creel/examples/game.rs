//! Computes the frames of a game on all workers. A frame has three loops:
//!
//! 1. It moves all bodies and finds the fastest one. The bodies are a structure of arrays.
//! 2. Each fast body sends a hit to the cell that it is in. An [`Outbox`] collects the hits.
//! 3. The outbox delivers the hits to the cells.
//!
//! ```text
//! cargo run --release -p creel --example game
//! ```
//!
//! `creel-bench programs` compares this frame with one on rayon, which has about as many lines.
//! There, one thread applies the hits, because rayon has nothing like the outbox.

use creel::{Outbox, Pool};

const BODIES: usize = 100_000;
const CELLS: usize = 4_096;

struct World {
    x: Vec<f32>,
    v: Vec<f32>,
    push: Vec<f32>,
    cells: Vec<f32>,
}

fn frame(pool: &Pool, world: &mut World, hits: &mut Outbox<f32>, dt: f32) -> f32 {
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

fn main() -> Result<(), creel::BuildError> {
    let pool = Pool::builder().build()?;
    let each = |step: f32| {
        (0..BODIES)
            .map(|i| (i as f32 * step).sin())
            .collect::<Vec<f32>>()
    };
    let mut world = World {
        x: each(0.7).iter().map(|x| (x + 1.0) * 2000.0).collect(),
        v: each(0.3),
        push: each(0.1),
        cells: vec![0.0; CELLS],
    };
    let mut hits = Outbox::new();
    let begin = std::time::Instant::now();
    let fastest = (0..100)
        .map(|_| frame(&pool, &mut world, &mut hits, 0.01))
        .fold(0.0, f32::max);
    println!(
        "fastest {fastest:.3}, {:.0} µs per frame",
        begin.elapsed().as_micros() as f32 / 100.0
    );
    Ok(())
}
