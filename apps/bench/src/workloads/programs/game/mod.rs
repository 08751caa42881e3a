//! A game's frame: it pushes 100,000 bodies, lets fast bodies hit the cell that they are in, and
//! returns the largest speed.
//!
//! Each cell takes its hits in the order of the bodies. Therefore, a frame has the same bits with
//! any number of threads.

mod clever;
mod obvious;
mod on_creel;
mod one_thread;

use std::cell::RefCell;
use std::hint::black_box;
use std::thread::sleep;
use std::time::Duration;

use super::{ONE_THREAD, Plan, Subject, creel, program, rayon};

const BODIES: usize = 100_000;
const CELLS: usize = 4_096;
const DT: f32 = 0.01;

/// The state of the game, which each frame changes.
#[derive(Clone, Debug, PartialEq)]
struct World {
    x: Vec<f32>,
    v: Vec<f32>,
    push: Vec<f32>,
    cells: Vec<f32>,
}

impl World {
    fn new() -> Self {
        let wave = |step: f32| (0..BODIES).map(move |i| (i as f32 * step).sin());
        Self {
            x: wave(0.7).map(|x| (x + 1.0) * 2000.0).collect(),
            v: wave(0.3).collect(),
            push: wave(0.1).collect(),
            cells: vec![0.0; CELLS],
        }
    }
}

/// The pause between two frames.
#[derive(Clone, Copy)]
pub enum Pause {
    /// The next frame begins at once.
    None,
    /// A sleep of 2 ms, like the wait for the screen.
    Frame,
}

/// The number of frames after which the world starts again. Otherwise, more and more bodies would
/// become fast, and a frame would have more and more hits.
const FRAMES: usize = 32;

fn measure(plan: &Plan, pause: Pause, mut frame: impl FnMut(&mut World) -> f32) -> f64 {
    let begin = World::new();
    let world = RefCell::new(begin.clone());
    let mut frames = (0..FRAMES).cycle();
    let between = || {
        if frames.next() == Some(0) {
            world.borrow_mut().clone_from(&begin);
        }
        if let Pause::Frame = pause {
            sleep(Duration::from_millis(2));
        }
    };
    plan.time_with_setup(between, || _ = black_box(frame(&mut world.borrow_mut())))
}

/// Returns all subjects with `workers` workers.
pub fn subjects(workers: usize, pause: Pause) -> Vec<Subject> {
    match pause {
        Pause::None => with::<false>(workers),
        Pause::Frame => with::<true>(workers),
    }
}

fn with<const PAUSED: bool>(workers: usize) -> Vec<Subject> {
    const fn pause(paused: bool) -> Pause {
        if paused { Pause::Frame } else { Pause::None }
    }
    program(
        workers,
        [
            ("creel", |plan, workers| {
                let (pool, mut hits) = (creel(workers)?, creel::Outbox::new());
                let frame = |world: &mut World| on_creel::frame(&pool, world, &mut hits, DT);
                Ok(measure(plan, pause(PAUSED), frame))
            }),
            (ONE_THREAD, |plan, _| {
                let frame = |world: &mut World| one_thread::frame(world, DT);
                Ok(measure(plan, pause(PAUSED), frame))
            }),
            ("rayon", |plan, workers| {
                let pool = rayon(workers)?;
                let frame = |world: &mut World| pool.install(|| obvious::frame(world, DT));
                Ok(measure(plan, pause(PAUSED), frame))
            }),
            ("rayon clever", |plan, workers| {
                let pool = rayon(workers)?;
                let mut shares = vec![Vec::new(); workers];
                let mut frame = |world: &mut World| clever::frame(world, &mut shares, DT);
                let frame = |world: &mut World| pool.install(|| frame(world));
                Ok(measure(plan, pause(PAUSED), frame))
            }),
        ],
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_variants_of_the_game_compute_the_same_bits() {
        let frames = |mut frame: Box<dyn FnMut(&mut World) -> f32>| {
            let mut world = World::new();
            let fastest: Vec<f32> = (0..5).map(|_| frame(&mut world)).collect();
            (world, fastest)
        };
        let expected = frames(Box::new(|world| one_thread::frame(world, DT)));
        assert!(
            expected.0.cells.iter().any(|cell| *cell != 0.0),
            "some bodies hit their cell"
        );
        let (pool, mut hits) = (creel(2).unwrap(), creel::Outbox::new());
        let on_creel = move |world: &mut World| on_creel::frame(&pool, world, &mut hits, DT);
        let mut shares = vec![Vec::new(); 3];
        let clever = move |world: &mut World| clever::frame(world, &mut shares, DT);
        assert_eq!(frames(Box::new(on_creel)), expected);
        assert_eq!(
            frames(Box::new(|world| obvious::frame(world, DT))),
            expected
        );
        assert_eq!(frames(Box::new(clever)), expected);
    }
}
