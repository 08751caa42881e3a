//! Who multiplies: Creel, rayon, threads that spin, one thread.

use std::hint::black_box;
use std::sync::{Mutex, MutexGuard, PoisonError};

use creel::Pool;
use creel_rayon::On;
use rayon::prelude::*;
use rayon::{ThreadPool, ThreadPoolBuilder};

use super::model::{Input, Matrix, Model};
use crate::harness::{ONE_THREAD, Plan, Subject};
use crate::workloads::loops::{floor::in_lockstep, work::burnt_after};

/// What is measured.
#[derive(Clone, Copy)]
pub enum Rhythm {
    /// Tokens a second.
    Steady,
    /// The cores burnt from 100 ms after the last token on.
    Idle,
}

/// A model in memory, with what a token needs.
pub struct Decoder {
    pub model: Model,
    input: Input,
    output: Vec<f32>,
    rhythm: Rhythm,
}

impl Decoder {
    fn new(model: Model, rhythm: Rhythm) -> Self {
        let (input, output) = (model.prompt(), vec![0.0; model.rows_max()]);
        Self {
            model,
            input,
            output,
            rhythm,
        }
    }

    /// Tokens, each of whose products is `multiply`'s.
    pub fn measure(
        &mut self,
        plan: &Plan,
        mut multiply: impl FnMut(&Model, Matrix, &Input, &mut [f32]),
    ) -> f64 {
        let (model, input, output) = (&self.model, &mut self.input, &mut self.output);
        let token = || {
            let multiply = |matrix, input: &Input, output: &mut [f32]| {
                multiply(model, matrix, input, output);
            };
            model.token(black_box(input), output, multiply);
        };
        match self.rhythm {
            Rhythm::Steady => 1e9 / plan.time(token),
            Rhythm::Idle => burnt_after(plan, token),
        }
    }
}

/// A subject that makes a decoder for each sample.
pub fn subject(
    name: &str,
    model: impl Fn() -> Model + 'static,
    rhythm: Rhythm,
    sample: impl Fn(&Plan, Decoder) -> anyhow::Result<f64> + 'static,
) -> Subject {
    Subject::new(name, move |plan| {
        sample(plan, Decoder::new(model(), rhythm))
    })
}

/// All of them, with so many workers.
pub fn all(
    model: impl Fn() -> Model + Clone + 'static,
    workers: usize,
    rhythm: Rhythm,
) -> Vec<Subject> {
    let with = |name: &str, sample: fn(&Plan, Decoder, usize) -> anyhow::Result<f64>| {
        let sample = move |plan: &Plan, decoder| sample(plan, decoder, workers);
        subject(name, model.clone(), rhythm, sample)
    };
    let mut subjects = vec![
        with("creel [sticky, adaptive]", creel),
        with("creel [session]", creel_session),
        with("creel-rayon", creel_rayon),
        with("rayon", rayon_outside),
        with("rayon in install", rayon_inside),
        with("spin barrier", spin_barrier),
    ];
    #[cfg(feature = "peers")]
    {
        subjects.push(with("fork_union", super::peers::fork_union));
        subjects.push(with("chili", super::peers::chili));
    }
    subjects.push(with(ONE_THREAD, one_thread));
    subjects
}

fn one_thread(plan: &Plan, mut decoder: Decoder, _: usize) -> anyhow::Result<f64> {
    Ok(decoder.measure(plan, |model, matrix, input, output| {
        for (row, y) in output.iter_mut().enumerate() {
            *y = model.row(matrix, row, input);
        }
    }))
}

fn creel(plan: &Plan, mut decoder: Decoder, workers: usize) -> anyhow::Result<f64> {
    let pool = Pool::builder().workers(workers).build()?;
    Ok(decoder.measure(plan, |model, matrix, input, output| {
        pool.for_each_indexed(output, |row, y| *y = model.row(matrix, row, input));
    }))
}

fn creel_session(plan: &Plan, mut decoder: Decoder, workers: usize) -> anyhow::Result<f64> {
    let pool = Pool::builder().workers(workers).build()?;
    Ok(pool.session(|loops| {
        decoder.measure(plan, |model, matrix, input, output| {
            loops.for_each_indexed(output, |row, y| *y = model.row(matrix, row, input));
        })
    }))
}

/// The chain that rayon's users have, on a pool of Creel's.
fn creel_rayon(plan: &Plan, mut decoder: Decoder, workers: usize) -> anyhow::Result<f64> {
    let pool = Pool::builder().workers(workers).build()?;
    Ok(decoder.measure(plan, |model, matrix, input, output| {
        let rows = output.par_iter_mut().enumerate().on(&pool);
        rows.for_each(|(row, y)| *y = model.row(matrix, row, input));
    }))
}

fn rayon(workers: usize) -> anyhow::Result<ThreadPool> {
    Ok(ThreadPoolBuilder::new().num_threads(workers).build()?)
}

/// A chunk a worker: what rayon does best.
fn rayon_product(model: &Model, matrix: Matrix, input: &Input, output: &mut [f32], workers: usize) {
    let share = output.len().div_ceil(workers);
    let shares = output.par_chunks_mut(share).enumerate();
    shares.for_each(|(index, share_of)| {
        for (row, y) in (index * share..).zip(share_of) {
            *y = model.row(matrix, row, input);
        }
    });
}

/// Each product is called from outside the pool, as from a program's main thread.
fn rayon_outside(plan: &Plan, mut decoder: Decoder, workers: usize) -> anyhow::Result<f64> {
    let pool = rayon(workers)?;
    Ok(decoder.measure(plan, |model, matrix, input, output| {
        pool.install(|| rayon_product(model, matrix, input, output, workers));
    }))
}

/// All tokens are made by one of the pool's threads.
fn rayon_inside(plan: &Plan, mut decoder: Decoder, workers: usize) -> anyhow::Result<f64> {
    let pool = rayon(workers)?;
    Ok(pool.install(|| {
        decoder.measure(plan, |model, matrix, input, output| {
            rayon_product(model, matrix, input, output, workers);
        })
    }))
}

/// A share of a product, which one thread has.
#[derive(Default)]
struct Share {
    matrix: Option<Matrix>,
    input: Input,
    rows: Vec<f32>,
}

/// Nobody panics in here.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A barrier pool as inference engines write them: unpinned threads that spin without bound before
/// a product and after it. Each has its input and output for itself, in a lock that nobody else
/// wants then.
fn spin_barrier(plan: &Plan, mut decoder: Decoder, workers: usize) -> anyhow::Result<f64> {
    let model = decoder.model.clone();
    let shares: Vec<Mutex<Share>> = (0..workers).map(|_| Mutex::default()).collect();
    let multiply_share = |index: &mut usize| {
        let share = &mut *lock(&shares[*index]);
        let Some(matrix) = share.matrix else { return };
        let first = *index * matrix.rows.div_ceil(workers);
        for (row, y) in (first..).zip(&mut share.rows) {
            *y = model.row(matrix, row, &share.input);
        }
    };
    let measure = |in_step: &mut dyn FnMut()| {
        decoder.measure(plan, |_, matrix, input, output| {
            let len = matrix.rows.div_ceil(workers);
            for (share, part) in shares.iter().zip(output.chunks(len)) {
                let mut share = lock(share);
                share.matrix = Some(matrix);
                share.input.clone_from(input);
                share.rows.resize(part.len(), 0.0);
            }
            in_step();
            for (share, part) in shares.iter().zip(output.chunks_mut(len)) {
                part.copy_from_slice(&lock(share).rows);
            }
        })
    };
    Ok(in_lockstep(0..workers, multiply_share, measure))
}
