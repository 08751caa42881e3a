//! The model: a token takes 144 products of a matrix and a vector, one after another.
//!
//! There are 24 layers with six products each: four of `size` × `size`, one to twice the size, and
//! one back. A transformer has the same products, and we leave out its cheap parts. All matrices
//! are windows of one block of weights, so a model of any size needs the same memory.

use std::sync::{Arc, OnceLock};

const LAYERS: usize = 24;
/// The number of weights in a block. As bytes they take 8 MB, as floats 32 MB.
const WEIGHTS: usize = 8 << 20;
/// The number of partial sums of a row, which the compiler keeps in vector registers.
const LANES: usize = 16;

/// The format in which the weights of a model are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// A weight is a float of four bytes.
    F32,
    /// A weight is a byte, which is multiplied by a scale.
    Q8,
}

/// The block of weights of a format, which all models of this format share.
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

/// A matrix, which is a window of the block of weights.
#[derive(Clone, Copy, Debug)]
pub struct Matrix {
    begin: usize,
    /// The number of rows, which is the length of a product.
    pub rows: usize,
    columns: usize,
}

/// A model of one size and format. It needs no memory of its own except for its list of matrices.
#[derive(Clone)]
pub struct Model {
    weights: Weights,
    size: usize,
    products: Vec<Matrix>,
}

/// The input vector of a product. It is stored twice, as floats and rounded to bytes.
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

    /// Returns the length of the longest product.
    pub fn rows_max(&self) -> usize {
        2 * self.size
    }

    /// Returns the input of the first token.
    pub fn prompt(&self) -> Input {
        let mut input = Input::default();
        input.take(&(0..self.size).map(|i| (i as f32).sin()).collect::<Vec<_>>());
        input
    }

    /// Computes one token. It calls `multiply(matrix, input, output)` for each product, and uses
    /// the output as the input of the next product.
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

    /// Returns one element of a product: the dot product of a row of `matrix` and `input`.
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
    /// Scales these numbers to a mean square of one, and stores them, also rounded to bytes.
    fn take(&mut self, numbers: &[f32]) {
        let squares: f32 = dot_f32(numbers, numbers) / numbers.len() as f32;
        let scale = squares.sqrt().max(1e-20).recip();
        self.exact.clear();
        self.exact.extend(numbers.iter().map(|x| x * scale));
        // We choose the scale so that a byte can hold numbers up to four times the root mean
        // square. Larger numbers are rare.
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
    fn a_token_takes_144_matrix_products_with_finite_results() {
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
