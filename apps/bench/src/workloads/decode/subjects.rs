//! The programs that the workload `decode` compares: Creel, rayon, threads that spin, and one
//! thread.

use std::hint::black_box;
use std::sync::{Mutex, MutexGuard, PoisonError};

use creel::Pool;
use creel_rayon::On;
use rayon::prelude::*;
use rayon::{ThreadPool, ThreadPoolBuilder};

use super::model::{Input, Matrix, Model};
use crate::harness::{ONE_THREAD, Plan, Subject};
use crate::workloads::loops::{floor::in_lockstep, work::burnt_after};

/// The rhythm in which tokens are computed. It also determines which result we measure.
#[derive(Clone, Copy)]
pub enum Rhythm {
    /// Tokens without a pause. The result is the number of tokens per second.
    Steady,
    /// Tokens during the warm-up, and then none. The result is the number of cores that are busy
    /// from 100 ms after the last token on.
    Idle,
}

/// A model with the buffers that are needed to compute a token.
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

    /// Computes tokens in the rhythm of this decoder, and measures them. `multiply` computes one
    /// product.
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

/// Returns a subject that creates a decoder for each sample.
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

/// Returns all subjects with `workers` workers.
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

/// Measures a chain of iterators, as users of rayon write it, on one of Creel's pools.
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

/// Computes a product on rayon with one chunk per worker, which is the fastest way.
fn rayon_product(model: &Model, matrix: Matrix, input: &Input, output: &mut [f32], workers: usize) {
    let share = output.len().div_ceil(workers);
    let shares = output.par_chunks_mut(share).enumerate();
    shares.for_each(|(index, share_of)| {
        for (row, y) in (index * share..).zip(share_of) {
            *y = model.row(matrix, row, input);
        }
    });
}

/// Measures rayon, called from outside of the pool like from the main thread of a program.
fn rayon_outside(plan: &Plan, mut decoder: Decoder, workers: usize) -> anyhow::Result<f64> {
    let pool = rayon(workers)?;
    Ok(decoder.measure(plan, |model, matrix, input, output| {
        pool.install(|| rayon_product(model, matrix, input, output, workers));
    }))
}

/// Measures rayon with all tokens inside of one `install`, so that one of its threads is the
/// caller.
fn rayon_inside(plan: &Plan, mut decoder: Decoder, workers: usize) -> anyhow::Result<f64> {
    let pool = rayon(workers)?;
    Ok(pool.install(|| {
        decoder.measure(plan, |model, matrix, input, output| {
            rayon_product(model, matrix, input, output, workers);
        })
    }))
}

/// A thread's share of a product, with an input and an output of its own.
#[derive(Default)]
struct Share {
    matrix: Option<Matrix>,
    input: Input,
    rows: Vec<f32>,
}

/// Locks a mutex. We ignore poisoning, because no thread panics while it holds a lock here.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Measures a pool with a barrier, as inference engines write them. Its threads are not pinned, and
/// they spin without limit before and after each product. Each thread has its own input and output,
/// in a lock without contention.
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
