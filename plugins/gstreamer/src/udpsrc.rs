//! `creel-udpsrc`: receives datagrams.
//!
//! One system call receives a batch of datagrams directly into the memory of buffers. A call offers
//! one buffer more than the last call has filled, or twice as many as before if that call has
//! filled all of them. It does not always offer the maximum, because preparing a buffer takes time.
//!
//! A buffer that was not filled stays with the thread, with its memory mapped, for the next call,
//! which is usually one of another element. If each element kept buffers of its own, thousands of
//! elements would need much memory, and a buffer would rarely be in the CPU's cache when a datagram
//! arrives.
//!
//! In a context with one thread, a call offers a single buffer as long as datagrams arrive one by
//! one. The poller of the context then finds out for all sockets at once which of them have more.
//! With several threads, each call offers at least two buffers, because a call with one buffer that
//! has filled it would have to be followed by a call that fails.

use creel::net::{DatagramInfo, UdpSocket};
use gst::glib;
use gst::prelude::*;
use gst::subclass::prelude::*;
use std::cell::RefCell;
use std::io::{self, IoSliceMut};
use std::net::{IpAddr, SocketAddr};
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock, Mutex, PoisonError};
use std::task::{Context as Cx, Poll};
use std::time::{Duration, SystemTime};

use crate::clock::PipelineClock;
use crate::context::{self, Context};
use crate::settings::Settings;
use crate::socket;
use crate::source::{self, Prelude, Source, SourceImpl};
use crate::stream::Body;

/// The maximum number of buffers that a call offers.
const SLOTS_MAX: usize = 32;

/// The number of errors in a row after which we wait, so that an error that does not go away cannot
/// occupy the thread.
const ERRORS_IN_A_ROW: u32 = 8;
const PAUSE_AFTER_ERRORS: Duration = Duration::from_millis(20);

static CAT: LazyLock<gst::DebugCategory> = LazyLock::new(|| {
    gst::DebugCategory::new(
        "creel-udpsrc",
        gst::DebugColorFlags::empty(),
        Some("Creel UDP source"),
    )
});

static PROPERTIES: LazyLock<Vec<glib::ParamSpec>> = LazyLock::new(|| {
    let mut all = context::properties();
    all.extend([
        glib::ParamSpecString::builder("address")
            .nick("Address")
            .blurb("Address to bind to. A multicast group is joined. `SOURCE@GROUP` joins it for the datagrams of one source only")
            .default_value(Some("0.0.0.0"))
            .mutable_ready()
            .build(),
        glib::ParamSpecInt::builder("port")
            .nick("Port")
            .blurb("Port to bind to. 0 lets the system choose one")
            .minimum(0)
            .maximum(u16::MAX.into())
            .default_value(5004)
            .mutable_ready()
            .build(),
        glib::ParamSpecBoolean::builder("reuse")
            .nick("Reuse")
            .blurb("Whether other sockets may use the same port")
            .default_value(true)
            .mutable_ready()
            .build(),
        glib::ParamSpecBoxed::builder::<gst::Caps>("caps")
            .nick("Caps")
            .blurb("Caps of the buffers")
            .mutable_ready()
            .build(),
        glib::ParamSpecUInt::builder("mtu")
            .nick("MTU")
            .blurb("Size of a buffer in bytes. A longer datagram is truncated")
            .minimum(1)
            .maximum(65_536)
            .default_value(1_492)
            .mutable_ready()
            .build(),
        glib::ParamSpecObject::builder::<gio::Socket>("socket")
            .nick("Socket")
            .blurb("Socket to use instead of a new one. The element uses a duplicate of it")
            .mutable_ready()
            .build(),
        glib::ParamSpecObject::builder::<gio::Socket>("used-socket")
            .nick("Used Socket")
            .blurb("A duplicate of the socket that is in use")
            .read_only()
            .build(),
        glib::ParamSpecBoolean::builder("retrieve-sender-address")
            .nick("Retrieve Sender Address")
            .blurb("Whether buffers have the address of their sender as GstNetAddressMeta")
            .default_value(true)
            .mutable_ready()
            .build(),
        glib::ParamSpecUInt::builder("buffer-size")
            .nick("Buffer Size")
            .blurb("Size of the kernel's receive buffer in bytes. 0 leaves the system's default")
            .maximum(i32::MAX as u32)
            .default_value(0)
            .mutable_ready()
            .build(),
        glib::ParamSpecBoolean::builder("loop")
            .nick("Loop")
            .blurb("Whether multicast datagrams that the socket sends return to this machine")
            .default_value(true)
            .mutable_ready()
            .build(),
        glib::ParamSpecString::builder("multicast-iface")
            .nick("Multicast Interface")
            .blurb("Interfaces on which to join a multicast group: names or addresses, separated by commas. By default, the system chooses one")
            .mutable_ready()
            .build(),
        glib::ParamSpecBoolean::builder("receive-times")
            .nick("Receive Times")
            .blurb("Whether the kernel reports when each datagram arrived. The time stamps of buffers follow it, and buffers have it as GstReferenceTimestampMeta with the caps timestamp/x-unix. Also counts the datagrams that the kernel drops")
            .default_value(false)
            .mutable_ready()
            .build(),
        crate::stats_property(),
    ]);
    all
});

