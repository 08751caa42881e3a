//! Inference: a token takes one product of a matrix and a vector per layer, one after another.
//!
//! The workload `decode` has more sizes and more peers.

mod clever;
mod obvious;
mod on_creel;

use std::hint::black_box;
use std::sync::{Arc, OnceLock};

use super::{ONE_THREAD, Plan, Subject, creel, program, rayon};

const WIDTH: usize = 512;
const LAYERS: usize = 24;

/// A layer of the model, which is a matrix in row order.
struct Layer {
    weights: Vec<f32>,
}

impl Layer {
    /// Returns one number of a product. It adds up eight partial sums, so that the compiler can use
    /// vector instructions.
    fn row(&self, row: usize, from: &[f32]) -> f32 {
        let weights = &self.weights[row * WIDTH..(row + 1) * WIDTH];
        let mut sums = [0.0; 8];
        for (w, x) in weights.chunks_exact(8).zip(from.chunks_exact(8)) {
            (0..8).for_each(|lane| sums[lane] += w[lane] * x[lane]);
        }
        sums.iter().sum::<f32>().tanh()
    }
}

/// The two vectors of a token: the input and the output of the next product. They change places
/// after each product.
type State = [Vec<f32>; 2];

fn layers() -> Arc<Vec<Layer>> {
    static ALL: OnceLock<Arc<Vec<Layer>>> = OnceLock::new();
    let weight = |n: usize| (n.wrapping_mul(2_654_435_761) % 1000) as f32 / 5000.0 - 0.1;
    let layer = |n| Layer {
        weights: (0..WIDTH * WIDTH).map(|at| weight(at + n)).collect(),
    };
    Arc::clone(ALL.get_or_init(|| Arc::new((0..LAYERS).map(layer).collect())))
}

fn measure(plan: &Plan, mut token: impl FnMut(&[Layer], &mut State)) -> f64 {
    let (layers, mut state) = (layers(), [vec![0.5; WIDTH], vec![0.0; WIDTH]]);
    plan.time(|| token(&layers, black_box(&mut state)))
}

fn one_thread(layers: &[Layer], state: &mut State) {
    for layer in layers {
        let [from, out] = state;
        for (row, out) in out.iter_mut().enumerate() {
            *out = layer.row(row, from);
        }
        state.swap(0, 1);
    }
}

/// Returns all subjects with `workers` workers.
pub fn subjects(workers: usize) -> Vec<Subject> {
    program(
        workers,
        [
            ("creel", |plan, workers| {
                let pool = creel(workers)?;
                let token = |layers: &[Layer], state: &mut _| on_creel::token(&pool, layers, state);
                Ok(measure(plan, token))
            }),
            (ONE_THREAD, |plan, _| Ok(measure(plan, one_thread))),
            ("rayon", |plan, workers| {
                let pool = rayon(workers)?;
                Ok(measure(plan, |layers, state| {
                    pool.install(|| obvious::token(layers, state));
                }))
            }),
            ("rayon clever", |plan, workers| {
                let pool = rayon(workers)?;
                Ok(pool.install(|| measure(plan, clever::token)))
            }),
        ],
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_variants_of_inference_compute_the_same_bits() {
        let pool = creel(2).unwrap();
        let tokens = |token: &dyn Fn(&[Layer], &mut State)| {
            let mut state = [vec![0.5; WIDTH], vec![0.0; WIDTH]];
            token(&layers(), &mut state);
            state
        };
        let expected = tokens(&one_thread);
        assert_eq!(tokens(&|a, b| on_creel::token(&pool, a, b)), expected);
        assert_eq!(tokens(&obvious::token), expected);
        assert_eq!(tokens(&clever::token), expected);
    }
}
