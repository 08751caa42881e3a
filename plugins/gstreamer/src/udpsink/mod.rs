//! `creel-udpsink`: sends buffers as datagrams to any number of receivers.
//!
//! A buffer, or a list of buffers, is sent to all receivers of an IP version with few system calls,
//! each of which sends up to 64 messages. If the socket's buffer is full, the stream that brought
//! the buffer waits. If a receiver cannot be reached, its datagram is counted, and the others are
//! sent.

mod properties;
mod sending;

use creel::net::UdpSocket;
use gst::glib;
use gst::prelude::*;
use gst::subclass::prelude::*;
use socket2::SockRef;
use std::io;
use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};

use crate::context::Context;
use crate::fifo::Item;
use crate::gate::{self, Gate, Gated};
use crate::settings::Settings;
use crate::socket;
use properties::PROPERTIES;
use sending::{Sending, parse_clients};

static CAT: LazyLock<gst::DebugCategory> = LazyLock::new(|| {
    gst::DebugCategory::new(
        "creel-udpsink",
        gst::DebugColorFlags::empty(),
        Some("Creel UDP sink"),
    )
});

#[derive(Default)]
struct Counters {
    buffers: AtomicU64,
    datagrams: AtomicU64,
    bytes: AtomicU64,
    failed: AtomicU64,
}

pub struct UdpSink {
    settings: Settings,
    sink: gst::Pad,
    gate: Gate,
    sending: Mutex<Sending>,
    counters: Counters,
    context: Mutex<Option<Arc<Context>>>,
    given: Mutex<[Option<socket::Given>; 2]>,
    /// Whether buffers wait for the clock. This is a copy of the property, because we read it for
    /// each buffer.
    sync: AtomicBool,
    /// Whether the pad is inactive or flushing, so that a thread must not wait for the socket.
    closed: AtomicBool,
}

crate::element!(UdpSinkElement, UdpSink);

#[glib::object_subclass]
impl ObjectSubclass for UdpSink {
    const NAME: &'static str = "GstCreelUdpSink";
    type Type = UdpSinkElement;
    type ParentType = gst::Element;

