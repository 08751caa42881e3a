//! Tests of the whole program: its responses, bad clients, overload, shutdown and stores.

mod answers;
mod bad_clients;
mod endings;
#[cfg(feature = "tls")]
mod https;
mod overload;
mod private;
mod process;
mod redis;
mod redis_failover;
mod redis_login;
mod redis_server;
#[path = "../../../../crates/creel/tests/retry/mod.rs"]
mod retry;
