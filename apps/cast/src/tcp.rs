//! TCP as a source: bare samples, little-endian, at whatever pace they come.

use crate::buffer::Buffer;
use crate::machine::Flow;
use crate::source::Source;
use creel::net::TcpStream;
use creel::time::Clock;

/// Reads samples from a connection.
#[derive(Debug)]
pub struct TcpSource {
    stream: TcpStream,
    clock: Clock,
    bytes: Vec<u8>,
    filled: usize,
    made: u64,
}

impl TcpSource {
    /// Reads from `stream` until its end; a last buffer that is not full is left out.
    pub fn new(stream: TcpStream) -> Self {
        TcpSource {
            stream,
            clock: Clock::monotonic(),
            bytes: Vec::new(),
            filled: 0,
            made: 0,
        }
    }
}

impl Source for TcpSource {
    async fn next(&mut self, buffer: &mut Buffer) -> Result<(), Flow> {
        self.bytes.resize(buffer.samples.len() * 2, 0);
        while self.filled < self.bytes.len() {
            let rest = &mut self.bytes[self.filled..];
            match self.stream.read(rest).await {
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
