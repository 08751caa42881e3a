//! Atomics whose accesses cost virtual time. They have the methods of the atomics of `std`.

use crate::cache::Access;
use crate::engine::access;
pub use std::sync::atomic::Ordering;
use std::sync::atomic::{self, Ordering::Relaxed};

/// Waits until the buffered stores of the calling thread are complete.
pub fn fence(_: Ordering) {
    crate::engine::drain();
}

/// Returns the kind of a store. Only a sequentially consistent store makes the thread wait.
fn store_kind(order: Ordering) -> Access {
    match order {
        Ordering::SeqCst => Access::Exchange,
        _ => Access::Store,
    }
}

macro_rules! atomics {
    ($($name:ident $(<$param:ident>)?: $value:ty),* $(,)?) => {$(
        /// An atomic that behaves like the one of `std`, but costs virtual time.
        #[derive(Debug, Default)]
        pub struct $name $(<$param>)? (atomic::$name $(<$param>)?);

        #[allow(missing_docs, reason = "the methods are those of `std`")]
        impl $(<$param>)? $name $(<$param>)? {
            pub const fn new(value: $value) -> Self {
                Self(atomic::$name::new(value))
            }

            fn at(&self) -> usize {
                std::ptr::from_ref(self).addr()
            }

            /// Reads the value without a cost.
            pub fn peek(&self) -> $value {
                self.0.load(Relaxed)
            }

            #[track_caller]
            pub fn load(&self, _: Ordering) -> $value {
                access(self.at(), Access::Load, || self.0.load(Relaxed))
            }

            #[track_caller]
            pub fn store(&self, value: $value, order: Ordering) {
                access(self.at(), store_kind(order), || self.0.store(value, Relaxed));
            }

            #[track_caller]
            pub fn swap(&self, value: $value, _: Ordering) -> $value {
                access(self.at(), Access::Exchange, || self.0.swap(value, Relaxed))
            }

            #[track_caller]
            pub fn compare_exchange(
                &self,
                old: $value,
                new: $value,
                _: Ordering,
                _: Ordering,
            ) -> Result<$value, $value> {
                let step = || self.0.compare_exchange(old, new, Relaxed, Relaxed);
                access(self.at(), Access::Exchange, step)
            }

            #[track_caller]
            pub fn compare_exchange_weak(
                &self,
                old: $value,
                new: $value,
                set: Ordering,
                fetch: Ordering,
            ) -> Result<$value, $value> {
                self.compare_exchange(old, new, set, fetch)
            }

            #[track_caller]
            pub fn fetch_update(
                &self,
                set: Ordering,
                fetch: Ordering,
                mut f: impl FnMut($value) -> Option<$value>,
            ) -> Result<$value, $value> {
                let mut old = self.load(fetch);
                while let Some(new) = f(old) {
                    match self.compare_exchange(old, new, set, fetch) {
                        Ok(old) => return Ok(old),
                        Err(now) => old = now,
                    }
                }
                Err(old)
            }

            pub fn get_mut(&mut self) -> &mut $value {
                self.0.get_mut()
            }

            pub fn into_inner(self) -> $value {
                self.0.into_inner()
            }
        }
    )*};
}

atomics! {
    AtomicBool: bool,
    AtomicIsize: isize,
    AtomicPtr<T>: *mut T,
    AtomicU32: u32,
    AtomicU64: u64,
    AtomicUsize: usize,
}

macro_rules! fetch {
    ($($name:ident: $value:ty, [$($method:ident),*];)*) => {$(
        #[allow(missing_docs, reason = "the methods are those of `std`")]
        impl $name {
            $(#[track_caller]
            pub fn $method(&self, value: $value, _: Ordering) -> $value {
                access(self.at(), Access::Exchange, || self.0.$method(value, Relaxed))
            })*
        }
    )*};
}

fetch! {
    AtomicBool: bool, [fetch_or, fetch_and, fetch_xor];
    AtomicIsize: isize, [fetch_add, fetch_sub, fetch_or, fetch_and, fetch_xor, fetch_max, fetch_min];
    AtomicU32: u32, [fetch_add, fetch_sub, fetch_or, fetch_and, fetch_xor, fetch_max, fetch_min];
    AtomicU64: u64, [fetch_add, fetch_sub, fetch_or, fetch_and, fetch_xor, fetch_max, fetch_min];
    AtomicUsize: usize, [fetch_add, fetch_sub, fetch_or, fetch_and, fetch_xor, fetch_max, fetch_min];
}
