//! The gain from a second worker in the city, and in a bare walk over as much memory.
//!
//! The walk accesses memory like a window of the simulation, and does nothing else. It reads each
//! tile in order, and then changes words at random places. Each place depends on the previous one.

use std::sync::Barrier;

use creel::Balance;

use super::{Later, Scene};
use crate::harness::{Case, Metric, Plan, Subject};
use crate::setting::Setting;

/// The size in bytes of a tile with 512 junctions and their cars.
const TILE_BYTES: usize = 200 << 10;
/// The number of words that the walk changes per tile and window. It is six for each of about 2,000
/// crossings, which the simulation has in a window.
const TOUCHES: usize = 12_000;
const WORDS: usize = TILE_BYTES / 8;

/// Returns the case `two workers`. Its result is the speed with all workers divided by the speed
/// with one. Each sample measures both, one after the other.
pub(super) fn two_workers(setting: &Setting, scene: &Later<Scene>) -> Case {
    let (workers, scene) = (setting.workers, scene.clone());
    let walked = scene.clone();
    let creel = Subject::with_metrics("creel [sticky, adaptive]", move |plan| {
        let scene = scene.get()?;
        let one = scene.on_creel(plan, 1, Balance::Sticky)?[0];
        let all = scene.on_creel(plan, workers, Balance::Sticky)?[0];
        Ok(vec![all / one, all, one])
    });
    let walk = Subject::with_metrics("bare walk", move |plan| {
        let tiles = 0..walked.get()?.network.tiles().len();
        let mut tiles: Vec<Vec<u64>> = tiles.map(tile).collect();
        let touches = (tiles.len() * TOUCHES) as f64;
        let one = touches / walk(plan, &mut tiles, 1) * 1e9;
        let all = touches / walk(plan, &mut tiles, workers) * 1e9;
        Ok(vec![all / one, all, one])
    });
    Case {
        name: "two workers".into(),
        metrics: vec![
            Metric {
                name: "gain",
                unit: "times",
            },
            Metric {
                name: "all workers",
                unit: "vehicle-seconds or touches/s",
            },
            Metric {
                name: "one worker",
                unit: "vehicle-seconds or touches/s",
            },
        ],
        compared: true,
        // A sample measures twice, with all workers and with one, so it takes twice as long.
        plan: setting
            .plan(250, 750)
            .with_overhead_ms(if setting.quick { 200 } else { 2_500 }),
        rounds: setting.rounds(4),
        subjects: vec![creel, walk],
    }
}

/// Returns a tile of pseudo-random words.
fn tile(index: usize) -> Vec<u64> {
    let mut state = index as u64;
    let mut next = || {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        state
    };
    (0..WORDS).map(|_| next()).collect()
}

fn visit(tile: &mut [u64]) {
    let mut at = tile
        .iter()
        .step_by(8)
        .fold(0_u64, |sum, word| sum.wrapping_add(*word));
    for _ in 0..TOUCHES {
        let word = &mut tile[(at >> 32) as usize % WORDS];
        *word = word.wrapping_add(at).rotate_left(17);
        at = at.wrapping_mul(0x9E37_79B9_7F4A_7C15).wrapping_add(*word);
    }
    std::hint::black_box(at);
}

/// Returns the time of a walk over all tiles in ns. Each thread has a part of the tiles, and all
/// threads meet at a barrier after each walk.
fn walk(plan: &Plan, tiles: &mut [Vec<u64>], threads: usize) -> f64 {
    let (mine, others) = tiles.split_at_mut(tiles.len().div_ceil(threads));
    let size = others.len().div_ceil(threads.max(2) - 1).max(1);
    let others: Vec<&mut [Vec<u64>]> = others.chunks_mut(size).collect();
    let barrier = Barrier::new(others.len() + 1);
    let ended = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        for part in others {
            scope.spawn(|| {
                loop {
                    barrier.wait();
                    // Relaxed is enough, because the barrier orders the accesses.
                    if ended.load(std::sync::atomic::Ordering::Relaxed) {
                        return;
                    }
                    part.iter_mut().for_each(|tile| visit(tile));
                    barrier.wait();
                }
            });
        }
        let ns = plan.time(|| {
            barrier.wait();
            mine.iter_mut().for_each(|tile| visit(tile));
            barrier.wait();
        });
        ended.store(true, std::sync::atomic::Ordering::Relaxed);
        barrier.wait();
        ns
    })
}
