//! `creel-proxysink`, `creel-proxysrc`, `creel-intersink` and `creel-intersrc`: connections between
//! pipelines.
//!
//! A proxy connects one sink with one source. Events and queries pass through it in both
//! directions. An inter connection has one sink and any number of sources, which come and go, and
//! which do not affect each other. One macro defines the elements of both kinds.

use gst::glib;
use gst::prelude::*;
use gst::subclass::prelude::*;
use std::sync::atomic::{AtomicPtr, AtomicU64};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};

use crate::context::{self, Context};
use crate::fifo::{Fifo, Item, Leaky};
use crate::hub::{Hub, Hubs, Kind, Receiver};
use crate::queue::{self, Forward, limits, limits_of};
use crate::settings::Settings;
use crate::source::{self, Source};

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns the property with the name of the connection. A source may change its connection while
/// it plays.
fn name_property(name: &str, of_source: bool) -> glib::ParamSpec {
    let property = glib::ParamSpecString::builder(name)
        .nick("Connection")
        .blurb("Name of the connection. The sink and the sources have the same name")
        .default_value(Some(""));
    match of_source {
        true => property.mutable_playing().build(),
        false => property.mutable_ready().build(),
    }
}

/// Returns the properties of a source.
fn source_properties(name: &str, leaky: Leaky) -> Vec<glib::ParamSpec> {
    let current = |name: &str, blurb: &str| {
        glib::ParamSpecUInt::builder(name)
            .nick(name)
            .blurb(blurb)
            .read_only()
            .build()
    };
    let mut all = context::properties();
    all.extend(limits());
    all.extend([
        name_property(name, true),
        glib::ParamSpecEnum::builder_with_default("leaky", leaky)
            .nick("Leaky")
            .blurb("Which buffers the source drops, if any, when its limits are reached")
            .mutable_playing()
            .build(),
        current(
            "current-level-buffers",
            "Number of buffers that wait in the source",
        ),
        current(
            "current-level-bytes",
            "Number of bytes that wait in the source",
        ),
        glib::ParamSpecUInt64::builder("current-level-time")
            .nick("Current Level Time")
            .blurb("Time that waits in the source, in ns")
            .read_only()
            .build(),
        crate::stats_property(),
    ]);
    all
}

/// Changes the state of a source's receiver.
fn change_receiver(
    transition: gst::StateChange,
    element: &gst::Element,
    settings: &Settings,
    hub: &Mutex<Option<Arc<Hub>>>,
    receiver: &Arc<Receiver>,
    (hubs, name): (&Hubs, &str),
) -> Result<(), gst::ErrorMessage> {
    match transition {
        gst::StateChange::NullToReady => {
            let context = Context::acquire(settings, element)?;
            let name = settings.string(name);
            let found = Hub::acquire(hubs, &name);
            if !found.connect(receiver) {
                return Err(gst::error_msg!(
                    gst::ResourceError::Busy,
                    ["the connection `{name}` already has a source"]
                ));
            }
            let mut body = Forward::new(element, &receiver.source.pad, &receiver.fifo);
            if found.kind == Kind::Broadcast {
                body = body.that_reports_errors();
            }
            *lock(hub) = Some(found);
            receiver.source.prepare(context, body);
            receiver.source.stream.run();
        }
        gst::StateChange::ReadyToNull => {
            if let Some(hub) = lock(hub).take() {
                hub.disconnect(receiver);
            }
            receiver.source.unprepare();
        }
        _ => {}
    }
    Ok(())
}

