//! Servers of the protocols in [`protocol`](super::protocol), on Creel, on tokio and without a
//! runtime. The other runtimes are in `peers.rs`.

use std::io;
use std::net::TcpListener;
use std::thread;

use anyhow::anyhow;

use super::epoll;
use super::protocol::{Protocol, Store, Talk};
use super::server::{listeners, print_address};

/// Serves one connection until it ends. All runtimes with `async` reads and writes use this code.
macro_rules! serve_connection {
    ($stream:ident, $talk:ident) => {{
        let (mut input, mut output) = $talk.buffers();
        loop {
            let read = $stream.read(&mut input).await?;
            if read == 0 {
                return io::Result::Ok(());
            }
            $talk.answer(&input[..read], &mut output)?;
            $stream.write_all(&output).await?;
        }
    }};
}
#[cfg(feature = "servers")]
pub(super) use serve_connection;

/// Runs `serve` on one thread per worker, each with a listener of its own.
pub fn on_threads(
    workers: usize,
    serve: impl Fn(TcpListener) -> anyhow::Result<()> + Sync,
) -> anyhow::Result<()> {
    let listeners = listeners(workers)?;
    print_address(listeners[0].local_addr()?)?;
    thread::scope(|scope| {
        let serve = &serve;
        let started = listeners
            .into_iter()
            .map(|listener| scope.spawn(move || serve(listener)));
        let threads: Vec<_> = started.collect();
        threads.into_iter().try_for_each(|thread| {
            let ended = thread.join();
            ended.unwrap_or_else(|_| Err(anyhow!("a thread of the server panicked")))
        })
    })
}

pub fn without_runtime(workers: usize, protocol: Protocol) -> anyhow::Result<()> {
    let store = Store::default();
    on_threads(workers, |listener| {
        let begin = |mut stream: epoll::Socket| {
            let mut talk = Talk::new(protocol, &store);
            async move { serve_connection!(stream, talk) }
        };
        Ok(epoll::serve(&listener, begin)?)
    })
}

async fn on_creel(
    listener: creel::net::TcpListener,
    protocol: Protocol,
    store: Store,
) -> io::Result<()> {
    loop {
        let (stream, _) = listener.accept().await?;
        stream.set_nodelay(true)?;
        let mut talk = Talk::new(protocol, &store);
        creel::task::spawn(async move { serve_connection!(stream, talk) }).detach();
    }
}

pub fn creel(workers: usize, protocol: Protocol) -> anyhow::Result<()> {
    let pool = creel::Pool::builder().workers(workers).build()?;
    let listener = creel::net::TcpListener::bind(([127, 0, 0, 1], 0).into())?;
    print_address(listener.local_addr()?)?;
    pool.block_on(pool.spawn(on_creel(listener, protocol, Store::default())))
        .map_err(|error| anyhow!("{error:?}"))??;
    Ok(())
}

pub fn creel_per_core(workers: usize, protocol: Protocol) -> anyhow::Result<()> {
    let pools = creel_hyper::PerCore::pools(workers)?;
    let listeners = creel::net::TcpListener::bind_each(([127, 0, 0, 1], 0).into(), workers)?;
    print_address(listeners[0].local_addr()?)?;
    let store = Store::default();
    let servers: Vec<_> = pools
        .iter()
        .zip(listeners)
        .map(|(pool, listener)| pool.spawn(on_creel(listener, protocol, store.clone())))
        .collect();
    // The main thread only waits, because it belongs to none of the pools that serve.
    let main = creel::Pool::builder().workers(1).build()?;
    for server in servers {
        main.block_on(server)
            .map_err(|error| anyhow!("{error:?}"))??;
    }
    Ok(())
}

async fn on_tokio(listener: TcpListener, protocol: Protocol, store: Store) -> io::Result<()> {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    let listener = tokio::net::TcpListener::from_std(listener)?;
    loop {
        let (mut stream, _) = listener.accept().await?;
        stream.set_nodelay(true)?;
        let mut talk = Talk::new(protocol, &store);
        tokio::spawn(async move { serve_connection!(stream, talk) });
    }
}

pub fn tokio(workers: usize, protocol: Protocol) -> anyhow::Result<()> {
    let runtime = super::server::tokio_runtime(workers)?;
    let listener = listeners(1)?.remove(0);
    print_address(listener.local_addr()?)?;
    let serve = on_tokio(listener, protocol, Store::default());
    runtime.block_on(async { tokio::spawn(serve).await? })?;
    Ok(())
}

pub fn tokio_per_core(workers: usize, protocol: Protocol) -> anyhow::Result<()> {
    let store = Store::default();
    on_threads(workers, |listener| {
        let runtime = super::server::tokio_runtime(1)?;
        Ok(runtime.block_on(on_tokio(listener, protocol, store.clone()))?)
    })
}
