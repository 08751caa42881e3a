//! `creel-tcpclientsrc`: receives a stream of bytes, or framed packets, from a server.

use creel::net::TcpStream;
use gst::glib;
use gst::prelude::*;
use gst::subclass::prelude::*;
use std::io;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock};
use std::task::{Context as Cx, Poll, ready};
use std::time::Duration;

use crate::clock::PipelineClock;
use crate::context::{self, Context};
use crate::settings::Settings;
use crate::source::{self, Prelude, Source, SourceImpl};
use crate::stream::Body;

/// The way in which the bytes of the connection are divided into buffers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, glib::Enum)]
#[enum_type(name = "GstCreelTcpFraming")]
pub enum Framing {
    /// A buffer contains what one call received.
    #[default]
    #[enum_value(name = "None: a buffer contains what one call received", nick = "none")]
    None,
    /// Each buffer is one packet, whose length is in the two bytes before it.
    #[enum_value(
        name = "RFC 4571: two bytes with the length before each packet",
        nick = "rfc4571"
    )]
    Rfc4571,
}

static PROPERTIES: LazyLock<Vec<glib::ParamSpec>> = LazyLock::new(|| {
    let mut all = context::properties();
    all.extend([
        glib::ParamSpecString::builder("host")
            .nick("Host")
            .blurb("Name or address of the server")
            .default_value(Some("127.0.0.1"))
            .mutable_ready()
            .build(),
        glib::ParamSpecInt::builder("port")
            .nick("Port")
            .blurb("Port of the server")
            .minimum(0)
            .maximum(65_535)
            .default_value(4_953)
            .mutable_ready()
            .build(),
        glib::ParamSpecBoxed::builder::<gst::Caps>("caps")
            .nick("Caps")
            .blurb("Caps of the buffers")
            .mutable_ready()
            .build(),
        glib::ParamSpecUInt::builder("blocksize")
            .nick("Blocksize")
            .blurb("Maximum number of bytes of a buffer without framing")
            .minimum(1)
            .maximum(1 << 24)
            .default_value(4_096)
            .mutable_ready()
            .build(),
        glib::ParamSpecUInt::builder("timeout")
            .nick("Timeout")
            .blurb("Time in ms within which the server must accept the connection. 0 leaves the system's limit")
            .default_value(10_000)
            .mutable_ready()
            .build(),
        glib::ParamSpecEnum::builder::<Framing>("framing")
            .nick("Framing")
            .blurb("How the bytes of the connection become buffers")
            .mutable_ready()
            .build(),
        crate::stats_property(),
    ]);
    all
});

#[derive(Default)]
struct Counters {
    buffers: AtomicU64,
    bytes: AtomicU64,
}

pub struct TcpClientSrc {
    settings: Settings,
    source: Source<Receive>,
    clock: Arc<PipelineClock>,
    counters: Arc<Counters>,
}

crate::element!(TcpClientSrcElement, TcpClientSrc);
crate::source_element!(
    TcpClientSrc,
    "Creel TCP client source",
    "Source/Network",
    "Receives from a TCP server, on the threads of a context",
    gst::Caps::new_any()
);

#[glib::object_subclass]
impl ObjectSubclass for TcpClientSrc {
    const NAME: &'static str = "GstCreelTcpClientSrc";
    type Type = TcpClientSrcElement;
    type ParentType = gst::Element;

    fn with_class(class: &Self::Class) -> Self {
        Self {
            settings: Settings::new(&PROPERTIES),
            source: Source::new(source::pad::<Self>(class)),
            clock: Arc::default(),
            counters: Arc::default(),
        }
    }
}