/// Moves a source to the connection with this name, and flushes the source. Does nothing if the
/// source has no connection yet. If the source's own stream makes the change, it still has an item
/// in hand, which needs the current segment. Therefore only the source's queue is emptied.
fn change_connection(
    element: &gst::Element,
    hub: &Mutex<Option<Arc<Hub>>>,
    receiver: &Arc<Receiver>,
    (hubs, name): (&Hubs, &str),
) {
    let new = Hub::acquire(hubs, name);
    let is_other = |old: &Arc<Hub>| !Arc::ptr_eq(old, &new);
    if !lock(hub).as_ref().is_some_and(is_other) {
        return;
    }
    let Receiver { fifo, source, .. } = &**receiver;
    let flushes = !source.stream.is_current();
    if flushes && source.pad.is_active() {
        // This waits for the streaming task, which may need the lock of the hub.
        queue::flush_start(fifo, source, gst::event::FlushStart::new());
    }
    // Another thread may have changed the connection or the state meanwhile. If the element has no
    // connection any more, it must not get one.
    let mut connected = true;
    if let Some(old) = lock(hub).as_mut().filter(|old| is_other(old)) {
        old.disconnect(receiver);
        connected = new.connect(receiver);
        *old = new;
    }
    if source.pad.is_active() {
        let stop = gst::event::FlushStop::new(false);
        start_again(receiver, flushes.then_some(stop));
    }
    let message = match connected {
        true => gst::message::Latency::builder().src(element).build(),
        false => {
            let text = format!("the connection `{name}` already has a source");
            let error = gst::message::Error::builder(gst::ResourceError::Busy, &text);
            error.src(element).build()
        }
    };
    // A bus that is flushing refuses the message, and nobody waits for it then.
    let _ = element.post_message(message);
}

/// Empties the queue of a receiver and starts it again, after the end of a flush if there is one.
/// The receiver then gets the sticky events of the sink again.
fn start_again(receiver: &Receiver, flush_stop: Option<gst::Event>) {
    let Receiver { fifo, source, .. } = receiver;
    if let Some(flush_stop) = flush_stop {
        source.stream.wait_for_step();
        fifo.clear();
        source.flush_stop(flush_stop);
    }
    fifo.start();
    // If the pad was deactivated meanwhile, nobody takes from the queue any more.
    if !source.pad.is_active() {
        fifo.close(gst::FlowError::Flushing);
    }
}

/// Answers a query to the source of a connection.
fn source_query(
    pad: &gst::Pad,
    parent: Option<&gst::Object>,
    query: &mut gst::QueryRef,
    hub: Option<Arc<Hub>>,
) -> bool {
    let sink = hub.and_then(|hub| hub.sink());
    if let gst::QueryViewMut::Latency(query) = query.view_mut() {
        let upstream = sink.is_some_and(|sink| sink.peer_query(query));
        // Without a sink, we answer like a live source, because buffers only come once a sink has
        // joined the connection.
        let (live, min, max) = match upstream {
            true => query.result(),
            false => (true, gst::ClockTime::ZERO, None),
        };
        // The quantum of the context adds no latency, as in a queue.
        query.set(live, min, max);
        return true;
    }
    match query.type_() {
        gst::QueryType::Position | gst::QueryType::Duration | gst::QueryType::Seeking => {
            sink.is_some_and(|sink| sink.peer_query(query))
        }
        _ => gst::Pad::query_default(pad, parent, query),
    }
}

