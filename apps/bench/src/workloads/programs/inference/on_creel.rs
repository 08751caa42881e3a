//! Computes the next token with a loop of Creel per layer.

use super::{Layer, State};
use creel::Pool;

pub fn token(pool: &Pool, layers: &[Layer], state: &mut State) {
    for layer in layers {
        let [from, out] = state;
        pool.for_each_indexed(out, |row, out| *out = layer.row(row, from));
        state.swap(0, 1);
    }
}