impl ObjectImpl for TcpClientSrc {
    fn properties() -> &'static [glib::ParamSpec] {
        &PROPERTIES
    }

    fn set_property(&self, _id: usize, value: &glib::Value, spec: &glib::ParamSpec) {
        self.settings.set(spec, value);
    }

    fn property(&self, _id: usize, spec: &glib::ParamSpec) -> glib::Value {
        match spec.name() {
            "stats" => {
                let mut stats = gst::Structure::builder("creel-tcpclientsrc")
                    .field("buffers", self.counters.buffers.load(Ordering::Relaxed))
                    .field("bytes", self.counters.bytes.load(Ordering::Relaxed))
                    .build();
                if let Some(context) = self.source.context() {
                    context.describe(&mut stats);
                }
                stats.to_value()
            }
            name => self.settings.value(name),
        }
    }

    fn constructed(&self) {
        self.parent_constructed();
        crate::add_pads(&*self.obj(), &[&self.source.pad], gst::ElementFlags::SOURCE);
    }
}

impl SourceImpl for TcpClientSrc {
    type Body = Receive;

    fn source(&self) -> &Source<Receive> {
        &self.source
    }

    fn acquire_context(&self) -> Result<Arc<Context>, gst::ErrorMessage> {
        Context::acquire(&self.settings, &*self.obj())
    }

    fn prepare_body(&self, context: &Arc<Context>) -> Result<Receive, gst::ErrorMessage> {
        let settings = &self.settings;
        let size = settings.get::<u32>("blocksize") as usize;
        let memory = context.memory(size).map_err(|error| {
            gst::error_msg!(
                gst::ResourceError::NoSpaceLeft,
                ["cannot allocate buffers: {error}"]
            )
        })?;
        Ok(Receive {
            element: self.obj().clone(),
            pad: self.source.pad.clone(),
            prelude: Prelude::new(settings.get("caps")),
            server: (settings.string("host"), settings.get::<i32>("port") as u16),
            timeout: Duration::from_millis(settings.get::<u32>("timeout").into()),
            framing: settings.get("framing"),
            connection: Connection::Closed,
            memory,
            spare: None,
            partial: Vec::new(),
            clock: Arc::clone(&self.clock),
            counters: Arc::clone(&self.counters),
        })
    }

    fn playing(&self) {
        self.clock.start(&*self.obj());
    }
}

type Connecting = Pin<Box<dyn Future<Output = io::Result<TcpStream>> + Send>>;

enum Connection {
    Closed,
    Connecting(Connecting),
    Open(TcpStream),
}

/// The body of the streaming task.
pub(crate) struct Receive {
    element: TcpClientSrcElement,
    pad: gst::Pad,
    prelude: Prelude,
    server: (String, u16),
    timeout: Duration,
    framing: Framing,
    connection: Connection,
    memory: gst::BufferPool,
    /// A buffer that nothing has been received into yet.
    spare: Option<gst::Buffer>,
    /// With framing, the received bytes that we have not pushed yet.
    partial: Vec<u8>,
    clock: Arc<PipelineClock>,
    counters: Arc<Counters>,
}

impl Body for Receive {
    fn poll_step(&mut self, cx: &mut Cx<'_>) -> Poll<Result<(), gst::FlowError>> {
        let has_packet = self.framing == Framing::Rfc4571 && self.has_packet();
        match &mut self.connection {
            Connection::Closed => {
                let connecting = connect(self.server.clone(), self.timeout);
                self.connection = Connection::Connecting(Box::pin(connecting));
                Poll::Ready(Ok(()))
            }
            Connection::Connecting(connecting) => {
                let connected = ready!(connecting.as_mut().poll(cx));
                Poll::Ready(match connected {
                    Ok(stream) => {
                        self.connection = Connection::Open(stream);
                        Ok(())
                    }
                    Err(error) => Err(self.report("cannot connect to", &error)),
                })
            }
            Connection::Open(_) if has_packet => Poll::Ready(self.push_packet()),
            Connection::Open(stream) => {
                let mut buffer = match self.spare.take() {
                    Some(buffer) => buffer,
                    None => self.memory.acquire_buffer(None)?,
                };
                let inner = buffer.get_mut().ok_or(gst::FlowError::Error)?;
                let mut map = inner.map_writable().map_err(|_| gst::FlowError::Error)?;
                let read = stream.poll_read(cx, map.as_mut_slice());
                drop(map);
                match read {
                    Poll::Pending => {
                        self.spare = Some(buffer);
                        Poll::Pending
                    }
                    Poll::Ready(Ok(0)) => Poll::Ready(Err(gst::FlowError::Eos)),
                    Poll::Ready(Ok(count)) => {
                        self.counters
                            .bytes
                            .fetch_add(count as u64, Ordering::Relaxed);
                        Poll::Ready(self.received(buffer, count))
                    }
                    Poll::Ready(Err(error)) => {
                        Poll::Ready(Err(self.report("cannot receive from", &error)))
                    }
                }
            }
        }
    }