/// Defines the two elements of a kind of connection.
macro_rules! bridge {
    (
        $sink:ident, $sink_element:ident, $sink_name:literal, $sink_title:literal,
        $src:ident, $src_element:ident, $src_name:literal, $src_title:literal,
        $hubs:ident, $property:literal, $kind:expr, $leaky:expr
    ) => {
        static $hubs: LazyLock<Hubs> = LazyLock::new(|| Hubs::new($kind));

        pub struct $sink {
            settings: Settings,
            pad: gst::Pad,
            hub: Mutex<Option<Arc<Hub>>>,
        }

        crate::element!($sink_element, $sink);

        #[glib::object_subclass]
        impl ObjectSubclass for $sink {
            const NAME: &'static str = $sink_name;
            type Type = $sink_element;
            type ParentType = gst::Element;

            fn with_class(class: &Self::Class) -> Self {
                static PROPERTIES: LazyLock<[glib::ParamSpec; 1]> =
                    LazyLock::new(|| [name_property($property, false)]);
                let template = class
                    .pad_template("sink")
                    .expect("the class has this template");
                let failed = || Err(gst::FlowError::Error);
                let pad = gst::Pad::builder_from_template(&template)
                    .chain_function(move |pad, parent, buffer| {
                        $sink::catch_panic_pad_function(parent, failed, |sink| {
                            sink.send(pad, Item::Buffer(buffer))
                        })
                    })
                    .chain_list_function(move |pad, parent, list| {
                        $sink::catch_panic_pad_function(parent, failed, |sink| {
                            sink.send(pad, Item::List(list))
                        })
                    })
                    .event_full_function(move |pad, parent, event| {
                        $sink::catch_panic_pad_function(parent, failed, |sink| {
                            sink.event(pad, event)
                        })
                    })
                    .build();
                Self {
                    settings: Settings::new(&*PROPERTIES),
                    pad,
                    hub: Mutex::default(),
                }
            }
        }

        impl ObjectImpl for $sink {
            fn properties() -> &'static [glib::ParamSpec] {
                static PROPERTIES: LazyLock<[glib::ParamSpec; 1]> =
                    LazyLock::new(|| [name_property($property, false)]);
                &*PROPERTIES
            }

            fn set_property(&self, _id: usize, value: &glib::Value, spec: &glib::ParamSpec) {
                self.settings.set(spec, value);
            }

            fn property(&self, _id: usize, spec: &glib::ParamSpec) -> glib::Value {
                self.settings.value(spec.name())
            }

            fn constructed(&self) {
                self.parent_constructed();
                crate::add_pads(&*self.obj(), &[&self.pad], gst::ElementFlags::SINK);
            }
        }

        impl GstObjectImpl for $sink {}

        impl ElementImpl for $sink {
            fn metadata() -> Option<&'static gst::subclass::ElementMetadata> {
                static METADATA: LazyLock<gst::subclass::ElementMetadata> = LazyLock::new(|| {
                    gst::subclass::ElementMetadata::new(
                        concat!("Creel ", $sink_title),
                        "Sink/Generic",
                        concat!("Passes data to ", $src_title),
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
                if transition == gst::StateChange::NullToReady {
                    let name = self.settings.string($property);
                    let hub = Hub::acquire(&$hubs, &name);
                    if !hub.connect_sink(&self.pad) {
                        self.post_error_message(gst::error_msg!(
                            gst::ResourceError::Busy,
                            ["the connection `{name}` already has a sink"]
                        ));
                        return Err(gst::StateChangeError);
                    }
                    *lock(&self.hub) = Some(hub);
                }
                if let Some(hub) = self.hub() {
                    match transition {
                        gst::StateChange::ReadyToPaused => hub.stop(false),
                        gst::StateChange::PausedToReady => hub.stop(true),
                        _ => {}
                    }
                }
                let changed = self.parent_change_state(transition);
                if transition == gst::StateChange::ReadyToNull
                    && let Some(hub) = lock(&self.hub).take()
                {
                    hub.disconnect_sink();
                }
                changed
            }
        }

        impl $sink {
            fn hub(&self) -> Option<Arc<Hub>> {
                lock(&self.hub).clone()
            }

            fn send(&self, pad: &gst::Pad, item: Item) -> Result<gst::FlowSuccess, gst::FlowError> {
                let hub = self.hub().ok_or(gst::FlowError::Flushing)?;
                hub.send(pad, &item)
            }

            fn event(
                &self,
                pad: &gst::Pad,
                event: gst::Event,
            ) -> Result<gst::FlowSuccess, gst::FlowError> {
                let hub = self.hub().ok_or(gst::FlowError::Flushing)?;
                match event.view() {
                    gst::EventView::FlushStart(_) | gst::EventView::FlushStop(_) => {
                        hub.flush(&event);
                        return Ok(gst::FlowSuccess::Ok);
                    }
                    gst::EventView::Eos(eos) => {
                        let element = self.obj();
                        let message = gst::message::Eos::builder().src(&*element);
                        let _ = element.post_message(message.seqnum(eos.seqnum()).build());
                    }
                    _ => {}
                }
                let is_eos = event.type_() == gst::EventType::Eos;
                let sent = hub.send(pad, &Item::Event(event));
                if let (true, Err(error)) = (is_eos, sent) {
                    // No further buffer can return the error to the sender.
                    source::report(self.obj().upcast_ref(), error);
                }
                Ok(gst::FlowSuccess::Ok)
            }
        }

        pub struct $src {
            settings: Settings,
            receiver: Arc<Receiver>,
            hub: Mutex<Option<Arc<Hub>>>,
        }

        crate::element!($src_element, $src);

        #[glib::object_subclass]
        impl ObjectSubclass for $src {
            const NAME: &'static str = $src_name;
            type Type = $src_element;
            type ParentType = gst::Element;

            fn with_class(class: &Self::Class) -> Self {
                let template = class
                    .pad_template("src")
                    .expect("the class has this template");
                let pad = gst::Pad::builder_from_template(&template)
                    .activatemode_function(|_, parent, _, active| {
                        $src::catch_panic_pad_function(
                            parent,
                            || {
                                Err(gst::loggable_error!(
                                    gst::CAT_RUST,
                                    "the activation panicked"
                                ))
                            },
                            |src| {
                                src.activate(active);
                                Ok(())
                            },
                        )
                    })
                    .event_function(|_, parent, event| {
                        $src::catch_panic_pad_function(parent, || false, |src| src.event(event))
                    })
                    .query_function(|pad, parent, query| {
                        $src::catch_panic_pad_function(
                            parent,
                            || false,
                            |src| {
                                let hub = lock(&src.hub).clone();
                                source_query(pad, parent, query, hub)
                            },
                        )
                    })
                    .build();
                let settings = Settings::new(<Self as ObjectImpl>::properties());
                let fifo = Fifo::new(limits_of(&settings));
                fifo.configure(limits_of(&settings), $leaky);
                let receiver = Arc::new(Receiver {
                    fifo,
                    source: Source::new(pad),
                    joined: AtomicU64::new(0),
                    hub: AtomicPtr::default(),
                });
                Self {
                    settings,
                    receiver,
                    hub: Mutex::default(),
                }
            }
        }

        impl ObjectImpl for $src {
            fn properties() -> &'static [glib::ParamSpec] {
                static PROPERTIES: LazyLock<Vec<glib::ParamSpec>> =
                    LazyLock::new(|| source_properties($property, $leaky));
                &PROPERTIES
            }

            fn set_property(&self, _id: usize, value: &glib::Value, spec: &glib::ParamSpec) {
                self.settings.set(spec, value);
                let leaky = self.settings.get("leaky");
                self.receiver
                    .fifo
                    .configure(limits_of(&self.settings), leaky);
                if spec.name() == $property {
                    let name = self.settings.string($property);
                    change_connection(
                        self.obj().upcast_ref(),
                        &self.hub,
                        &self.receiver,
                        (&$hubs, &name),
                    );
                }
            }

            fn property(&self, _id: usize, spec: &glib::ParamSpec) -> glib::Value {
                let fifo = &self.receiver.fifo;
                match spec.name() {
                    "current-level-buffers" => fifo.level().buffers.to_value(),
                    "current-level-bytes" => fifo.level().bytes.to_value(),
                    "current-level-time" => fifo.level().time.nseconds().to_value(),
                    "stats" => {
                        let mut stats = gst::Structure::builder("creel-connection")
                            .field("dropped", fifo.dropped())
                            .build();
                        if let Some(context) = self.receiver.source.context() {
                            context.describe(&mut stats);
                        }
                        stats.to_value()
                    }
                    name => self.settings.value(name),
                }
            }

            fn constructed(&self) {
                self.parent_constructed();
                crate::add_pads(
                    &*self.obj(),
                    &[&self.receiver.source.pad],
                    gst::ElementFlags::SOURCE,
                );
            }
        }

        impl GstObjectImpl for $src {}

        impl ElementImpl for $src {
            fn metadata() -> Option<&'static gst::subclass::ElementMetadata> {
                static METADATA: LazyLock<gst::subclass::ElementMetadata> = LazyLock::new(|| {
                    gst::subclass::ElementMetadata::new(
                        concat!("Creel ", $src_title),
                        "Source/Generic",
                        concat!("Receives data from ", $sink_title),
                        crate::AUTHOR,
                    )
                });
                Some(&METADATA)
            }

            fn pad_templates() -> &'static [gst::PadTemplate] {
                static TEMPLATES: LazyLock<[gst::PadTemplate; 1]> =
                    LazyLock::new(|| [crate::src_template(&gst::Caps::new_any())]);
                &*TEMPLATES
            }

            fn change_state(
                &self,
                transition: gst::StateChange,
            ) -> Result<gst::StateChangeSuccess, gst::StateChangeError> {
                let element = self.obj();
                let mut changed = Ok(gst::StateChangeSuccess::Success);
                if transition != gst::StateChange::NullToReady {
                    changed = self.parent_change_state(transition);
                }
                change_receiver(
                    transition,
                    element.upcast_ref(),
                    &self.settings,
                    &self.hub,
                    &self.receiver,
                    (&$hubs, $property),
                )
                .map_err(|error| {
                    self.post_error_message(error);
                    gst::StateChangeError
                })?;
                match transition {
                    gst::StateChange::NullToReady => self.parent_change_state(transition),
                    gst::StateChange::ReadyToPaused | gst::StateChange::PlayingToPaused => {
                        // As a live source does, we report that there is no preroll, because the
                        // other pipeline decides when buffers come.
                        changed.map(|_| gst::StateChangeSuccess::NoPreroll)
                    }
                    _ => changed,
                }
            }
        }

        impl $src {
            fn activate(&self, active: bool) {
                let receiver = &self.receiver;
                if active {
                    receiver.source.stream.activate(true);
                    receiver.fifo.start();
                } else {
                    receiver.fifo.close(gst::FlowError::Flushing);
                    receiver.source.stream.activate(false);
                    receiver.fifo.clear();
                }
            }

            fn event(&self, event: gst::Event) -> bool {
                let Some(hub) = lock(&self.hub).clone() else {
                    return event.type_() == gst::EventType::Reconfigure;
                };
                if event.type_() == gst::EventType::Reconfigure {
                    if queue::relinked(&self.receiver.fifo, &self.receiver.source)
                        && hub.kind == Kind::Broadcast
                    {
                        // The error has ended the stream, so a new one must begin.
                        start_again(&self.receiver, None);
                    }
                    return true;
                }
                if hub.kind == Kind::Broadcast {
                    match event.view() {
                        gst::EventView::FlushStart(_) => {
                            queue::flush_start(&self.receiver.fifo, &self.receiver.source, event);
                            return true;
                        }
                        gst::EventView::FlushStop(_) => {
                            start_again(&self.receiver, Some(event));
                            return true;
                        }
                        // These would change what the other receivers get.
                        gst::EventView::Seek(_) | gst::EventView::Step(_) => return false,
                        gst::EventView::Qos(_) | gst::EventView::Latency(_) => return true,
                        _ => {}
                    }
                }
                hub.sink().is_some_and(|sink| sink.push_event(event))
            }
        }
    };
}

bridge!(
    ProxySink,
    ProxySinkElement,
    "GstCreelProxySink",
    "proxy sink",
    ProxySrc,
    ProxySrcElement,
    "GstCreelProxySrc",
    "proxy source",
    PROXIES,
    "proxy-context",
    Kind::Pair,
    Leaky::No
);
bridge!(
    InterSink,
    InterSinkElement,
    "GstCreelInterSink",
    "inter sink",
    InterSrc,
    InterSrcElement,
    "GstCreelInterSrc",
    "inter source",
    INTERS,
    "inter-context",
    Kind::Broadcast,
    // A receiver that is slow or paused must not hold up the others.
    Leaky::Downstream
);
