//! `creel-blocking-adapter`: a thread of its own for elements that block.
//!
//! An element that blocks must not run on a thread of a context, for example a sink that waits for
//! the clock. The adapter receives data on a thread of a context, and passes it on from a thread of
//! GStreamer. If its queue is full, the stream before it waits, and other streams of the context
//! continue.

use gst::glib;
use gst::prelude::*;
use gst::subclass::prelude::*;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock, Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::fifo::{Fifo, Item, Leaky};
use crate::queue::{self, limits, limits_of};
use crate::settings::Settings;

/// A push that takes longer than this is counted as one that blocked.
const BLOCKS_AFTER: Duration = Duration::from_millis(1);

static PROPERTIES: LazyLock<Vec<glib::ParamSpec>> = LazyLock::new(|| {
    let mut all = limits().to_vec();
    all.push(crate::stats_property());
    all
});

#[derive(Default)]
struct Counters {
    items: AtomicU64,
    blocked: AtomicU64,
    blocked_ns: AtomicU64,
}

pub struct BlockingAdapter {
    settings: Settings,
    sink: gst::Pad,
    src: gst::Pad,
    fifo: Arc<Fifo>,
    counters: Arc<Counters>,
    /// Whether the source pad is active. A flush that ends after the deactivation must not start
    /// the thread again. Therefore the lock is held while the thread is started.
    active: Mutex<bool>,
}

crate::element!(BlockingAdapterElement, BlockingAdapter);

#[glib::object_subclass]
impl ObjectSubclass for BlockingAdapter {
    const NAME: &'static str = "GstCreelBlockingAdapter";
    type Type = BlockingAdapterElement;
    type ParentType = gst::Element;

    fn with_class(class: &Self::Class) -> Self {
        let template = |name| {
            class
                .pad_template(name)
                .expect("the class has this template")
        };
        let failed = || Err(gst::FlowError::Error);
        let panicked = || {
            Err(gst::loggable_error!(
                gst::CAT_RUST,
                "the activation panicked"
            ))
        };
        let sink = gst::Pad::builder_from_template(&template("sink"))
            .activatemode_function(move |_, parent, _, active| {
                BlockingAdapter::catch_panic_pad_function(parent, panicked, |adapter| {
                    match active {
                        true => adapter.fifo.open(),
                        false => adapter.fifo.close(gst::FlowError::Flushing),
                    }
                    Ok(())
                })
            })
            .chain_function(move |_, parent, buffer| {
                BlockingAdapter::catch_panic_pad_function(parent, failed, |adapter| {
                    adapter.fifo.push(Item::Buffer(buffer))
                })
            })
            .chain_list_function(move |_, parent, list| {
                BlockingAdapter::catch_panic_pad_function(parent, failed, |adapter| {
                    adapter.fifo.push(Item::List(list))
                })
            })
            .event_full_function(move |_, parent, event| {
                BlockingAdapter::catch_panic_pad_function(parent, failed, |adapter| {
                    adapter.sink_event(event)
                })
            })
            .flags(gst::PadFlags::PROXY_CAPS)
            .build();
        let src = gst::Pad::builder_from_template(&template("src"))
            .activatemode_function(move |pad, parent, _, active| {
                BlockingAdapter::catch_panic_pad_function(parent, panicked, |adapter| {
                    adapter.activate_src(pad, active)
                })
            })
            .flags(gst::PadFlags::PROXY_CAPS)
            .build();
        let settings = Settings::new(&PROPERTIES);
        Self {
            fifo: Fifo::new(limits_of(&settings)),
            settings,
            sink,
            src,
            counters: Arc::default(),
            active: Mutex::default(),
        }
    }
}