    fn with_class(class: &Self::Class) -> Self {
        let template = class
            .pad_template("sink")
            .expect("the class has this template");
        let sink = gst::Pad::builder_from_template(&template)
            .activatemode_function(|_, parent, _, active| {
                UdpSink::catch_panic_pad_function(
                    parent,
                    || Err(gst::loggable_error!(CAT, "the activation panicked")),
                    |sink| {
                        sink.activate(active);
                        Ok(())
                    },
                )
            })
            .chain_function(|_, parent, buffer| {
                UdpSink::catch_panic_pad_function(
                    parent,
                    || Err(gst::FlowError::Error),
                    |sink| Gate::handle(sink, Item::Buffer(buffer), sink.syncs()),
                )
            })
            .chain_list_function(|_, parent, list| {
                UdpSink::catch_panic_pad_function(
                    parent,
                    || Err(gst::FlowError::Error),
                    |sink| sink.chain_list(list),
                )
            })
            .event_full_function(|_, parent, event| {
                UdpSink::catch_panic_pad_function(
                    parent,
                    || Err(gst::FlowError::Error),
                    |sink| {
                        if let gst::EventView::FlushStart(_) = event.view() {
                            sink.closed.store(true, Ordering::SeqCst);
                        } else if let gst::EventView::FlushStop(_) = event.view() {
                            sink.closed.store(false, Ordering::SeqCst);
                        }
                        gate::sink_event(sink, event)
                    },
                )
            })
            .build();
        Self {
            settings: Settings::new(&PROPERTIES),
            sink,
            gate: Gate::default(),
            sending: Mutex::default(),
            counters: Counters::default(),
            context: Mutex::default(),
            given: Mutex::default(),
            sync: AtomicBool::new(true),
            closed: AtomicBool::new(true),
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl ObjectImpl for UdpSink {
    fn properties() -> &'static [glib::ParamSpec] {
        &PROPERTIES
    }

    fn signals() -> &'static [glib::subclass::Signal] {
        static SIGNALS: LazyLock<[glib::subclass::Signal; 3]> = LazyLock::new(|| {
            let of = |name| {
                glib::subclass::Signal::builder(name)
                    .param_types([String::static_type(), i32::static_type()])
                    .action()
            };
            let client = |values: &[glib::Value]| {
                let sink = values[0]
                    .get::<UdpSinkElement>()
                    .expect("the element emits it");
                let host = values[1].get::<String>().expect("the signal has a host");
                let port = values[2].get::<i32>().expect("the signal has a port");
                (sink, host, port)
            };
            [
                of("add")
                    .class_handler(move |values| {
                        let (sink, host, port) = client(values);
                        sink.imp().add(&host, port);
                        None
                    })
                    .build(),
                of("remove")
                    .class_handler(move |values| {
                        let (sink, host, port) = client(values);
                        sink.imp().remove(&host, port);
                        None
                    })
                    .build(),
                glib::subclass::Signal::builder("clear")
                    .action()
                    .class_handler(|values| {
                        let sink = values[0]
                            .get::<UdpSinkElement>()
                            .expect("the element emits it");
                        sink.imp().set_clients(Vec::new());
                        None
                    })
                    .build(),
            ]
        });
        &*SIGNALS
    }

    fn set_property(&self, _id: usize, value: &glib::Value, spec: &glib::ParamSpec) {
        match spec.name() {
            name @ ("socket" | "socket-v6") => {
                let socket = value
                    .get::<Option<gio::Socket>>()
                    .expect("the type is a socket");
                lock(&self.given)[usize::from(name == "socket-v6")] =
                    socket.as_ref().map(socket::from_gio);
            }
            "clients" => {
                let list = value.get::<Option<String>>().expect("the type is a string");
                self.set_clients(parse_clients(self, &list.unwrap_or_default()));
            }
            name => {
                self.settings.set(spec, value);
                if name == "sync" {
                    self.sync
                        .store(self.settings.get("sync"), Ordering::Relaxed);
                }
            }
        }
    }

    fn property(&self, _id: usize, spec: &glib::ParamSpec) -> glib::Value {
        let fd = |socket: &Option<Arc<UdpSocket>>| {
            socket::to_gio(socket.as_ref().map(|socket| socket.as_std().as_fd())).to_value()
        };
        match spec.name() {
            name @ ("socket" | "socket-v6") => {
                let given = &lock(&self.given)[usize::from(name == "socket-v6")];
                let usable = given.as_ref().and_then(|given| given.as_ref().ok());
                socket::to_gio(usable.map(AsFd::as_fd)).to_value()
            }
            "used-socket" => fd(&lock(&self.sending).v4),
            "used-socket-v6" => fd(&lock(&self.sending).v6),
            "clients" => {
                let clients: Vec<_> = lock(&self.sending)
                    .clients
                    .iter()
                    .map(SocketAddr::to_string)
                    .collect();
                clients.join(",").to_value()
            }
            "stats" => self.stats().to_value(),
            name => self.settings.value(name),
        }
    }

    fn constructed(&self) {
        self.parent_constructed();
        crate::add_pads(&*self.obj(), &[&self.sink], gst::ElementFlags::SINK);
    }
}

impl GstObjectImpl for UdpSink {}

impl ElementImpl for UdpSink {
    fn metadata() -> Option<&'static gst::subclass::ElementMetadata> {
        static METADATA: LazyLock<gst::subclass::ElementMetadata> = LazyLock::new(|| {
            gst::subclass::ElementMetadata::new(
                "Creel UDP sink",
                "Sink/Network",
                "Sends buffers as datagrams to many receivers with one system call",
                crate::AUTHOR,
            )
        });
        Some(&METADATA)
    }

    fn pad_templates() -> &'static [gst::PadTemplate] {
        static TEMPLATES: LazyLock<[gst::PadTemplate; 1]> =
            LazyLock::new(|| [crate::sink_template(&gst::Caps::new_any())]);
        &*TEMPLATES
    }

    fn change_state(
        &self,
        transition: gst::StateChange,
    ) -> Result<gst::StateChangeSuccess, gst::StateChangeError> {
        match transition {
            gst::StateChange::NullToReady => self.prepare().map_err(|error| {
                self.post_error_message(error);
                gst::StateChangeError
            })?,
            gst::StateChange::PausedToPlaying => {
                let element = self.obj();
                self.gate.play(element.clock().zip(element.base_time()));
            }
            gst::StateChange::PlayingToPaused => self.gate.pause(),
            _ => {}
        }
        let changed = self.parent_change_state(transition);
        if transition == gst::StateChange::ReadyToNull {
            let mut sending = lock(&self.sending);
            (sending.v4, sending.v6) = (None, None);
            sending.out_v4.clear();
            sending.out_v6.clear();
            drop(sending);
            let context = lock(&self.context).take();
            drop(context);
        }
        changed
    }

    fn send_event(&self, event: gst::Event) -> bool {
        if let gst::EventView::Latency(event) = event.view() {
            self.gate.set_latency(event.latency());
        }
        self.parent_send_event(event)
    }
}

impl Gated for UdpSink {
    fn gate(&self) -> &Gate {
        &self.gate
    }