/// The memory that all elements of a thread use in turn to receive datagrams.
struct Scratch {
    /// Buffers that no datagram has filled yet, by the pool from which they come. There is one pool
    /// for each size of buffer.
    spare: Vec<(gst::BufferPool, Vec<Spare>)>,
    infos: [DatagramInfo; SLOTS_MAX],
}

type Spare = gst::MappedBuffer<gst::buffer::Writable>;

thread_local! {
    static SCRATCH: RefCell<Scratch> = RefCell::new(Scratch {
        spare: Vec::new(),
        infos: [DatagramInfo::default(); SLOTS_MAX],
    });
}

impl Scratch {
    /// Returns at least `count` buffers of a pool, and the place for what is reported about the
    /// datagrams in them.
    fn prepare(
        &mut self,
        memory: &gst::BufferPool,
        count: usize,
    ) -> Result<(&mut Vec<Spare>, &mut [DatagramInfo; SLOTS_MAX]), gst::FlowError> {
        let known = self.spare.iter().position(|(pool, _)| pool == memory);
        let known = known.unwrap_or_else(|| {
            self.spare.push((memory.clone(), Vec::new()));
            self.spare.len() - 1
        });
        let spare = &mut self.spare[known].1;
        while spare.len() < count {
            let buffer = memory.acquire_buffer(None)?;
            let mapped = buffer.into_mapped_buffer_writable();
            spare.push(mapped.map_err(|_| gst::FlowError::Error)?);
        }
        Ok((spare, &mut self.infos))
    }
}

/// The counters of an element, which the property `stats` shows.
#[derive(Default)]
struct Counters {
    buffers: AtomicU64,
    bytes: AtomicU64,
    batches: AtomicU64,
    truncated: AtomicU64,
    errors: AtomicU64,
    dropped: AtomicU64,
}

pub struct UdpSrc {
    settings: Settings,
    source: Source<Receive>,
    counters: Arc<Counters>,
    clock: Arc<PipelineClock>,
    given: Mutex<Option<socket::Given>>,
    /// The socket that is in use.
    used: Mutex<Option<Arc<UdpSocket>>>,
}

crate::element!(UdpSrcElement, UdpSrc);
crate::source_element!(
    UdpSrc,
    "Creel UDP source",
    "Source/Network",
    "Receives datagrams in batches, on the threads of a context",
    gst::Caps::new_any()
);

#[glib::object_subclass]
impl ObjectSubclass for UdpSrc {
    const NAME: &'static str = "GstCreelUdpSrc";
    type Type = UdpSrcElement;
    type ParentType = gst::Element;

    fn with_class(class: &Self::Class) -> Self {
        Self {
            settings: Settings::new(&PROPERTIES),
            source: Source::new(source::pad::<Self>(class)),
            counters: Arc::default(),
            clock: Arc::default(),
            given: Mutex::default(),
            used: Mutex::default(),
        }
    }
}

