//! `creel-input-selector`: passes on one of several streams.

use gst::glib;
use gst::prelude::*;
use gst::subclass::prelude::*;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};

use crate::context;
use crate::settings::Settings;

/// The element has no task of its own, and runs on the threads of its streams. It has the
/// properties of a context only so that a pipeline for threadshare's element also works with ours.
static PROPERTIES: LazyLock<Vec<glib::ParamSpec>> = LazyLock::new(|| {
    let mut all = context::properties();
    all.extend([
        glib::ParamSpecObject::builder::<gst::Pad>("active-pad")
            .nick("Active Pad")
            .blurb(
                "Sink pad whose stream is passed on. By default, the first one that was requested",
            )
            .mutable_playing()
            .build(),
        crate::stats_property(),
    ]);
    all
});

#[derive(Default)]
struct Active {
    pad: Option<glib::WeakRef<gst::Pad>>,
    /// Whether the sticky events of the pad have to be pushed before its next item.
    changed: bool,
}

pub struct InputSelector {
    settings: Settings,
    src: gst::Pad,
    active: Mutex<Active>,
    next: AtomicU32,
    dropped: AtomicU64,
    switches: AtomicU64,
}

crate::element!(InputSelectorElement, InputSelector);

#[glib::object_subclass]
impl ObjectSubclass for InputSelector {
    const NAME: &'static str = "GstCreelInputSelector";
    type Type = InputSelectorElement;
    type ParentType = gst::Element;

    fn with_class(class: &Self::Class) -> Self {
        let template = class
            .pad_template("src")
            .expect("the class has this template");
        let src = gst::Pad::builder_from_template(&template)
            .event_function(|_, parent, event| {
                InputSelector::catch_panic_pad_function(
                    parent,
                    || false,
                    |selector| {
                        selector
                            .active_pad()
                            .is_some_and(|pad| pad.push_event(event))
                    },
                )
            })
            .query_function(|pad, parent, query| {
                InputSelector::catch_panic_pad_function(
                    parent,
                    || false,
                    |selector| selector.src_query(pad, query),
                )
            })
            .flags(gst::PadFlags::PROXY_CAPS)
            .build();
        Self {
            settings: Settings::new(&PROPERTIES),
            src,
            active: Mutex::default(),
            next: AtomicU32::new(0),
            dropped: AtomicU64::new(0),
            switches: AtomicU64::new(0),
        }
    }
}

impl ObjectImpl for InputSelector {
    fn properties() -> &'static [glib::ParamSpec] {
        &PROPERTIES
    }

    fn set_property(&self, _id: usize, value: &glib::Value, spec: &glib::ParamSpec) {
        if spec.name() == "active-pad" {
            let pad = value.get::<Option<gst::Pad>>().expect("the type is a pad");
            let element = self.obj();
            match &pad {
                Some(pad) if pad.parent_element().as_ref() != Some(element.upcast_ref()) => {
                    gst::element_warning!(
                        element,
                        gst::LibraryError::Settings,
                        ("`{}` is not a pad of this element", pad.name())
                    );
                }
                pad => self.select(pad.as_ref()),
            }
        } else {
            self.settings.set(spec, value);
        }
    }

    fn property(&self, _id: usize, spec: &glib::ParamSpec) -> glib::Value {
        match spec.name() {
            "active-pad" => self.active_pad().to_value(),
            name if name != "stats" => self.settings.value(name),
            _ => gst::Structure::builder("creel-input-selector")
                .field("dropped", self.dropped.load(Ordering::Relaxed))
                .field("switches", self.switches.load(Ordering::Relaxed))
                .build()
                .to_value(),
        }
    }

    fn constructed(&self) {
        self.parent_constructed();
        crate::add_pads(&*self.obj(), &[&self.src], gst::ElementFlags::empty());
    }
}

impl GstObjectImpl for InputSelector {}

