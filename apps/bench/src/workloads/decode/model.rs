//! What a token is: 144 products of a matrix and a vector, each of which needs the one before it.
//!
//! 24 layers of six: four of `size` × `size`, one up to twice the size, one back down, as in a
//! transformer without what is cheap in it. All matrices are windows of one block of weights, which
//! is as large as a cache that is not there.

use std::sync::{Arc, OnceLock};

const LAYERS: usize = 24;
/// The weights that there are, of either kind: 8 or 32 MB.
const WEIGHTS: usize = 8 << 20;
/// Sums in a row's product, for the compiler to keep in vectors.
const LANES: usize = 16;

/// How a weight is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// Four bytes.
    F32,
    /// One byte, times a scale.
    Q8,
}

/// All weights of a format.
#[derive(Clone)]
enum Weights {
    F32(Arc<[f32]>),
    Q8(Arc<[i8]>),
}

impl Weights {
    fn of(format: Format) -> Self {
        static F32: OnceLock<Arc<[f32]>> = OnceLock::new();
        static Q8: OnceLock<Arc<[i8]>> = OnceLock::new();
        let noise = |index: usize| (index.wrapping_mul(0x9E37_79B9) >> 13) as i8;
        match format {
            Format::F32 => {
                let weight = |index| f32::from(noise(index)) / 128.0;
                let weights = F32.get_or_init(|| (0..WEIGHTS).map(weight).collect());
                Weights::F32(Arc::clone(weights))
            }
            Format::Q8 => {
                let weights = Q8.get_or_init(|| (0..WEIGHTS).map(noise).collect());
                Weights::Q8(Arc::clone(weights))
            }
        }
    }
}

/// A matrix: so many rows of a format's weights, from one of them on.
#[derive(Clone, Copy, Debug)]
pub struct Matrix {
    begin: usize,
    /// How many numbers come out of a product.
    pub rows: usize,
    columns: usize,
}

/// A model of one size and format.
#[derive(Clone)]
pub struct Model {
    weights: Weights,
    size: usize,
    products: Vec<Matrix>,
}

/// What goes into a product.
#[derive(Clone, Default)]
pub struct Input {
    exact: Vec<f32>,
    rounded: Vec<i8>,
    scale: f32,
}

impl Model {
    pub fn new(format: Format, size: usize) -> Self {
        let (square, up, down) = ((size, size), (2 * size, size), (size, 2 * size));
        let layer = [square, square, square, square, up, down];
        let mut begin = 0;
        let products = (0..LAYERS).flat_map(|_| layer).map(|(rows, columns)| {
            if begin + rows * columns > WEIGHTS {
                begin = 0;
            }
            let matrix = Matrix {
                begin,
                rows,
                columns,
            };
            begin += rows * columns;
            matrix
        });
        Self {
            weights: Weights::of(format),
            size,
            products: products.collect(),
        }
    }

    /// The most numbers that come out of a product.
    pub fn rows_max(&self) -> usize {
        2 * self.size
    }

    /// What a token begins with.
    pub fn prompt(&self) -> Input {
        let mut input = Input::default();
        input.take(&(0..self.size).map(|i| (i as f32).sin()).collect::<Vec<_>>());
        input
    }

    /// One token: each product by `multiply(matrix, input, output)`, and what it gives into the
    /// next.
    pub fn token(
        &self,
        input: &mut Input,
        output: &mut [f32],
        mut multiply: impl FnMut(Matrix, &Input, &mut [f32]),
    ) {
        for matrix in &self.products {
            let output = &mut output[..matrix.rows];
            multiply(*matrix, input, output);
            input.take(output);
        }
    }

    /// One number of a product.
    pub fn row(&self, matrix: Matrix, row: usize, input: &Input) -> f32 {
        let begin = matrix.begin + row * matrix.columns;
        let row = begin..begin + matrix.columns;
        match &self.weights {
            Weights::F32(weights) => dot_f32(&weights[row], &input.exact),
            Weights::Q8(weights) => dot_q8(&weights[row], &input.rounded) as f32 * input.scale,
        }
    }
}

impl Input {
    /// Takes these numbers, scaled to a mean square of one, and rounded.
    fn take(&mut self, numbers: &[f32]) {
        let squares: f32 = dot_f32(numbers, numbers) / numbers.len() as f32;
        let scale = squares.sqrt().max(1e-20).recip();
        self.exact.clear();
        self.exact.extend(numbers.iter().map(|x| x * scale));
        // Four times the mean is as much as a byte is to hold.
        self.scale = 4.0 / 127.0;
        let rounded = self.exact.iter().map(|x| (x / self.scale) as i8);
        self.rounded.clear();
        self.rounded.extend(rounded);
    }
}

fn dot_f32(a: &[f32], b: &[f32]) -> f32 {
    let mut sums = [0.0; LANES];
    for (a, b) in a.chunks_exact(LANES).zip(b.chunks_exact(LANES)) {
        for lane in 0..LANES {
            sums[lane] += a[lane] * b[lane];
        }
    }
    sums.iter().sum()
}

fn dot_q8(a: &[i8], b: &[i8]) -> i32 {
    let mut sums = [0; LANES];
    for (a, b) in a.chunks_exact(LANES).zip(b.chunks_exact(LANES)) {
        for lane in 0..LANES {
            sums[lane] += i32::from(i16::from(a[lane]) * i16::from(b[lane]));
        }
    }
    sums.iter().sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_takes_144_products_within_bounds() {
        for format in [Format::F32, Format::Q8] {
            for size in [256, 1024] {
                let model = Model::new(format, size);
                let (mut input, mut output) = (model.prompt(), vec![0.0; model.rows_max()]);
                let mut products = 0;
                model.token(&mut input, &mut output, |matrix, input, output| {
                    products += 1;
                    output[0] = model.row(matrix, 0, input);
                    let last = matrix.rows - 1;
                    output[last] = model.row(matrix, last, input);
                });
                assert_eq!(products, 144);
                assert!(input.exact.iter().all(|x| x.is_finite()));
            }
        }
    }
}
