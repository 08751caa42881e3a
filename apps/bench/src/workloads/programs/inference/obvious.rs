//! Computes the next token on rayon, in the way that comes to mind first.

use super::{Layer, State};
use rayon::prelude::*;

pub fn token(layers: &[Layer], state: &mut State) {
    for layer in layers {
        let [from, out] = state;
        let rows = out.par_iter_mut().enumerate();
        rows.for_each(|(row, out)| *out = layer.row(row, from));
        state.swap(0, 1);
    }
}