impl ElementImpl for InputSelector {
    fn metadata() -> Option<&'static gst::subclass::ElementMetadata> {
        static METADATA: LazyLock<gst::subclass::ElementMetadata> = LazyLock::new(|| {
            gst::subclass::ElementMetadata::new(
                "Creel input selector",
                "Generic",
                "Passes on one of several streams, on the thread that brings it",
                crate::AUTHOR,
            )
        });
        Some(&METADATA)
    }

    fn pad_templates() -> &'static [gst::PadTemplate] {
        static TEMPLATES: LazyLock<[gst::PadTemplate; 2]> = LazyLock::new(|| {
            let any = gst::Caps::new_any();
            let (sink, request) = (gst::PadDirection::Sink, gst::PadPresence::Request);
            [
                crate::template("sink_%u", sink, request, &any),
                crate::src_template(&any),
            ]
        });
        &*TEMPLATES
    }

    fn request_new_pad(
        &self,
        template: &gst::PadTemplate,
        _name: Option<&str>,
        _caps: Option<&gst::Caps>,
    ) -> Option<gst::Pad> {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let failed = || Err(gst::FlowError::Error);
        let pad = gst::Pad::builder_from_template(template)
            .name(format!("sink_{number}"))
            .chain_function(move |pad, parent, buffer| {
                InputSelector::catch_panic_pad_function(parent, failed, |selector| {
                    selector.pass(pad, 1, |src| src.push(buffer))
                })
            })
            .chain_list_function(move |pad, parent, list| {
                InputSelector::catch_panic_pad_function(parent, failed, |selector| {
                    selector.pass(pad, list.len() as u64, |src| src.push_list(list))
                })
            })
            .event_function(|pad, parent, event| {
                InputSelector::catch_panic_pad_function(
                    parent,
                    || false,
                    |selector| selector.sink_event(pad, event),
                )
            })
            .flags(gst::PadFlags::PROXY_CAPS)
            .build();
        pad.set_active(true).ok()?;
        self.obj().add_pad(&pad).ok()?;
        let mut active = self.lock();
        if active.pad.as_ref().and_then(|pad| pad.upgrade()).is_none() {
            *active = Active {
                pad: Some(pad.downgrade()),
                changed: true,
            };
        }
        drop(active);
        Some(pad)
    }

    fn release_pad(&self, pad: &gst::Pad) {
        let _ = pad.set_active(false);
        let mut active = self.lock();
        if active.pad.as_ref().and_then(|pad| pad.upgrade()).as_ref() == Some(pad) {
            active.pad = None;
        }
        drop(active);
        let _ = self.obj().remove_pad(pad);
    }

    fn change_state(
        &self,
        transition: gst::StateChange,
    ) -> Result<gst::StateChangeSuccess, gst::StateChangeError> {
        let changed = self.parent_change_state(transition);
        if transition == gst::StateChange::PausedToReady {
            // In the state READY, the pads lose their sticky events. We must therefore push those
            // of the next stream, even if the active pad stays the same.
            self.lock().changed = true;
        }
        changed
    }
}

impl InputSelector {
    fn lock(&self) -> MutexGuard<'_, Active> {
        self.active.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn active_pad(&self) -> Option<gst::Pad> {
        self.lock().pad.as_ref()?.upgrade()
    }

    fn select(&self, pad: Option<&gst::Pad>) {
        let mut active = self.lock();
        let before = active.pad.as_ref().and_then(|pad| pad.upgrade());
        if before.as_ref() == pad {
            return;
        }
        self.switches.fetch_add(1, Ordering::Relaxed);
        *active = Active {
            pad: pad.map(|pad| pad.downgrade()),
            changed: true,
        };
    }

    /// Returns whether `pad` is the active one, after pushing its sticky events if it has just
    /// become that. The caller holds the stream lock of the source pad.
    fn is_active(&self, pad: &gst::Pad) -> bool {
        let mut active = self.lock();
        if active.pad.as_ref().and_then(|pad| pad.upgrade()).as_ref() != Some(pad) {
            return false;
        }
        let changed = std::mem::take(&mut active.changed);
        drop(active);
        if changed {
            let mut events = Vec::new();
            pad.sticky_events_foreach(|event| {
                events.push(event.clone());
                std::ops::ControlFlow::Continue(gst::EventForeachAction::Keep)
            });
            for event in events
                .into_iter()
                .filter(|event| event.type_() != gst::EventType::Eos)
            {
                self.src.push_event(event);
            }
        }
        true
    }

    /// Passes `buffers` buffers on if they came from the active pad, and drops them otherwise.
    fn pass(
        &self,
        pad: &gst::Pad,
        buffers: u64,
        push: impl FnOnce(&gst::Pad) -> Result<gst::FlowSuccess, gst::FlowError>,
    ) -> Result<gst::FlowSuccess, gst::FlowError> {
        // The stream lock keeps the streams of two threads apart at a switch. The lock is
        // recursive, so a thread may already hold it.
        let _stream = self.src.stream_lock();
        match self.is_active(pad) {
            true => push(&self.src),
            false => {
                self.dropped.fetch_add(buffers, Ordering::Relaxed);
                Ok(gst::FlowSuccess::Ok)
            }
        }
    }

    fn sink_event(&self, pad: &gst::Pad, event: gst::Event) -> bool {
        if !event.is_serialized() {
            let is_active = self.active_pad().as_ref() == Some(pad);
            return !is_active || self.src.push_event(event);
        }
        let _stream = self.src.stream_lock();
        // We drop the events of a pad that is not active. Its sticky events are not lost, because
        // the pad keeps them, and a switch to the pad pushes them.
        !self.is_active(pad) || self.src.push_event(event)
    }

    fn src_query(&self, pad: &gst::Pad, query: &mut gst::QueryRef) -> bool {
        let gst::QueryViewMut::Latency(query) = query.view_mut() else {
            return match query.type_() {
                gst::QueryType::Position | gst::QueryType::Duration => {
                    self.active_pad().is_some_and(|pad| pad.peer_query(query))
                }
                _ => gst::Pad::query_default(pad, Some(&*self.obj()), query),
            };
        };
        // We report a latency that is enough for all streams, so that a switch does not change it.
        let mut all = (false, gst::ClockTime::ZERO, None::<gst::ClockTime>);
        for sink in self.obj().sink_pads() {
            let mut of_sink = gst::query::Latency::new();
            if sink.peer_query(&mut of_sink) {
                let (live, min, max) = of_sink.result();
                if live {
                    all.0 = true;
                    all.1 = all.1.max(min);
                    all.2 = match (all.2, max) {
                        (Some(all), Some(max)) => Some(all.min(max)),
                        (all, max) => all.or(max),
                    };
                }
            }
        }
        query.set(all.0, all.1, all.2.map(|max| max.max(all.1)));
        true
    }
}