    fn pass(&self, item: Item) -> Result<gst::FlowSuccess, gst::FlowError> {
        match item {
            Item::Buffer(buffer) => self.send([&*buffer]),
            Item::List(list) => self.send(list.iter()),
            Item::Event(event) => {
                if let gst::EventView::Eos(eos) = event.view() {
                    let element = self.obj();
                    let message = gst::message::Eos::builder()
                        .src(&*element)
                        .seqnum(eos.seqnum());
                    let _ = element.post_message(message.build());
                }
                Ok(gst::FlowSuccess::Ok)
            }
        }
    }
}

impl UdpSink {
    fn syncs(&self) -> bool {
        self.sync.load(Ordering::Relaxed)
    }

    /// Sends the buffers of a list together, unless each of them has to wait for its time.
    fn chain_list(&self, list: gst::BufferList) -> Result<gst::FlowSuccess, gst::FlowError> {
        if !self.syncs() {
            return Gate::handle(self, Item::List(list), false);
        }
        for buffer in list.iter_owned() {
            Gate::handle(self, Item::Buffer(buffer), true)?;
        }
        Ok(gst::FlowSuccess::Ok)
    }

    fn activate(&self, active: bool) {
        self.closed.store(!active, Ordering::SeqCst);
        match active {
            true => self.gate.open(),
            false => self.gate.close(),
        }
    }

    fn stats(&self) -> gst::Structure {
        let of = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let mut stats = gst::Structure::builder("creel-udpsink")
            .field("buffers", of(&self.counters.buffers))
            .field("datagrams", of(&self.counters.datagrams))
            .field("bytes", of(&self.counters.bytes))
            .field("failed", of(&self.counters.failed))
            .field("clients", lock(&self.sending).clients.len() as u64)
            .build();
        if let Some(context) = &*lock(&self.context) {
            context.describe(&mut stats);
        }
        stats
    }

    fn prepare(&self) -> Result<(), gst::ErrorMessage> {
        let context = Context::acquire(&self.settings, &*self.obj())?;
        let error = |family: &str, error: io::Error| {
            gst::error_msg!(
                gst::ResourceError::OpenWrite,
                ["cannot send with {family}: {error}"]
            )
        };
        let v4 = self.open(0).map_err(|e| error("IPv4", e))?;
        let v6 = match self.open(1) {
            Ok(socket) => Some(socket),
            Err(e) if lock(&self.given)[1].is_some() => return Err(error("IPv6", e)),
            // Many machines have no IPv6. The element then sends to IPv4 receivers only.
            Err(e) => {
                gst::info!(CAT, imp = self, "cannot send with IPv6: {e}");
                None
            }
        };
        let mut sending = lock(&self.sending);
        (sending.v4, sending.v6) = (Some(Arc::new(v4)), v6.map(Arc::new));
        for client in &sending.clients {
            self.membership(&sending, *client, true);
        }
        drop(sending);
        *lock(&self.context) = Some(context);
        Ok(())
    }

    /// Opens the socket for IPv4 (0) or IPv6 (1).
    fn open(&self, family: usize) -> io::Result<UdpSocket> {
        let settings = &self.settings;
        let v6 = family == 1;
        let suffix = if v6 { "-v6" } else { "" };
        let socket = match &lock(&self.given)[family] {
            Some(given) => socket::open_given(given)?,
            None => {
                let address = socket::resolve(&settings.string(&format!("bind-address{suffix}")))?;
                let port = settings.get::<i32>(&format!("bind-port{suffix}")) as u16;
                socket::bind(
                    SocketAddr::new(address, port),
                    port > 0 && settings.get("reuse"),
                )?
            }
        };
        let options = SockRef::from(&socket);
        let ttl = |name| settings.get::<u32>(name);
        let dscp = settings.get::<i32>("qos-dscp");
        if v6 {
            options.set_unicast_hops_v6(ttl("ttl").max(1))?;
            options.set_multicast_hops_v6(ttl("ttl-mc"))?;
            options.set_multicast_loop_v6(settings.get("loop"))?;
        } else {
            options.set_ttl_v4(ttl("ttl").max(1))?;
            options.set_multicast_ttl_v4(ttl("ttl-mc"))?;
            options.set_multicast_loop_v4(settings.get("loop"))?;
        }
        if dscp >= 0 {
            // The two low bits belong to congestion notification.
            let byte = (dscp as u32) << 2;
            match v6 {
                true => options.set_tclass_v6(byte)?,
                false => options.set_tos_v4(byte)?,
            }
        }
        socket::send_through(&socket, v6, &settings.string("multicast-iface"))?;
        UdpSocket::from_std(socket)
    }
}
