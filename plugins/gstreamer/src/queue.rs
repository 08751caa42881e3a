//! `creel-queue`: a queue whose other side is a task of a context.

use gst::glib;
use gst::prelude::*;
use gst::subclass::prelude::*;
use std::sync::{Arc, LazyLock};
use std::task::{Context as Cx, Poll};

use crate::context::{self, Context};
use crate::fifo::{Fifo, Item, Leaky, Level};
use crate::settings::Settings;
use crate::source::{self, Source};
use crate::stream::{Body, in_step};

static PROPERTIES: LazyLock<Vec<glib::ParamSpec>> = LazyLock::new(|| {
    let mut all = context::properties();
    all.extend(limits());
    all.extend([
        glib::ParamSpecEnum::builder::<Leaky>("leaky")
            .nick("Leaky")
            .blurb("Which buffers a full queue drops, if any")
            .mutable_playing()
            .build(),
        current("current-level-buffers", "Number of buffers in the queue"),
        current("current-level-bytes", "Number of bytes in the queue"),
        glib::ParamSpecUInt64::builder("current-level-time")
            .nick("Current Level Time")
            .blurb("Time in the queue, in ns")
            .read_only()
            .build(),
        crate::stats_property(),
    ]);
    all
});

fn current(name: &str, blurb: &str) -> glib::ParamSpec {
    glib::ParamSpecUInt::builder(name)
        .nick(name)
        .blurb(blurb)
        .read_only()
        .build()
}

/// Returns the properties of a queue's limits.
pub(crate) fn limits() -> [glib::ParamSpec; 3] {
    [
        glib::ParamSpecUInt::builder("max-size-buffers")
            .nick("Max Size Buffers")
            .blurb("Maximum number of buffers in the queue. 0 means no limit")
            .default_value(200)
            .mutable_playing()
            .build(),
        glib::ParamSpecUInt::builder("max-size-bytes")
            .nick("Max Size Bytes")
            .blurb("Maximum number of bytes in the queue. 0 means no limit")
            .default_value(1024 * 1024)
            .mutable_playing()
            .build(),
        glib::ParamSpecUInt64::builder("max-size-time")
            .nick("Max Size Time")
            .blurb("Maximum time in the queue, in ns. 0 means no limit")
            .maximum(u64::MAX - 1)
            .default_value(1_000_000_000)
            .mutable_playing()
            .build(),
    ]
}

/// Returns the limits that the properties of [`limits`] set.
pub(crate) fn limits_of(settings: &Settings) -> Level {
    Level {
        buffers: settings.get("max-size-buffers"),
        bytes: settings.get("max-size-bytes"),
        time: gst::ClockTime::from_nseconds(settings.get("max-size-time")),
    }
}

pub struct Queue {
    settings: Settings,
    sink: gst::Pad,
    source: Source<Forward>,
    fifo: Arc<Fifo>,
}

crate::element!(QueueElement, Queue);

#[glib::object_subclass]
impl ObjectSubclass for Queue {
    const NAME: &'static str = "GstCreelQueue";
    type Type = QueueElement;
    type ParentType = gst::Element;

