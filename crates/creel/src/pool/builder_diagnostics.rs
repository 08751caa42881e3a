//! Compiler errors for a forgotten `.build()?`.
//!
//! The builder has hidden methods with the same names as the methods of a pool. They cannot be
//! called, because their bound [`Built`] is not implemented by any type. If you call one of them,
//! the compiler therefore prints the message below and not just that the method does not exist.

use super::PoolBuilder;

/// A trait that no type implements.
#[diagnostic::on_unimplemented(
    message = "a `PoolBuilder` is not a pool yet: call `.build()?` first",
    label = "the pool is not built",
    note = "`let pool = creel::Pool::builder().workers(2).build()?;`"
)]
pub trait Built {}

macro_rules! methods_of_a_pool {
    ($($method:ident($($arg:ident: $kind:ident),*);)*) => {
        #[allow(missing_docs, clippy::missing_panics_doc)]
        impl PoolBuilder {
            $(
                #[doc(hidden)]
                pub fn $method<$($kind),*>(&self, $($arg: $kind),*)
                where
                    (Self, $($kind),*): Built,
                {
                    $(drop($arg);)*
                }
            )*
        }
    };
}

methods_of_a_pool! {
    for_each(items: I, f: F);
    for_each_indexed(items: I, f: F);
    for_each_chunk(items: I, len: L, f: F);
    for_each_longest_first(items: I, length: L, f: F);
    map(items: I, f: F);
    map_indexed(items: I, f: F);
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
