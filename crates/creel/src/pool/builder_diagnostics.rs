//! What the compiler says where `.build()?` was forgotten: a builder has a pool's verbs, hidden, by
//! name only. Nothing can call them; who tries is told why.

use super::PoolBuilder;

/// Implemented by nothing.
#[diagnostic::on_unimplemented(
    message = "a `PoolBuilder` is no pool yet: finish it by `.build()?`",
    label = "the pool is not built",
    note = "`let pool = creel::Pool::builder().workers(2).build()?;`"
)]
pub trait Built {}

macro_rules! verbs_of_a_pool {
    ($($verb:ident($($arg:ident: $kind:ident),*);)*) => {
        #[allow(missing_docs, clippy::missing_panics_doc)]
        impl PoolBuilder {
            $(
                #[doc(hidden)]
                pub fn $verb<$($kind),*>(&self, $($arg: $kind),*)
                where
                    (Self, $($kind),*): Built,
                {
                    $(drop($arg);)*
                }
            )*
        }
    };
}

verbs_of_a_pool! {
    each(items: I, f: F);
    chunks(items: I, len: L, f: F);
    each_longest_first(items: I, length: L, f: F);
    map(items: I, f: F);
    map_chunks(items: I, len: L, f: F);
    fold(items: I, init: A, f: F, combine: C);
    map_reduce(items: I, f: F, combine: C);
    sum(items: I, f: F);
    find_map(items: I, f: F);
    sort(items: I);
    sort_unstable(items: I);
    join(a: A, b: B);
    scope(f: F);
    session(f: F);
    scratch(make: F);
    spawn(future: F);
    spawn_on(worker: W, future: F);
    block_on(future: F);
    run_on(worker: W, f: F);
    broadcast(f: F);
}