    fn with_class(class: &Self::Class) -> Self {
        let template = |name| {
            class
                .pad_template(name)
                .expect("the class has this template")
        };
        let settings = Settings::new(&PROPERTIES);
        let fifo = Fifo::new(limits_of(&settings));
        let sink = gst::Pad::builder_from_template(&template("sink"))
            .activatemode_function(|_, parent, _, active| {
                Queue::catch_panic_pad_function(
                    parent,
                    || {
                        Err(gst::loggable_error!(
                            gst::CAT_RUST,
                            "the activation panicked"
                        ))
                    },
                    |queue| {
                        queue.activate_sink(active);
                        Ok(())
                    },
                )
            })
            .chain_function(|_, parent, buffer| {
                Queue::catch_panic_pad_function(
                    parent,
                    || Err(gst::FlowError::Error),
                    |queue| queue.fifo.push(Item::Buffer(buffer)),
                )
            })
            .chain_list_function(|_, parent, list| {
                Queue::catch_panic_pad_function(
                    parent,
                    || Err(gst::FlowError::Error),
                    |queue| queue.fifo.push(Item::List(list)),
                )
            })
            .event_full_function(|_, parent, event| {
                Queue::catch_panic_pad_function(
                    parent,
                    || Err(gst::FlowError::Error),
                    |queue| queue.sink_event(event),
                )
            })
            .query_function(|pad, parent, query| {
                Queue::catch_panic_pad_function(
                    parent,
                    || false,
                    |queue| queue.sink_query(pad, query),
                )
            })
            .flags(gst::PadFlags::PROXY_CAPS)
            .build();
        let src = gst::Pad::builder_from_template(&template("src"))
            .activatemode_function(|_, parent, _, active| {
                Queue::catch_panic_pad_function(
                    parent,
                    || {
                        Err(gst::loggable_error!(
                            gst::CAT_RUST,
                            "the activation panicked"
                        ))
                    },
                    |queue| {
                        queue.activate_src(active);
                        Ok(())
                    },
                )
            })
            .event_function(|_, parent, event| {
                Queue::catch_panic_pad_function(parent, || false, |queue| queue.src_event(event))
            })
            .query_function(|pad, parent, query| {
                Queue::catch_panic_pad_function(
                    parent,
                    || false,
                    |queue| queue.src_query(pad, query),
                )
            })
            .flags(gst::PadFlags::PROXY_CAPS)
            .build();
        Self {
            settings,
            sink,
            source: Source::new(src),
            fifo,
        }
    }
}

impl ObjectImpl for Queue {
    fn properties() -> &'static [glib::ParamSpec] {
        &PROPERTIES
    }

    fn set_property(&self, _id: usize, value: &glib::Value, spec: &glib::ParamSpec) {
        self.settings.set(spec, value);
        self.fifo
            .configure(limits_of(&self.settings), self.settings.get("leaky"));
    }

    fn property(&self, _id: usize, spec: &glib::ParamSpec) -> glib::Value {
        match spec.name() {
            "current-level-buffers" => self.fifo.level().buffers.to_value(),
            "current-level-bytes" => self.fifo.level().bytes.to_value(),
            "current-level-time" => self.fifo.level().time.nseconds().to_value(),
            "stats" => self.stats().to_value(),
            name => self.settings.value(name),
        }
    }

    fn constructed(&self) {
        self.parent_constructed();
        crate::add_pads(
            &*self.obj(),
            &[&self.sink, &self.source.pad],
            gst::ElementFlags::empty(),
        );
    }
}

impl GstObjectImpl for Queue {}

impl ElementImpl for Queue {
    fn metadata() -> Option<&'static gst::subclass::ElementMetadata> {
        static METADATA: LazyLock<gst::subclass::ElementMetadata> = LazyLock::new(|| {
            gst::subclass::ElementMetadata::new(
                "Creel queue",
                "Generic",
                "Passes data to a task of a context, with limits on buffers, bytes and time",
                crate::AUTHOR,
            )
        });
        Some(&METADATA)
    }

    fn pad_templates() -> &'static [gst::PadTemplate] {
        static TEMPLATES: LazyLock<[gst::PadTemplate; 2]> = LazyLock::new(|| {
            let any = gst::Caps::new_any();
            [crate::sink_template(&any), crate::src_template(&any)]
        });
        &*TEMPLATES
    }

    fn change_state(
        &self,
        transition: gst::StateChange,
    ) -> Result<gst::StateChangeSuccess, gst::StateChangeError> {
        if transition == gst::StateChange::NullToReady {
            let context = Context::acquire(&self.settings, &*self.obj()).map_err(|error| {
                self.post_error_message(error);
                gst::StateChangeError
            })?;
            let body = Forward::new(&*self.obj(), &self.source.pad, &self.fifo);
            self.source.prepare(context, body);
            self.source.stream.run();
        }
        let changed = self.parent_change_state(transition);
        if transition == gst::StateChange::ReadyToNull {
            self.source.unprepare();
        }
        changed
    }
}

