//! TCP as a source: bare samples, little-endian, at whatever pace they come.

use crate::buffer::Buffer;
use crate::machine::Flow;
use crate::source::Source;
use creel::net::TcpStream;
use creel::time::Clock;
use std::net::SocketAddr;

/// Reads samples from a connection.
#[derive(Debug)]
pub struct TcpSource {
    from: From,
    clock: Clock,
    bytes: Vec<u8>,
    filled: usize,
    made: u64,
}

#[derive(Debug)]
enum From {
    /// To be connected to with the first buffer.
    Address(SocketAddr),
    Connection(TcpStream),
}

impl TcpSource {
    /// Connects to `address`, then reads until the end; a last buffer that is not full is left
    /// out.
    pub fn to(address: SocketAddr) -> Self {
        Self::begin(From::Address(address))
    }

    /// Reads from `stream` until its end; a last buffer that is not full is left out.
    pub fn new(stream: TcpStream) -> Self {
        Self::begin(From::Connection(stream))
    }

    fn begin(from: From) -> Self {
        TcpSource {
            from,
            clock: Clock::monotonic(),
            bytes: Vec::new(),
            filled: 0,
            made: 0,
        }
    }
}

impl Source for TcpSource {
    async fn next(&mut self, buffer: &mut Buffer) -> Result<(), Flow> {
        if let From::Address(address) = self.from {
            let connected = TcpStream::connect(address).await;
            self.from = From::Connection(connected.map_err(|_| Flow::Failed)?);
        }
        let From::Connection(stream) = &self.from else {
            return Err(Flow::Failed);
        };
        self.bytes.resize(buffer.samples.len() * 2, 0);
        while self.filled < self.bytes.len() {
            let rest = &mut self.bytes[self.filled..];
            match stream.read(rest).await {
                Ok(0) => return Err(Flow::EndOfStream),
                Ok(read) => self.filled += read,
                Err(_) => return Err(Flow::Failed),
            }
        }
        self.filled = 0;
        for (sample, pair) in buffer.samples.iter_mut().zip(self.bytes.chunks_exact(2)) {
            *sample = i16::from_le_bytes([pair[0], pair[1]]);
        }
        buffer.sequence = self.made;
        buffer.made = self.clock.nanos();
        buffer.due = buffer.made;
        self.made += 1;
        Ok(())
    }
}
