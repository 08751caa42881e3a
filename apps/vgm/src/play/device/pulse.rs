//! A PulseAudio server, or PipeWire, which uses the same protocol. We use the socket of the server
//! directly, so we need neither a system library nor a thread.
//!
//! The server requests a number of bytes, and we never send more.

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

/// The size of the server's buffer as a fraction of a second: 1/25 s, or 40 ms.
const HOLDS: u32 = 25;
/// The longest time that we wait for the server while connecting.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);
/// The size of the authentication cookie.
const COOKIE_BYTES: usize = 256;
/// The size of the descriptor before each message.
const HEAD: usize = 20;
/// The maximum size of a message. None that concerns us is longer.
const MESSAGE_BYTES_MAX: usize = 1 << 20;
const LAYOUT: Layout = Layout {
    container: Container::Raw,
    samples: mix::SampleFormat::I16,
};

/// A stream to the default sink of the server.
#[derive(Debug)]
pub struct Pulse {
    socket: UnixStream,
    version: u16,
    channel: u32,
    /// The received part of a message.
    inbox: Vec<u8>,
    /// Bytes that did not fit in the socket yet.
    outbox: Vec<u8>,
    samples: Vec<u8>,
    /// The number of bytes that the server has requested and not received.
    wanted: usize,
    /// The size of the server's buffer in bytes.
    target: usize,
    rate: u32,
    /// The time at which the server reported that it started to play, or `None` if it has not
    /// reported this since its buffer was last empty.
    since: Option<Instant>,
    /// The number of frames that we sent since the server's buffer was last empty.
    given: u64,
}

impl Pulse {
    /// Connects to the server that the environment names, or to the default server of the user.
    ///
    /// # Errors
    ///
    /// Returns [`ErrorKind::NotFound`] if there is no socket of a server, and other errors if the
    /// connection fails or the server rejects us.
    pub fn connect(rate: u32) -> io::Result<Self> {
        let path = pulseaudio::socket_path_from_env().ok_or(ErrorKind::NotFound)?;
        let stream = UnixStream::connect(path)?;
        stream.set_read_timeout(Some(CONNECT_TIMEOUT))?;
        stream.set_write_timeout(Some(CONNECT_TIMEOUT))?;
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

    /// Receives the messages of the server.
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
                // We ignore notifications and messages of later versions of the protocol.
                _ => {}
            }
            self.inbox.drain(..end);
        }
        Ok(())
    }

    /// Sends as many pending bytes as fit in the socket.
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

/// Authenticates and sets our name. Returns the version of the protocol.
fn greet(socket: &mut BufReader<UnixStream>) -> Result<u16, protocol::ProtocolError> {
    let cookie = pulseaudio::cookie_path_from_env().and_then(|path| std::fs::read(path).ok());
    // Even a server without authentication expects a cookie of this size.
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
