//! TCP as a source of samples. The samples are little-endian, and arrive at the pace of the other
//! side.

use crate::stream::buffer::Buffer;
use crate::stream::source::Source;
use creel::net::TcpStream;
use creel::time::Clock;
use creel_media::control::Flow;
use creel_media::leaky::Receiver;
use std::fmt;
use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

/// Reads samples from a TCP connection.
#[derive(Debug)]
pub struct TcpSource {
    from: From,
    clock: Clock,
    /// The bytes of a buffer that is not full yet.
    bytes: Vec<u8>,
    filled: usize,
    made: u64,
}

enum From {
    /// We connect when the first buffer is requested.
    Connecting(Pin<Box<dyn Future<Output = io::Result<TcpStream>> + Send>>),
    Connection(TcpStream),
}

impl fmt::Debug for From {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            From::Connecting(_) => f.write_str("Connecting"),
            From::Connection(stream) => stream.fmt(f),
        }
    }
}

impl TcpSource {
    /// Creates a source that connects to `address` and reads buffers of `samples` samples until the
    /// end of the stream. It leaves out a last buffer that is not full.
    pub fn to(address: SocketAddr, samples: usize) -> Self {
        TcpSource::begin(
            From::Connecting(Box::pin(TcpStream::connect(address))),
            samples,
        )
    }

    fn begin(from: From, samples: usize) -> Self {
        TcpSource {
            from,
            clock: Clock::monotonic(),
            bytes: vec![0; samples * 2],
            filled: 0,
            made: 0,
        }
    }
}

impl Source for TcpSource {
    fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Result<Buffer, Flow>> {
        let stream = match &mut self.from {
            From::Connection(stream) => stream,
            From::Connecting(connecting) => {
                let connected = ready!(connecting.as_mut().poll(cx));
                self.from = From::Connection(connected.map_err(|_| Flow::Failed)?);
                return self.poll_next(cx);
            }
        };
        while self.filled < self.bytes.len() {
            let rest = &mut self.bytes[self.filled..];
            match ready!(stream.poll_read(cx, rest)) {
                Ok(0) => return Poll::Ready(Err(Flow::EndOfStream)),
                Ok(read) => self.filled += read,
                Err(_) => return Poll::Ready(Err(Flow::Failed)),
            }
        }
        self.filled = 0;
        let mut buffer = Buffer::new(self.bytes.len() / 2);
        for (sample, pair) in buffer.samples.iter_mut().zip(self.bytes.chunks_exact(2)) {
            *sample = i16::from_le_bytes([pair[0], pair[1]]);
        }
        buffer.sequence = self.made;
        buffer.made = self.clock.nanos();
        buffer.due = buffer.made;
        self.made += 1;
        Poll::Ready(Ok(buffer))
    }
}

/// Connects to `address` and writes the entries of the queue, until the queue is closed or the
/// connection ends.
pub(crate) async fn write(address: SocketAddr, mut queue: Receiver<Vec<u8>>) {
    let Ok(stream) = TcpStream::connect(address).await else {
        return;
    };
    while let Ok(bytes) = queue.recv().await {
        if stream.write_all(&bytes).await.is_err() {
            return;
        }
    }
}