    fn ended(&mut self, error: gst::FlowError) {
        self.prelude.push(&self.pad);
        // If the connection has failed, its error has already been reported, and the stream only
        // has to end.
        let error = match self.connection {
            Connection::Closed => gst::FlowError::Eos,
            _ => error,
        };
        self.connection = Connection::Closed;
        source::end(self.element.upcast_ref(), &self.pad, error);
    }

    fn flushed(&mut self) {
        self.prelude.flushed();
    }

    fn restarted(&mut self) {
        self.prelude.restarted();
        self.connection = Connection::Closed;
        self.partial.clear();
    }

    fn panicked(&mut self, message: &str) {
        source::report_panic(self.element.upcast_ref(), &self.pad, message);
    }
}

/// Connects to one of the addresses of a server.
async fn connect((host, port): (String, u16), timeout: Duration) -> io::Result<TcpStream> {
    let connecting = async {
        let addresses = creel::net::lookup_host((host, port)).await?;
        let mut last = io::Error::from(io::ErrorKind::NotFound);
        for address in addresses {
            match TcpStream::connect(address).await {
                Ok(stream) => return Ok(stream),
                Err(error) => last = error,
            }
        }
        Err(last)
    };
    if timeout.is_zero() {
        return connecting.await;
    }
    let within = creel::time::timeout(timeout, connecting).await;
    within.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
}

impl Receive {
    /// Reports an error of the connection, and closes it.
    fn report(&mut self, what: &str, error: &io::Error) -> gst::FlowError {
        let (host, port) = &self.server;
        gst::element_error!(
            self.element,
            gst::ResourceError::Read,
            ("{what} {host} port {port}: {error}")
        );
        self.connection = Connection::Closed;
        gst::FlowError::Error
    }

    /// Handles received bytes.
    fn received(&mut self, mut buffer: gst::Buffer, count: usize) -> Result<(), gst::FlowError> {
        if self.framing == Framing::Rfc4571 {
            let map = buffer.map_readable().map_err(|_| gst::FlowError::Error)?;
            self.partial.extend_from_slice(&map[..count]);
            drop(map);
            self.spare = Some(buffer);
            return Ok(());
        }
        buffer
            .get_mut()
            .ok_or(gst::FlowError::Error)?
            .set_size(count);
        self.push(buffer)
    }

    /// Returns the length of the first packet, once its two bytes have arrived.
    fn packet_len(&self) -> Option<usize> {
        let prefix = self.partial.first_chunk::<2>()?;
        Some(u16::from_be_bytes(*prefix).into())
    }

    fn has_packet(&self) -> bool {
        self.packet_len()
            .is_some_and(|len| self.partial.len() >= 2 + len)
    }

    /// Pushes the first packet, which has arrived completely.
    fn push_packet(&mut self) -> Result<(), gst::FlowError> {
        let len = self.packet_len().ok_or(gst::FlowError::Error)?;
        let buffer = gst::Buffer::from_slice(self.partial[2..2 + len].to_vec());
        self.partial.drain(..2 + len);
        self.push(buffer)
    }

    fn push(&mut self, mut buffer: gst::Buffer) -> Result<(), gst::FlowError> {
        let time = self.clock.running_time();
        let inner = buffer.get_mut().ok_or(gst::FlowError::Error)?;
        inner.set_pts(time);
        inner.set_dts(time);
        self.counters.buffers.fetch_add(1, Ordering::Relaxed);
        self.prelude.push(&self.pad);
        self.pad.push(buffer).map(drop)
    }
}