impl Queue {
    fn stats(&self) -> gst::Structure {
        let mut stats = gst::Structure::builder("creel-queue")
            .field("dropped", self.fifo.dropped())
            .build();
        if let Some(context) = self.source.context() {
            context.describe(&mut stats);
        }
        stats
    }

    fn activate_sink(&self, active: bool) {
        match active {
            true => self.fifo.open(),
            // This makes a sender that waits for room return. GStreamer then waits for the sender.
            false => self.fifo.close(gst::FlowError::Flushing),
        }
    }

    fn activate_src(&self, active: bool) {
        self.source.stream.activate(active);
        if !active {
            self.fifo.close(gst::FlowError::Flushing);
            self.fifo.clear();
        } else if self.sink.is_active() {
            self.fifo.open();
        }
    }

    fn sink_event(&self, event: gst::Event) -> Result<gst::FlowSuccess, gst::FlowError> {
        match event.view() {
            gst::EventView::FlushStart(_) => flush_start(&self.fifo, &self.source, event),
            gst::EventView::FlushStop(_) => flush_stop(&self.fifo, &self.source, event),
            _ if event.is_serialized() => {
                return push_event(&self.fifo, self.obj().upcast_ref(), event);
            }
            _ => {
                return match self.source.pad.push_event(event) {
                    true => Ok(gst::FlowSuccess::Ok),
                    false => Err(gst::FlowError::Error),
                };
            }
        }
        Ok(gst::FlowSuccess::Ok)
    }

    fn sink_query(&self, pad: &gst::Pad, query: &mut gst::QueryRef) -> bool {
        if query.is_serialized() {
            // The answer must reflect everything that is in the queue. A thread that may block
            // waits until the queue is empty. A thread of a context cannot wait, so its query fails
            // if the queue is not empty.
            let empty = match in_step() {
                true => self.fifo.is_empty(),
                false => self.fifo.wait_until_empty(),
            };
            return empty && self.source.pad.peer_query(query);
        }
        gst::Pad::query_default(pad, Some(&*self.obj()), query)
    }

    fn src_event(&self, event: gst::Event) -> bool {
        if event.type_() == gst::EventType::Reconfigure {
            relinked(&self.fifo, &self.source);
        }
        self.sink.push_event(event)
    }

    fn src_query(&self, pad: &gst::Pad, query: &mut gst::QueryRef) -> bool {
        let answered = match query.type_() {
            gst::QueryType::Latency | gst::QueryType::Position | gst::QueryType::Duration => {
                self.sink.peer_query(query)
            }
            gst::QueryType::Scheduling => match query.view_mut() {
                gst::QueryViewMut::Scheduling(query) => {
                    query.set(gst::SchedulingFlags::SEQUENTIAL, 1, -1, 0);
                    query.add_scheduling_modes([gst::PadMode::Push]);
                    return true;
                }
                _ => unreachable!("the type of the query was checked"),
            },
            _ => return gst::Pad::query_default(pad, Some(&*self.obj()), query),
        };
        if answered && let gst::QueryViewMut::Latency(query) = query.view_mut() {
            // The quantum of the context adds no latency, because the queue wakes its task at once.
            let (live, min, max) = query.result();
            let limit: u64 = self.settings.get("max-size-time");
            let room = (limit > 0).then(|| gst::ClockTime::from_nseconds(limit));
            let max = match self.settings.get("leaky") {
                Leaky::No => max.zip(room).map(|(max, room)| max + room),
                // A leaky queue drops the buffers that do not fit, so it cannot compensate for more
                // latency.
                _ => max,
            };
            query.set(live, min, max.map(|max| max.max(min)));
        }
        answered
    }
}