impl ObjectImpl for BlockingAdapter {
    fn properties() -> &'static [glib::ParamSpec] {
        &PROPERTIES
    }

    fn set_property(&self, _id: usize, value: &glib::Value, spec: &glib::ParamSpec) {
        self.settings.set(spec, value);
        self.fifo.configure(limits_of(&self.settings), Leaky::No);
    }

    fn property(&self, _id: usize, spec: &glib::ParamSpec) -> glib::Value {
        match spec.name() {
            "stats" => {
                let of = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
                gst::Structure::builder("creel-blocking-adapter")
                    .field("items", of(&self.counters.items))
                    .field("blocked", of(&self.counters.blocked))
                    .field("blocked-time", of(&self.counters.blocked_ns))
                    .build()
                    .to_value()
            }
            name => self.settings.value(name),
        }
    }

    fn constructed(&self) {
        self.parent_constructed();
        crate::add_pads(
            &*self.obj(),
            &[&self.sink, &self.src],
            gst::ElementFlags::empty(),
        );
    }
}

impl GstObjectImpl for BlockingAdapter {}

impl ElementImpl for BlockingAdapter {
    fn metadata() -> Option<&'static gst::subclass::ElementMetadata> {
        static METADATA: LazyLock<gst::subclass::ElementMetadata> = LazyLock::new(|| {
            gst::subclass::ElementMetadata::new(
                "Creel blocking adapter",
                "Generic",
                "Gives elements that block a thread of their own, after a stream of a context",
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
}

impl BlockingAdapter {
    fn sink_event(&self, event: gst::Event) -> Result<gst::FlowSuccess, gst::FlowError> {
        match event.view() {
            gst::EventView::FlushStart(_) => {
                self.fifo.close(gst::FlowError::Flushing);
                self.src.push_event(event);
                let _ = self.src.pause_task();
            }
            gst::EventView::FlushStop(_) => {
                for event in self.fifo.clear() {
                    if !matches!(event.type_(), gst::EventType::Eos | gst::EventType::Segment) {
                        let _ = self.src.store_sticky_event(&event);
                    }
                }
                self.src.push_event(event);
                if self.src.is_active() {
                    self.fifo.open();
                }
                let _ = self.start();
            }
            _ if event.is_serialized() => {
                return queue::push_event(&self.fifo, self.obj().upcast_ref(), event);
            }
            _ => {
                self.src.push_event(event);
            }
        }
        Ok(gst::FlowSuccess::Ok)
    }

    fn activate_src(&self, pad: &gst::Pad, active: bool) -> Result<(), gst::LoggableError> {
        *self.active.lock().unwrap_or_else(PoisonError::into_inner) = active;
        if active {
            self.fifo.open();
            return self.start();
        }
        self.fifo.close(gst::FlowError::Flushing);
        pad.stop_task()
            .map_err(|error| gst::loggable_error!(gst::CAT_RUST, "{error}"))?;
        self.fifo.clear();
        Ok(())
    }

    /// Starts the thread that pushes, if the source pad is active.
    fn start(&self) -> Result<(), gst::LoggableError> {
        let active = self.active.lock().unwrap_or_else(PoisonError::into_inner);
        if !*active {
            return Ok(());
        }
        let (fifo, counters) = (Arc::clone(&self.fifo), Arc::clone(&self.counters));
        let pad = self.src.downgrade();
        let started = self.src.start_task(move || {
            let item = fifo.pop_blocking();
            let Some(pad) = pad.upgrade() else { return };
            let Some(item) = item else {
                let _ = pad.pause_task();
                return;
            };
            let begin = Instant::now();
            let pushed = item.push(&pad);
            fifo.pushed();
            let time = begin.elapsed();
            counters.items.fetch_add(1, Ordering::Relaxed);
            if time > BLOCKS_AFTER {
                counters.blocked.fetch_add(1, Ordering::Relaxed);
                counters
                    .blocked_ns
                    .fetch_add(time.as_nanos() as u64, Ordering::Relaxed);
            }
            if let Err(error) = pushed {
                fifo.fail(error);
                if let Some(element) = pad.parent_element() {
                    queue::failed(&fifo, &element, &pad, error);
                }
            }
        });
        started.map_err(|error| gst::loggable_error!(gst::CAT_RUST, "{error}"))
    }
}