impl ObjectImpl for UdpSrc {
    fn properties() -> &'static [glib::ParamSpec] {
        &PROPERTIES
    }

    fn set_property(&self, _id: usize, value: &glib::Value, spec: &glib::ParamSpec) {
        match spec.name() {
            "socket" => {
                let socket = value
                    .get::<Option<gio::Socket>>()
                    .expect("the type is a socket");
                *self.given.lock().unwrap_or_else(PoisonError::into_inner) =
                    socket.as_ref().map(socket::from_gio);
            }
            _ => self.settings.set(spec, value),
        }
    }

    fn property(&self, _id: usize, spec: &glib::ParamSpec) -> glib::Value {
        match spec.name() {
            "socket" => {
                let given = self.given.lock().unwrap_or_else(PoisonError::into_inner);
                let usable = given.as_ref().and_then(|given| given.as_ref().ok());
                socket::to_gio(usable.map(AsFd::as_fd)).to_value()
            }
            "used-socket" => {
                let used = self.used.lock().unwrap_or_else(PoisonError::into_inner);
                socket::to_gio(used.as_ref().map(|used| used.as_std().as_fd())).to_value()
            }
            // If the program has set port 0, we return the port that the system chose.
            "port" => {
                let used = self.used.lock().unwrap_or_else(PoisonError::into_inner);
                let bound = used.as_ref().and_then(|used| used.local_addr().ok());
                match bound {
                    Some(bound) => i32::from(bound.port()).to_value(),
                    None => self.settings.value("port"),
                }
            }
            "stats" => self.stats().to_value(),
            name => self.settings.value(name),
        }
    }

    fn constructed(&self) {
        self.parent_constructed();
        crate::add_pads(&*self.obj(), &[&self.source.pad], gst::ElementFlags::SOURCE);
    }
}

impl SourceImpl for UdpSrc {
    type Body = Receive;

    fn source(&self) -> &Source<Receive> {
        &self.source
    }

    fn acquire_context(&self) -> Result<Arc<Context>, gst::ErrorMessage> {
        Context::acquire(&self.settings, &*self.obj())
    }

    fn prepare_body(&self, context: &Arc<Context>) -> Result<Receive, gst::ErrorMessage> {
        let settings = &self.settings;
        let mtu = settings.get::<u32>("mtu") as usize;
        let socket = Arc::new(self.open().map_err(|error| {
            gst::error_msg!(
                gst::ResourceError::OpenRead,
                [
                    "cannot receive from {} port {}: {error}",
                    settings.string("address"),
                    settings.get::<i32>("port")
                ]
            )
        })?);
        let memory = context.memory(mtu).map_err(|error| {
            gst::error_msg!(
                gst::ResourceError::NoSpaceLeft,
                ["cannot allocate buffers: {error}"]
            )
        })?;
        *self.used.lock().unwrap_or_else(PoisonError::into_inner) = Some(Arc::clone(&socket));
        let slots_min = if context.workers() == 1 { 1 } else { 2 };
        Ok(Receive {
            element: self.obj().clone(),
            pad: self.source.pad.clone(),
            prelude: Prelude::new(settings.get("caps")),
            socket,
            memory,
            slots_min,
            slots: slots_min,
            follows: false,
            senders: settings
                .get::<bool>("retrieve-sender-address")
                .then_some(None),
            unix_caps: settings
                .get::<bool>("receive-times")
                .then(|| gst::Caps::new_empty_simple("timestamp/x-unix")),
            counters: Arc::clone(&self.counters),
            clock: Arc::clone(&self.clock),
            errors: 0,
            sleep: None,
        })
    }

    fn unprepared(&self) {
        self.used
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
    }

    fn playing(&self) {
        self.clock.start(&*self.obj());
    }
}

impl UdpSrc {
    fn stats(&self) -> gst::Structure {
        let of = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let mut stats = gst::Structure::builder("creel-udpsrc")
            .field("buffers", of(&self.counters.buffers))
            .field("bytes", of(&self.counters.bytes))
            .field("batches", of(&self.counters.batches))
            .field("truncated", of(&self.counters.truncated))
            .field("errors", of(&self.counters.errors))
            .field("dropped-by-kernel", of(&self.counters.dropped))
            .build();
        if let Some(context) = self.source.context() {
            context.describe(&mut stats);
        }
        stats
    }

    /// Opens and configures the socket.
    fn open(&self) -> io::Result<UdpSocket> {
        let settings = &self.settings;
        let given = self.given.lock().unwrap_or_else(PoisonError::into_inner);
        let socket = match &*given {
            Some(given) => socket::open_given(given)?,
            None => self.bind()?,
        };
        let socket = UdpSocket::from_std(socket)?;
        if let size @ 1.. = settings.get::<u32>("buffer-size") {
            let got = socket.set_recv_buffer(size as usize)?;
            if got < size as usize {
                gst::warning!(
                    CAT,
                    imp = self,
                    "the receive buffer has {got} bytes instead of {size}, because of net.core.rmem_max"
                );
            }
        }
        if settings.get("receive-times") {
            socket.set_arrival_info(true)?;
        }
        Ok(socket)
    }

