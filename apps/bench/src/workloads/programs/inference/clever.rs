//! Computes tokens on rayon, as someone writes it who knows where the time goes. It uses one chunk
//! per worker, and computes all tokens inside of one `install`.

use super::{Layer, State};
use rayon::prelude::*;

pub fn token(layers: &[Layer], state: &mut State) {
    let workers = rayon::current_num_threads();
    for layer in layers {
        let [from, out] = state;
        let share = out.len().div_ceil(workers);
        let shares = out.par_chunks_mut(share).enumerate();
        shares.for_each(|(index, out)| {
            for (row, out) in (index * share..).zip(out) {
                *out = layer.row(row, from);
            }
        });
        state.swap(0, 1);
    }
}
