//! `creel-clocksync`: passes each buffer on at its time by the pipeline's clock.
//!
//! In the state PAUSED, buffers that wait for the clock stay here, so that no sink after this
//! element can preroll. The state change then reports that, as a live source does, and the pipeline
//! can continue to PLAYING. Buffers that do not wait for the clock pass in PAUSED too.

use gst::glib;
use gst::prelude::*;
use gst::subclass::prelude::*;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::sync::{LazyLock, Mutex, PoisonError};

use crate::fifo::Item;
use crate::gate::{self, Gate, Gated};
use crate::settings::Settings;

static PROPERTIES: LazyLock<Vec<glib::ParamSpec>> = LazyLock::new(|| {
    vec![
        glib::ParamSpecBoolean::builder("sync")
            .nick("Sync")
            .blurb("Whether buffers wait for their time by the pipeline's clock")
            .default_value(true)
            .mutable_playing()
            .build(),
        glib::ParamSpecInt64::builder("ts-offset")
            .nick("Timestamp Offset")
            .blurb("Time in ns that is added to the time of each buffer, for the wait only")
            .default_value(0)
            .mutable_playing()
            .build(),
    ]
});

pub struct ClockSync {
    settings: Settings,
    sink: gst::Pad,
    src: gst::Pad,
    gate: Gate,
    sync: AtomicBool,
    offset: AtomicI64,
    /// The latency of the elements before this one, as the last query reported it.
    upstream: Mutex<gst::ClockTime>,
}

crate::element!(ClockSyncElement, ClockSync);

#[glib::object_subclass]
impl ObjectSubclass for ClockSync {
    const NAME: &'static str = "GstCreelClockSync";
    type Type = ClockSyncElement;
    type ParentType = gst::Element;

    fn with_class(class: &Self::Class) -> Self {
        let template = |name| {
            class
                .pad_template(name)
                .expect("the class has this template")
        };
        let sink = gst::Pad::builder_from_template(&template("sink"))
            .activatemode_function(|_, parent, _, active| {
                ClockSync::catch_panic_pad_function(
                    parent,
                    || {
                        Err(gst::loggable_error!(
                            gst::CAT_RUST,
                            "the activation panicked"
                        ))
                    },
                    |element| {
                        match active {
                            true => element.gate.open(),
                            false => element.gate.close(),
                        }
                        Ok(())
                    },
                )
            })
            .chain_function(|_, parent, buffer| {
                ClockSync::catch_panic_pad_function(
                    parent,
                    || Err(gst::FlowError::Error),
                    |element| Gate::handle(element, Item::Buffer(buffer), element.syncs()),
                )
            })
            .event_full_function(|_, parent, event| {
                ClockSync::catch_panic_pad_function(
                    parent,
                    || Err(gst::FlowError::Error),
                    |element| gate::sink_event(element, event),
                )
            })
            .flags(gst::PadFlags::PROXY_CAPS | gst::PadFlags::PROXY_ALLOCATION)
            .build();
        let src = gst::Pad::builder_from_template(&template("src"))
            .event_function(|_, parent, event| {
                ClockSync::catch_panic_pad_function(
                    parent,
                    || false,
                    |element| element.src_event(event),
                )
            })
            .query_function(|pad, parent, query| {
                ClockSync::catch_panic_pad_function(
                    parent,
                    || false,
                    |element| element.src_query(pad, query),
                )
            })
            .flags(gst::PadFlags::PROXY_CAPS | gst::PadFlags::PROXY_SCHEDULING)
            .build();
        Self {
            settings: Settings::new(&PROPERTIES),
            sink,
            src,
            gate: Gate::default(),
            sync: AtomicBool::new(true),
            offset: AtomicI64::new(0),
            upstream: Mutex::new(gst::ClockTime::ZERO),
        }
    }
}

impl ObjectImpl for ClockSync {
    fn properties() -> &'static [glib::ParamSpec] {
        &PROPERTIES
    }

    fn set_property(&self, _id: usize, value: &glib::Value, spec: &glib::ParamSpec) {
        self.settings.set(spec, value);
        self.sync
            .store(self.settings.get("sync"), Ordering::Relaxed);
        self.offset
            .store(self.settings.get("ts-offset"), Ordering::Relaxed);
        self.apply_delay();
    }

    fn property(&self, _id: usize, spec: &glib::ParamSpec) -> glib::Value {
        self.settings.value(spec.name())
    }

    fn constructed(&self) {
        self.parent_constructed();
        crate::add_pads(
            &*self.obj(),
            &[&self.sink, &self.src],
            gst::ElementFlags::REQUIRE_CLOCK,
        );
    }
}

impl GstObjectImpl for ClockSync {}

impl ElementImpl for ClockSync {
    fn metadata() -> Option<&'static gst::subclass::ElementMetadata> {
        static METADATA: LazyLock<gst::subclass::ElementMetadata> = LazyLock::new(|| {
            gst::subclass::ElementMetadata::new(
                "Creel clock synchronizer",
                "Generic",
                "Passes each buffer on at its time, without blocking the threads of a context",
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
        match transition {
            gst::StateChange::PausedToPlaying => {
                let element = self.obj();
                self.gate.play(element.clock().zip(element.base_time()));
            }
            gst::StateChange::PlayingToPaused => self.gate.pause(),
            _ => {}
        }
        let changed = self.parent_change_state(transition)?;
        match transition {
            gst::StateChange::ReadyToPaused | gst::StateChange::PlayingToPaused if self.syncs() => {
                Ok(gst::StateChangeSuccess::NoPreroll)
            }
            _ => Ok(changed),
        }
    }
}

impl Gated for ClockSync {
    const HOLDS_ALWAYS: bool = false;

    fn gate(&self) -> &Gate {
        &self.gate
    }

    fn pass(&self, item: Item) -> Result<gst::FlowSuccess, gst::FlowError> {
        item.push(&self.src)
    }
}

impl ClockSync {
    fn syncs(&self) -> bool {
        self.sync.load(Ordering::Relaxed)
    }

    /// Delays all buffers by the latency of the elements before this one. Without this delay, each
    /// buffer would already be late when it arrives here.
    fn apply_delay(&self) {
        let upstream = *self.upstream.lock().unwrap_or_else(PoisonError::into_inner);
        self.gate
            .set_delay(upstream, self.offset.load(Ordering::Relaxed));
    }

    fn src_event(&self, event: gst::Event) -> bool {
        self.sink.push_event(event)
    }

    fn src_query(&self, pad: &gst::Pad, query: &mut gst::QueryRef) -> bool {
        let gst::QueryViewMut::Latency(query) = query.view_mut() else {
            return gst::Pad::query_default(pad, Some(&*self.obj()), query);
        };
        if !self.sink.peer_query(query) {
            return false;
        }
        let (live, min, max) = query.result();
        *self.upstream.lock().unwrap_or_else(PoisonError::into_inner) =
            if live { min } else { gst::ClockTime::ZERO };
        self.apply_delay();
        // If this element waits for the clock, a source that is not live behaves like a live one.
        query.set(live || self.syncs(), min, max);
        true
    }
}