    fn bind(&self) -> io::Result<std::net::UdpSocket> {
        let settings = &self.settings;
        let address = settings.string("address");
        let (only_from, address) = match address.split_once('@') {
            Some((source, group)) => (Some(socket::resolve(source)?), group),
            None => (None, address.as_str()),
        };
        let address = socket::resolve(address)?;
        let port = settings.get::<i32>("port") as u16;
        let socket = socket::bind(SocketAddr::new(address, port), settings.get("reuse"))?;
        if address.is_multicast() {
            let interfaces = settings.string("multicast-iface");
            socket::join(&socket, address, only_from, &interfaces)?;
        } else if only_from.is_some() {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                format!(
                    "{address} is not a multicast group, so that it cannot be joined for one source"
                ),
            ));
        }
        match address {
            IpAddr::V4(_) => socket.set_multicast_loop_v4(settings.get("loop"))?,
            IpAddr::V6(_) => socket.set_multicast_loop_v6(settings.get("loop"))?,
        }
        Ok(socket)
    }
}

/// The datagrams of one call.
enum Received {
    One(gst::Buffer),
    List(gst::BufferList),
}

impl Received {
    fn len(&self) -> usize {
        match self {
            Received::One(_) => 1,
            Received::List(list) => list.len(),
        }
    }
}

/// The body of the streaming task.
pub(crate) struct Receive {
    element: UdpSrcElement,
    pad: gst::Pad,
    prelude: Prelude,
    socket: Arc<UdpSocket>,
    memory: gst::BufferPool,
    /// The minimum number of buffers that a call offers.
    slots_min: usize,
    /// The number of buffers that the next call offers.
    slots: usize,
    /// Whether the last step has received datagrams, so that datagrams that the next call finds are
    /// of the same burst.
    follows: bool,
    /// The last sender and its address for GStreamer, or `None` if buffers have no address.
    senders: Option<Option<(SocketAddr, gio::InetSocketAddress)>>,
    /// The caps of the time of arrival, if buffers have it.
    unix_caps: Option<gst::Caps>,
    counters: Arc<Counters>,
    clock: Arc<PipelineClock>,
    /// The number of errors in a row.
    errors: u32,
    /// A pause after errors.
    sleep: Option<creel::time::Sleep>,
}

impl Body for Receive {
    fn poll_step(&mut self, cx: &mut Cx<'_>) -> Poll<Result<(), gst::FlowError>> {
        if let Some(sleep) = &mut self.sleep {
            std::task::ready!(std::pin::Pin::new(sleep).poll(cx));
            self.sleep = None;
        }
        let received = SCRATCH.with_borrow_mut(|scratch| self.poll_receive(cx, scratch));
        let follows = std::mem::replace(&mut self.follows, received.is_ready());
        let received = match std::task::ready!(received)? {
            Ok(received) => received,
            Err(error) => {
                self.count_error(&error);
                return Poll::Ready(Ok(()));
            }
        };
        self.errors = 0;
        let filled = received.len();
        self.slots = match filled {
            1 if self.slots > 1 || !follows => self.slots_min,
            _ if filled == self.slots => (self.slots * 2).min(SLOTS_MAX),
            _ => filled + 1,
        };
        self.prelude.push(&self.pad);
        Poll::Ready(match received {
            Received::One(buffer) => self.pad.push(buffer).map(drop),
            Received::List(list) => self.pad.push_list(list).map(drop),
        })
    }

    fn ended(&mut self, error: gst::FlowError) {
        self.prelude.push(&self.pad);
        source::end(self.element.upcast_ref(), &self.pad, error);
    }

    fn flushed(&mut self) {
        self.prelude.flushed();
    }

    fn restarted(&mut self) {
        self.prelude.restarted();
    }

    fn panicked(&mut self, message: &str) {
        source::report_panic(self.element.upcast_ref(), &self.pad, message);
    }
}

