//! A PulseAudio server, or PipeWire, which answers the same protocol: over its socket, without a
//! library of the system's and without a thread.
//!
//! The server asks for so many bytes, and gets no more.

use std::io::{self, BufReader, ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use pulseaudio::protocol::stream::{BufferAttr, StreamFlags};
use pulseaudio::protocol::{
    self, AuthParams, AuthReply, ChannelMap, ChannelVolume, Command, CreatePlaybackStreamReply,
    MAX_VERSION, PlaybackStreamParams, Prop, Props, SampleFormat, SampleSpec, SetClientNameReply,
};

use super::Device;
use crate::mix;
use crate::wav::{Container, Layout};

/// What the server is to hold, in parts of a second: 40 ms.
const HOLDS: u32 = 25;
/// How long a server has to answer when it is greeted.
const PATIENCE: Duration = Duration::from_secs(2);
/// Bytes of what a user shows a server.
const COOKIE_BYTES: usize = 256;
/// Bytes before a message's own.
const HEAD: usize = 20;
/// No message that concerns us is longer.
const MESSAGE_BYTES_MAX: usize = 1 << 20;
const LAYOUT: Layout = Layout {
    container: Container::Raw,
    samples: mix::SampleFormat::I16,
};

/// A stream to the server's default sink.
#[derive(Debug)]
pub struct Pulse {
    socket: UnixStream,
    version: u16,
    channel: u32,
    /// What came of a message so far.
    inbox: Vec<u8>,
    /// What did not fit the socket yet.
    outbox: Vec<u8>,
    samples: Vec<u8>,
    /// Bytes that the server still wants.
    wanted: usize,
    /// Bytes that it holds at most.
    target: usize,
    rate: u32,
    /// When it last began to play, if it said so, and how many frames it has got since it held
    /// nothing.
    since: Option<Instant>,
    given: u64,
}

impl Pulse {
    /// Connects to the server that the environment names, or the user's own.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::NotFound`] if there is none, and what it says.
    pub fn connect(rate: u32) -> io::Result<Self> {
        let path = pulseaudio::socket_path_from_env().ok_or(ErrorKind::NotFound)?;
        let stream = UnixStream::connect(path)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        let mut socket = BufReader::new(stream);
        let version = greet(&mut socket).map_err(io::Error::other)?;
        let stream = open(&mut socket, version, rate).map_err(io::Error::other)?;
        let inbox = socket.buffer().to_vec();
        let socket = socket.into_inner();
        socket.set_nonblocking(true)?;
        Ok(Pulse {
            socket,
            version,
            channel: stream.channel,
            inbox,
            outbox: Vec::new(),
            samples: Vec::new(),
            wanted: stream.requested_bytes as usize,
            target: stream.buffer_attr.target_length as usize,
            rate,
            since: None,
            given: 0,
        })
    }

    /// Takes what the server says.
    fn listen(&mut self) -> io::Result<()> {
        let mut piece = [0; 1024];
        loop {
            match self.socket.read(&mut piece) {
                Ok(0) => return Err(ErrorKind::BrokenPipe.into()),
                Ok(read) => self.inbox.extend_from_slice(&piece[..read]),
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        while let Some(head) = self.inbox.first_chunk::<HEAD>() {
            let head = protocol::read_descriptor(&mut &head[..]).map_err(io::Error::other)?;
            let end = HEAD + head.length as usize;
            if end > MESSAGE_BYTES_MAX {
                return Err(ErrorKind::InvalidData.into());
            }
            if self.inbox.len() < end {
                break;
            }
            let said = Command::read_tag_prefixed(&mut &self.inbox[HEAD..end], self.version);
            match said {
                Ok((_, Command::Request(asked))) if asked.channel == self.channel => {
                    self.wanted += asked.length as usize;
                }
                Ok((_, Command::Started(channel))) if channel == self.channel => {
                    self.since = Some(Instant::now());
                }
                Ok((_, Command::PlaybackStreamKilled(_) | Command::Error(_))) => {
                    return Err(ErrorKind::BrokenPipe.into());
                }
                // Notices, and those of versions to come.
                _ => {}
            }
            self.inbox.drain(..end);
        }
        Ok(())
    }

    /// Sends what fits.
    fn push(&mut self) -> io::Result<()> {
        while !self.outbox.is_empty() {
            match self.socket.write(&self.outbox) {
                Ok(sent) => {
                    self.outbox.drain(..sent);
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

/// Says who we are; returns the protocol's version.
fn greet(socket: &mut BufReader<UnixStream>) -> Result<u16, protocol::ProtocolError> {
    let cookie = pulseaudio::cookie_path_from_env().and_then(|path| std::fs::read(path).ok());
    // A server that lets everybody in still wants so many bytes.
    let mut cookie = cookie.unwrap_or_default();
    cookie.resize(COOKIE_BYTES, 0);
    let auth = AuthParams {
        version: MAX_VERSION,
        supports_shm: false,
        supports_memfd: false,
        cookie,
    };
    protocol::write_command_message(socket.get_mut(), 0, &Command::Auth(auth), MAX_VERSION)?;
    let (_, reply) = protocol::read_reply_message::<AuthReply>(socket, MAX_VERSION)?;
    let version = reply.version.min(MAX_VERSION);
    let mut props = Props::new();
    props.set(Prop::ApplicationName, c"creel-vgm");
    let named = Command::SetClientName(props);
    protocol::write_command_message(socket.get_mut(), 1, &named, version)?;
    protocol::read_reply_message::<SetClientNameReply>(socket, version)?;
    Ok(version)
}

fn open(
    socket: &mut BufReader<UnixStream>,
    version: u16,
    rate: u32,
) -> Result<CreatePlaybackStreamReply, protocol::ProtocolError> {
    let holds = rate / HOLDS * LAYOUT.frame_bytes() as u32;
    let mut props = Props::new();
    props.set(Prop::MediaName, c"music");
    let params = PlaybackStreamParams {
        sample_spec: SampleSpec {
            format: SampleFormat::S16Le,
            channels: 2,
            sample_rate: rate,
        },
        channel_map: ChannelMap::stereo(),
        cvolume: Some(ChannelVolume::norm(2)),
        sink_name: Some(protocol::DEFAULT_SINK.to_owned()),
        buffer_attr: BufferAttr {
            max_length: u32::MAX,
            target_length: holds,
            pre_buffering: holds / 3,
            minimum_request_length: holds / 6,
            fragment_size: u32::MAX,
        },
        flags: StreamFlags {
            adjust_latency: true,
            ..Default::default()
        },
        props,
        ..Default::default()
    };
    let create = Command::CreatePlaybackStream(params);
    protocol::write_command_message(socket.get_mut(), 2, &create, version)?;
    Ok(protocol::read_reply_message::<CreatePlaybackStreamReply>(socket, version)?.1)
}

impl Device for Pulse {
    fn write(&mut self, frames: &[[f32; 2]]) -> io::Result<usize> {
        self.listen()?;
        self.push()?;
        let each = LAYOUT.frame_bytes();
        let taken = frames.len().min(self.wanted / each);
        if taken == 0 || !self.outbox.is_empty() {
            return Ok(0);
        }
        if self.queued_frames() == 0 {
            (self.since, self.given) = (None, 0);
        }
        self.samples.clear();
        LAYOUT.encode(&frames[..taken], &mut self.samples);
        protocol::write_memblock(&mut self.outbox, self.channel, &self.samples, 0)
            .map_err(io::Error::other)?;
        self.wanted -= self.samples.len();
        self.given += taken as u64;
        self.push()?;
        Ok(taken)
    }

    fn queued_frames(&mut self) -> usize {
        let asked = self.target.saturating_sub(self.wanted) / LAYOUT.frame_bytes();
        let since = self.since.map_or(Duration::ZERO, |since| since.elapsed());
        let played = since.as_nanos() * u128::from(self.rate) / 1_000_000_000;
        let by_clock = u128::from(self.given).saturating_sub(played) as usize;
        asked.min(by_clock)
    }
}
