//! Servers of the protocols in [`protocol`](super::protocol) on further runtimes, each in the way
//! that its own documentation recommends for a server on several cores.

use std::future::pending;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::sync::{Arc, mpsc};
use std::thread;

use anyhow::{Context, anyhow};

use super::protocol::{Protocol, Store, Talk};
use super::raw::{on_threads, serve_connection};
use super::server::{listeners, print_address};

/// smol: an executor that several threads run, and one thread that waits for events.
pub fn smol(workers: usize, protocol: Protocol) -> anyhow::Result<()> {
    let listener = listeners(1)?.remove(0);
    print_address(listener.local_addr()?)?;
    let executor = Arc::new(smol::Executor::new());
    for _ in 1..workers {
        let executor = Arc::clone(&executor);
        thread::spawn(move || smol::block_on(executor.run(pending::<()>())));
    }
    let serve = on_smol(&executor, listener, protocol);
    Ok(smol::block_on(executor.run(serve))?)
}

async fn on_smol(
    executor: &smol::Executor<'static>,
    listener: TcpListener,
    protocol: Protocol,
) -> io::Result<()> {
    use smol::io::{AsyncReadExt, AsyncWriteExt};
    let store = Store::default();
    let listener = smol::Async::new(listener)?;
    loop {
        let (stream, _) = listener.accept().await?;
        stream.get_ref().set_nodelay(true)?;
        let mut stream = smol::net::TcpStream::from(stream);
        let mut talk = Talk::new(protocol, &store);
        let serve = async move { serve_connection!(stream, talk) };
        executor.spawn(serve).detach();
    }
}

/// monoio on epoll.
pub fn monoio_epoll(workers: usize, protocol: Protocol) -> anyhow::Result<()> {
    let store = Store::default();
    on_threads(workers, |listener| {
        let builder = monoio::RuntimeBuilder::<monoio::LegacyDriver>::new();
        let mut runtime = builder.build()?;
        Ok(runtime.block_on(on_monoio(listener, protocol, store.clone()))?)
    })
}

/// monoio on io_uring.
pub fn monoio_uring(workers: usize, protocol: Protocol) -> anyhow::Result<()> {
    let store = Store::default();
    on_threads(workers, |listener| {
        let builder = monoio::RuntimeBuilder::<monoio::IoUringDriver>::new();
        let mut runtime = builder.build()?;
        Ok(runtime.block_on(on_monoio(listener, protocol, store.clone()))?)
    })
}

async fn on_monoio(listener: TcpListener, protocol: Protocol, store: Store) -> io::Result<()> {
    use monoio::io::{AsyncReadRent, AsyncWriteRentExt};
    let listener = monoio::net::TcpListener::from_std(listener)?;
    loop {
        let (mut stream, _) = listener.accept().await?;
        stream.set_nodelay(true)?;
        let mut talk = Talk::new(protocol, &store);
        monoio::spawn(async move {
            let (mut input, mut output) = talk.buffers();
            loop {
                let (read, returned) = stream.read(input).await;
                let read = read?;
                if read == 0 {
                    return io::Result::Ok(());
                }
                input = returned;
                talk.answer(&input[..read], &mut output)?;
                let (written, returned) = stream.write_all(output).await;
                written?;
                output = returned;
            }
        });
    }
}

/// compio, which uses io_uring.
pub fn compio(workers: usize, protocol: Protocol) -> anyhow::Result<()> {
    use compio::BufResult;
    use compio::io::{AsyncRead, AsyncWriteExt};
    async fn serve(listener: TcpListener, protocol: Protocol, store: Store) -> io::Result<()> {
        let listener = compio::net::TcpListener::from_std(listener)?;
        loop {
            let (mut stream, _) = listener.accept().await?;
            let mut talk = Talk::new(protocol, &store);
            let serve = async move {
                let (mut input, mut output) = talk.buffers();
                loop {
                    let BufResult(read, returned) = stream.read(input).await;
                    let read = read?;
                    if read == 0 {
                        return io::Result::Ok(());
                    }
                    input = returned;
                    talk.answer(&input[..read], &mut output)?;
                    let BufResult(written, returned) = stream.write_all(output).await;
                    written?;
                    output = returned;
                }
            };
            compio::runtime::spawn(serve).detach();
        }
    }
    let store = Store::default();
    on_threads(workers, |listener| {
        let runtime = compio::runtime::Runtime::new()?;
        Ok(runtime.block_on(serve(listener, protocol, store.clone()))?)
    })
}

/// glommio, which uses io_uring.
pub fn glommio(workers: usize, protocol: Protocol) -> anyhow::Result<()> {
    use glommio::{LocalExecutorBuilder, Placement};
    // glommio only binds by address, with SO_REUSEPORT. This socket chooses the port. It does not
    // listen, so it gets no connections.
    let reserved = super::server::bound(([127, 0, 0, 1], 0).into())?;
    let address = reserved.local_addr()?.as_socket();
    let address = address.context("a TCP socket has no address")?;
    let store = Store::default();
    let (bound, is_bound) = mpsc::channel();
    let start = |_| {
        let (store, bound) = (store.clone(), bound.clone());
        let builder = LocalExecutorBuilder::new(Placement::Unbound);
        builder.spawn(move || on_glommio(address, protocol, store, bound))
    };
    let executors = (0..workers).map(start).collect::<Result<Vec<_>, _>>();
    let executors = executors.map_err(|error| anyhow!("cannot start glommio: {error}"))?;
    for _ in 0..workers {
        is_bound.recv()?;
    }
    print_address(address)?;
    for executor in executors {
        let ended = executor.join();
        ended.map_err(|error| anyhow!("glommio: {error}"))??;
    }
    Ok(())
}

async fn on_glommio(
    address: SocketAddr,
    protocol: Protocol,
    store: Store,
    bound: mpsc::Sender<()>,
) -> io::Result<()> {
    use smol::io::{AsyncReadExt, AsyncWriteExt};
    let listener = glommio::net::TcpListener::bind(address)?;
    bound.send(()).map_err(io::Error::other)?;
    loop {
        let mut stream = listener.accept().await?;
        stream.set_nodelay(true)?;
        let mut talk = Talk::new(protocol, &store);
        let serve = async move { serve_connection!(stream, talk) };
        glommio::spawn_local(serve).detach();
    }
}

/// may: coroutines with stacks, whose reads and writes look blocking.
pub fn may(workers: usize, protocol: Protocol) -> anyhow::Result<()> {
    may::config().set_workers(workers).set_stack_size(0x4000);
    let listener = may::net::TcpListener::bind("127.0.0.1:0")?;
    print_address(listener.local_addr()?)?;
    let store = Store::default();
    let server = may::go!(move || -> io::Result<()> {
        loop {
            let (mut stream, _) = listener.accept()?;
            stream.set_nodelay(true)?;
            let mut talk = Talk::new(protocol, &store);
            may::go!(move || -> io::Result<()> {
                let (mut input, mut output) = talk.buffers();
                loop {
                    let read = stream.read(&mut input)?;
                    if read == 0 {
                        return Ok(());
                    }
                    talk.answer(&input[..read], &mut output)?;
                    stream.write_all(&output)?;
                }
            });
        }
    });
    let ended = server.join();
    ended.map_err(|_| anyhow!("the server panicked"))??;
    Ok(())
}