impl Receive {
    /// Receives datagrams into the last spare buffers. The first datagram goes into the last
    /// buffer, the second one into the buffer before it, and so on.
    fn poll_receive(
        &mut self,
        cx: &mut Cx<'_>,
        scratch: &mut Scratch,
    ) -> Poll<Result<io::Result<Received>, gst::FlowError>> {
        let (spare, infos) = scratch.prepare(&self.memory, self.slots)?;
        let mut memory: [_; SLOTS_MAX] = std::array::from_fn(|_| IoSliceMut::new(&mut []));
        for (memory, buffer) in memory.iter_mut().zip(spare.iter_mut().rev()) {
            *memory = IoSliceMut::new(buffer.as_mut_slice());
        }
        let memory = &mut memory[..self.slots];
        let filled = match std::task::ready!(self.socket.poll_recv_into(cx, memory, infos)) {
            Ok(filled) => filled,
            Err(error) => return Poll::Ready(Ok(Err(error))),
        };
        self.counters.batches.fetch_add(1, Ordering::Relaxed);
        let now = self.clock.running_time();
        let wall = self.unix_caps.is_some().then(SystemTime::now);
        let buffers = spare.drain(spare.len() - filled..).rev();
        let mut finished = buffers.zip(&infos[..filled]);
        let mut finish = |(buffer, info): (Spare, &DatagramInfo)| {
            self.finish(buffer.into_buffer(), info, now, wall)
        };
        Poll::Ready(
            if filled == 1
                && let Some(only) = finished.next()
            {
                finish(only).map(|buffer| Ok(Received::One(buffer)))
            } else {
                let mut list = gst::BufferList::new_sized(filled);
                let buffers = list.get_mut().expect("the list is new");
                finished
                    .try_for_each(|each| finish(each).map(|buffer| buffers.add(buffer)))
                    .map(|()| Ok(Received::List(list)))
            },
        )
    }

    /// Sets the size and the time stamps of a buffer with a datagram, and adds the sender and the
    /// time of arrival if the element has to report them.
    fn finish(
        &mut self,
        mut buffer: gst::Buffer,
        info: &DatagramInfo,
        now: Option<gst::ClockTime>,
        wall: Option<SystemTime>,
    ) -> Result<gst::Buffer, gst::FlowError> {
        let inner = buffer.get_mut().ok_or(gst::FlowError::Error)?;
        inner.set_size(info.len());
        let age = wall
            .zip(info.arrived())
            .map(|(now, then)| now.duration_since(then).unwrap_or_default());
        let age = age.map(|age| gst::ClockTime::from_nseconds(age.as_nanos() as u64));
        let time = now.map(|now| now.saturating_sub(age.unwrap_or_default()));
        inner.set_pts(time);
        inner.set_dts(time);
        if let Some(last) = &mut self.senders {
            let from = info.sender();
            let address = match last {
                Some((sender, address)) if *sender == from => address,
                _ => &last.insert((from, from.into())).1,
            };
            gst_net::NetAddressMeta::add(inner, address);
        }
        if let (Some(caps), Some(arrived)) = (&self.unix_caps, info.arrived()) {
            let since_1970 = arrived
                .duration_since(SystemTime::UNIX_EPOCH)
                .unwrap_or_default();
            let time = gst::ClockTime::from_nseconds(since_1970.as_nanos() as u64);
            gst::ReferenceTimestampMeta::add(inner, caps, time, gst::ClockTime::NONE);
        }
        let add = |counter: &AtomicU64, n| counter.fetch_add(n, Ordering::Relaxed);
        let counters = &self.counters;
        add(&counters.buffers, 1);
        add(&counters.bytes, info.len() as u64);
        if info.truncated() {
            add(&counters.truncated, 1);
        }
        if self.unix_caps.is_some() {
            counters
                .dropped
                .store(info.dropped().into(), Ordering::Relaxed);
        }
        Ok(buffer)
    }

    /// Counts an error of the socket. It does not end the stream, because it usually concerns one
    /// datagram only. For example, a socket that also sends gets an error when nothing received its
    /// datagram.
    fn count_error(&mut self, error: &io::Error) {
        self.counters.errors.fetch_add(1, Ordering::Relaxed);
        gst::debug!(CAT, obj = self.element, "cannot receive: {error}");
        self.errors += 1;
        if self.errors >= ERRORS_IN_A_ROW {
            self.errors = 0;
            self.sleep = Some(creel::time::sleep(PAUSE_AFTER_ERRORS));
        }
    }
}
