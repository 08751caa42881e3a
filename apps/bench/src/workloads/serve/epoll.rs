//! Servers without a runtime: a loop around epoll that polls the future of each connection whose
//! socket is ready.
//!
//! This is the baseline for all runtimes. It has no tasks, no timers and no queues, and its threads
//! share nothing. A future is polled for each event of its socket, so it needs no waker. It gets one
//! that only records that the future wants to be polled again at once, which hyper sometimes does.

use std::future::{Future, poll_fn};
use std::io::{self, ErrorKind, IoSlice, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::task::{Context, Poll, Wake, Waker};

use hyper::rt::ReadBufCursor;
use rustix::buffer::spare_capacity;
use rustix::event::epoll;

/// The key of the listener among the events. Connections have smaller keys.
const LISTENER: u64 = u64::MAX;

/// Records that a future wants to be polled again.
#[derive(Default)]
struct Again(AtomicBool);

impl Wake for Again {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Relaxed);
    }
}

/// Serves the connections of a listener on this thread, each with the future that `begin` returns.
pub fn serve<F: Future>(listener: &TcpListener, begin: impl Fn(Socket) -> F) -> io::Result<()> {
    let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
    let key = epoll::EventData::new_u64(LISTENER);
    epoll::add(&epoll, listener, key, epoll::EventFlags::IN)?;
    let mut connections: Vec<Option<Pin<Box<F>>>> = Vec::new();
    let mut free = Vec::new();
    let again = Arc::new(Again::default());
    let waker = Waker::from(Arc::clone(&again));
    let cx = &mut Context::from_waker(&waker);
    let mut events = Vec::with_capacity(256);
    loop {
        events.clear();
        epoll::wait(&epoll, spare_capacity(&mut events), None)?;
        for event in &events {
            let data = event.data;
            if data.u64() == LISTENER {
                while let Some(stream) = accept(listener)? {
                    let slot = free.pop().unwrap_or(connections.len());
                    let flags =
                        epoll::EventFlags::IN | epoll::EventFlags::OUT | epoll::EventFlags::ET;
                    let key = epoll::EventData::new_u64(slot as u64);
                    epoll::add(&epoll, &stream, key, flags)?;
                    // The socket is ready for writing, so its first event comes at once.
                    let connection = Some(Box::pin(begin(Socket::new(stream))));
                    match connections.get_mut(slot) {
                        Some(place) => *place = connection,
                        None => connections.push(connection),
                    }
                }
                continue;
            }
            let slot = data.u64() as usize;
            let Some(Some(connection)) = connections.get_mut(slot) else {
                continue;
            };
            let is_over = loop {
                let is_over = connection.as_mut().poll(cx).is_ready();
                if is_over || !again.0.swap(false, Relaxed) {
                    break is_over;
                }
            };
            if is_over {
                connections[slot] = None;
                free.push(slot);
            }
        }
    }
}

fn accept(listener: &TcpListener) -> io::Result<Option<TcpStream>> {
    match listener.accept() {
        Ok((stream, _)) => {
            stream.set_nonblocking(true)?;
            stream.set_nodelay(true)?;
            Ok(Some(stream))
        }
        Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(None),
        Err(error) => Err(error),
    }
}

/// A connection. Its operations are pending until the next event of the socket.
pub struct Socket {
    stream: TcpStream,
    /// A buffer for reading, because hyper's may be uninitialized.
    scratch: Box<[u8]>,
}

/// Makes a system call that may have to wait.
fn poll_call<R>(call: io::Result<R>) -> Poll<io::Result<R>> {
    match call {
        Err(error) if error.kind() == ErrorKind::WouldBlock => Poll::Pending,
        done => Poll::Ready(done),
    }
}

impl Socket {
    fn new(stream: TcpStream) -> Self {
        Socket {
            stream,
            scratch: vec![0; 1024].into(),
        }
    }

    /// Reads some bytes. Returns 0 at the end of the stream.
    pub async fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        poll_fn(|_| poll_call(self.stream.read(into))).await
    }

    /// Writes all bytes.
    pub async fn write_all(&mut self, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            let written = poll_fn(|_| poll_call(self.stream.write(bytes))).await?;
            bytes = &bytes[written..];
        }
        Ok(())
    }
}

impl hyper::rt::Read for Socket {
    fn poll_read(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
        mut into: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        let this = &mut *self;
        let most = into.remaining().min(this.scratch.len());
        poll_call(this.stream.read(&mut this.scratch[..most]))
            .map_ok(|read| into.put_slice(&this.scratch[..read]))
    }
}

impl hyper::rt::Write for Socket {
    fn poll_write(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        poll_call(self.stream.write(bytes))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(self.stream.shutdown(std::net::Shutdown::Write))
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
        pieces: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        poll_call(self.stream.write_vectored(pieces))
    }
}
