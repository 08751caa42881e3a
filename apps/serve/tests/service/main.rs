//! The program from outside: what it answers, to whom it does not, what outlives it.

mod answers;
mod bad_clients;
mod endings;
#[cfg(feature = "tls")]
mod https;
mod overload;
mod process;
mod redis;
