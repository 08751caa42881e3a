//! Computes tokens as a language model does. A token takes many small products of a matrix and a
//! vector, and each product needs the result of the previous one.
//!
//! ```text
//! cargo run --release -p creel --example inference
//! ```
//!
//! A product is one call of a loop. With the default setting of `Wait`, the workers spin for a
//! short time after each product, so they are awake for the next one. They sleep when no more
//! products come.

use creel::Pool;

const WIDTH: usize = 1024;
const LAYERS: usize = 24;

struct Layer {
    weights: Vec<f32>,
}

/// Computes `out = tanh(weights × from)`. Each item of the loop is one row of the matrix, which
/// gives one output.
fn product(pool: &Pool, layer: &Layer, from: &[f32], out: &mut [f32]) {
    pool.for_each_indexed(out, |row, out| {
        let weights = &layer.weights[row * WIDTH..(row + 1) * WIDTH];
        // Eight independent sums let the compiler use vector instructions.
        let mut sums = [0.0; 8];
        for (w, x) in weights.chunks_exact(8).zip(from.chunks_exact(8)) {
            (0..8).for_each(|lane| sums[lane] += w[lane] * x[lane]);
        }
        *out = sums.iter().sum::<f32>().tanh();
    });
}

fn token(pool: &Pool, layers: &[Layer], state: &mut [Vec<f32>; 2]) {
    for layer in layers {
        let [from, out] = state;
        product(pool, layer, from, out);
        state.swap(0, 1);
    }
}

fn main() -> Result<(), creel::BuildError> {
    let pool = Pool::builder().build()?;
    let weight = |n: usize| ((n * 2_654_435_761) % 1000) as f32 / 5000.0 - 0.1;
    let layer = |n| Layer {
        weights: (0..WIDTH * WIDTH).map(|at| weight(at + n)).collect(),
    };
    let layers: Vec<Layer> = (0..LAYERS).map(layer).collect();
    let mut state = [vec![0.5; WIDTH], vec![0.0; WIDTH]];
    let begin = std::time::Instant::now();
    (0..20).for_each(|_| token(&pool, &layers, &mut state));
    let took = begin.elapsed().as_secs_f64();
    println!("{:.1} tokens per second, {:.4}", 20.0 / took, state[0][0]);
    Ok(())
}