/// Begins a flush of a queue: frees its sender, and stops the task at its other side.
pub(crate) fn flush_start(fifo: &Fifo, source: &Source<Forward>, event: gst::Event) {
    fifo.close(gst::FlowError::Flushing);
    source.stream.flush_start();
    source.pad.push_event(event);
    source.stream.wait_for_step();
}

/// Ends a flush of a queue: removes its items, and starts the task at its other side again.
pub(crate) fn flush_stop(fifo: &Fifo, source: &Source<Forward>, event: gst::Event) {
    source.stream.wait_for_step();
    for event in fifo.clear() {
        // The end of a stream and its segment do not survive a flush. Other sticky events do.
        if !matches!(event.type_(), gst::EventType::Eos | gst::EventType::Segment) {
            let _ = source.pad.store_sticky_event(&event);
        }
    }
    source.flush_stop(event);
    fifo.open();
}

/// Reacts to the event that the source pad may have been linked to another element. An error of the
/// element before does not count for the new one, so the task continues. Returns whether there was
/// such an error.
pub(crate) fn relinked(fifo: &Fifo, source: &Source<Forward>) -> bool {
    let failed = fifo.reopen_after_error();
    if failed {
        // The step that failed must be over, because it marks the stream as ended.
        source.stream.wait_for_step();
        source.stream.run();
    }
    failed
}

/// Adds an event to a queue. If the queue refuses the end of the stream because of an error of its
/// other side, reports the error, because no further buffer can return it to the source.
pub(crate) fn push_event(
    fifo: &Arc<Fifo>,
    element: &gst::Element,
    event: gst::Event,
) -> Result<gst::FlowSuccess, gst::FlowError> {
    let is_eos = event.type_() == gst::EventType::Eos;
    let pushed = fifo.push(Item::Event(event));
    if let (true, Err(error)) = (is_eos, pushed) {
        source::report(element, error);
    }
    pushed
}

/// Reacts to an error of the elements after a queue, which has [failed](Fifo::fail) with it.
/// Normally, the sender gets the error when it adds the next item, and reports it. After the end of
/// the stream, it adds no further item. In this case, this function reports the error, and pushes
/// the end of the stream to the elements after the queue.
pub(crate) fn failed(fifo: &Fifo, element: &gst::Element, pad: &gst::Pad, error: gst::FlowError) {
    let ends = matches!(error, gst::FlowError::Eos | gst::FlowError::Flushing);
    if !ends && fifo.is_eos() {
        source::end(element, pad, error);
    }
}

/// The body of a task that takes items from a queue and pushes them.
pub(crate) struct Forward {
    element: gst::Element,
    pad: gst::Pad,
    fifo: Arc<Fifo>,
    /// Whether the task reports an error instead of the sender.
    reports_errors: bool,
}

impl Forward {
    pub(crate) fn new(element: &impl IsA<gst::Element>, pad: &gst::Pad, fifo: &Arc<Fifo>) -> Self {
        Self {
            element: element.clone().upcast(),
            pad: pad.clone(),
            fifo: Arc::clone(fifo),
            reports_errors: false,
        }
    }

    /// Makes the task report an error of the element after it, because the sender does not.
    pub(crate) fn that_reports_errors(mut self) -> Self {
        self.reports_errors = true;
        self
    }
}

impl Body for Forward {
    fn poll_step(&mut self, cx: &mut Cx<'_>) -> Poll<Result<(), gst::FlowError>> {
        let item = std::task::ready!(self.fifo.poll_pop(cx));
        let pushed = item.push(&self.pad);
        if let Err(error) = pushed {
            self.fifo.fail(error);
        }
        self.fifo.pushed();
        Poll::Ready(pushed.map(drop))
    }

    fn ended(&mut self, error: gst::FlowError) {
        if self.reports_errors && error != gst::FlowError::Eos {
            source::end(&self.element, &self.pad, error);
        } else {
            failed(&self.fifo, &self.element, &self.pad, error);
        }
    }

    fn panicked(&mut self, message: &str) {
        self.fifo.fail(gst::FlowError::Error);
        source::report_panic(&self.element, &self.pad, message);
    }
}
