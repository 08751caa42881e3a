//! Peers that exist only if `creel-bench` is built with the feature `peers`. They are pools that
//! were designed for loops of a few microseconds.

use std::num::NonZero;

use anyhow::anyhow;
use chili::{Config, Scope, ThreadPool};
use fork_union::{IntoParallelIterator, ParallelIteratorExt};

use super::model::{Input, Matrix, Model};
use super::subjects::Decoder;
use crate::harness::Plan;

/// The share of a thread in a product: the index of its first row, and its results.
type Share = (usize, Vec<f32>);

/// Measures fork_union with one share per thread. Its threads spin between the products.
pub fn fork_union(plan: &Plan, mut decoder: Decoder, workers: usize) -> anyhow::Result<f64> {
    let pool = fork_union::ThreadPool::try_spawn(workers);
    let mut pool =
        pool.map_err(|error| anyhow!("cannot create a pool of fork_union: {error:?}"))?;
    let mut shares: Vec<Share> = vec![Share::default(); workers];
    Ok(decoder.measure(plan, |model, matrix, input, output| {
        let len = matrix.rows.div_ceil(workers);
        for ((index, share), part) in shares.iter_mut().enumerate().zip(output.chunks(len)) {
            share.0 = index * len;
            share.1.resize(part.len(), 0.0);
        }
        let each = |(first, rows): &mut Share| {
            for (row, y) in (*first..).zip(rows) {
                *y = model.row(matrix, row, input);
            }
        };
        let all = (&mut shares[..]).into_par_iter().with_pool(&mut pool);
        all.for_each(each);
        for (share, part) in shares.iter().zip(output.chunks_mut(len)) {
            part.copy_from_slice(&share.1);
        }
    }))
}

/// Measures chili with recursive halves, down to an eighth of a worker's rows.
pub fn chili(plan: &Plan, mut decoder: Decoder, workers: usize) -> anyhow::Result<f64> {
    let pool = ThreadPool::with_config(Config {
        thread_count: NonZero::new(workers),
        ..Config::default()
    });
    let mut scope = pool.scope();
    Ok(decoder.measure(plan, |model, matrix, input, output| {
        let least = output.len().div_ceil(8 * workers);
        halves(&mut scope, model, matrix, input, (0, output), least);
    }))
}

fn halves(
    scope: &mut Scope<'_>,
    model: &Model,
    matrix: Matrix,
    input: &Input,
    (first, rows): (usize, &mut [f32]),
    least: usize,
) {
    if rows.len() <= least {
        for (row, y) in (first..).zip(rows) {
            *y = model.row(matrix, row, input);
        }
        return;
    }
    let middle = rows.len() / 2;
    let (left, right) = rows.split_at_mut(middle);
    scope.join(
        |scope| halves(scope, model, matrix, input, (first, left), least),
        |scope| halves(scope, model, matrix, input, (first + middle, right), least),
    );
}
