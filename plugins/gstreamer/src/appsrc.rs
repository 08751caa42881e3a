//! `creel-appsrc`: pushes buffers that the program provides.

use gst::glib;
use gst::prelude::*;
use gst::subclass::prelude::*;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock};
use std::task::{Context as Cx, Poll};

use crate::clock::PipelineClock;
use crate::context::{self, Context};
use crate::fifo::{Fifo, Item, Leaky, Level};
use crate::settings::Settings;
use crate::source::{self, Prelude, Source, SourceImpl};
use crate::stream::Body;

static PROPERTIES: LazyLock<Vec<glib::ParamSpec>> = LazyLock::new(|| {
    let mut all = context::properties();
    all.extend([
        glib::ParamSpecUInt::builder("max-buffers")
            .nick("Max Buffers")
            .blurb("Maximum number of buffers that wait in the element. 0 means no limit")
            .default_value(10)
            .mutable_playing()
            .build(),
        glib::ParamSpecBoxed::builder::<gst::Caps>("caps")
            .nick("Caps")
            .blurb("Caps of the buffers")
            .mutable_ready()
            .build(),
        glib::ParamSpecBoolean::builder("do-timestamp")
            .nick("Do Timestamp")
            .blurb("Whether buffers get the running time at which they leave the element")
            .default_value(false)
            .mutable_ready()
            .build(),
        glib::ParamSpecBoolean::builder("block")
            .nick("Block")
            .blurb("Whether push-buffer waits for room, instead of returning false, if max-buffers is reached")
            .default_value(false)
            .mutable_playing()
            .build(),
        crate::stats_property(),
    ]);
    all
});

pub struct AppSrc {
    settings: Settings,
    source: Source<Provide>,
    fifo: Arc<Fifo>,
    clock: Arc<PipelineClock>,
    pushed: Arc<AtomicU64>,
}

crate::element!(AppSrcElement, AppSrc);
crate::source_element!(
    AppSrc,
    "Creel application source",
    "Source/Generic",
    "Pushes buffers that the program provides, on the threads of a context",
    gst::Caps::new_any()
);

#[glib::object_subclass]
impl ObjectSubclass for AppSrc {
    const NAME: &'static str = "GstCreelAppSrc";
    type Type = AppSrcElement;
    type ParentType = gst::Element;

    fn with_class(class: &Self::Class) -> Self {
        let settings = Settings::new(&PROPERTIES);
        Self {
            source: Source::new(source::pad::<Self>(class)),
            fifo: Fifo::new(limits(&settings)),
            clock: Arc::default(),
            pushed: Arc::default(),
            settings,
        }
    }
}

fn limits(settings: &Settings) -> Level {
    Level {
        buffers: settings.get("max-buffers"),
        ..Level::default()
    }
}

impl ObjectImpl for AppSrc {
    fn properties() -> &'static [glib::ParamSpec] {
        &PROPERTIES
    }

    fn signals() -> &'static [glib::subclass::Signal] {
        static SIGNALS: LazyLock<[glib::subclass::Signal; 2]> = LazyLock::new(|| {
            [
                glib::subclass::Signal::builder("push-buffer")
                    .param_types([gst::Buffer::static_type()])
                    .return_type::<bool>()
                    .action()
                    .class_handler(|values| {
                        let element = values[0]
                            .get::<AppSrcElement>()
                            .expect("the element emits it");
                        let buffer = values[1]
                            .get::<gst::Buffer>()
                            .expect("the signal has a buffer");
                        Some(element.imp().push(buffer).to_value())
                    })
                    .build(),
                glib::subclass::Signal::builder("end-of-stream")
                    .return_type::<bool>()
                    .action()
                    .class_handler(|values| {
                        let element = values[0]
                            .get::<AppSrcElement>()
                            .expect("the element emits it");
                        let eos = Item::Event(gst::event::Eos::new());
                        Some(element.imp().fifo.push(eos).is_ok().to_value())
                    })
                    .build(),
            ]
        });
        &*SIGNALS
    }

    fn set_property(&self, _id: usize, value: &glib::Value, spec: &glib::ParamSpec) {
        self.settings.set(spec, value);
        if spec.name() == "max-buffers" {
            self.fifo.configure(limits(&self.settings), Leaky::No);
        }
    }

    fn property(&self, _id: usize, spec: &glib::ParamSpec) -> glib::Value {
        match spec.name() {
            "stats" => {
                let mut stats = gst::Structure::builder("creel-appsrc")
                    .field("buffers", self.pushed.load(Ordering::Relaxed))
                    .field("refused", self.fifo.dropped())
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

impl AppSrc {
    /// Adds a buffer. Returns whether the element took it.
    fn push(&self, buffer: gst::Buffer) -> bool {
        match self.settings.get("block") {
            true => self.fifo.push(Item::Buffer(buffer)).is_ok(),
            false => self.fifo.try_push(Item::Buffer(buffer)) == Ok(true),
        }
    }
}

impl SourceImpl for AppSrc {
    type Body = Provide;

    fn source(&self) -> &Source<Provide> {
        &self.source
    }

    fn acquire_context(&self) -> Result<Arc<Context>, gst::ErrorMessage> {
        Context::acquire(&self.settings, &*self.obj())
    }

    fn prepare_body(&self, _context: &Arc<Context>) -> Result<Provide, gst::ErrorMessage> {
        Ok(Provide {
            element: self.obj().clone(),
            pad: self.source.pad.clone(),
            prelude: Prelude::new(self.settings.get("caps")),
            fifo: Arc::clone(&self.fifo),
            clock: self
                .settings
                .get::<bool>("do-timestamp")
                .then(|| Arc::clone(&self.clock)),
            pushed: Arc::clone(&self.pushed),
        })
    }

    fn playing(&self) {
        self.clock.start(&*self.obj());
    }

    fn activated(&self, active: bool) {
        if active {
            self.fifo.open();
        } else {
            self.fifo.close(gst::FlowError::Flushing);
            self.fifo.clear();
        }
    }

    fn flushing(&self, flushing: bool) {
        self.fifo.clear();
        match flushing {
            true => self.fifo.close(gst::FlowError::Flushing),
            false => self.fifo.open(),
        }
    }
}

/// The body of the streaming task.
pub(crate) struct Provide {
    element: AppSrcElement,
    pad: gst::Pad,
    prelude: Prelude,
    fifo: Arc<Fifo>,
    /// The clock, or `None` if buffers get no time stamps.
    clock: Option<Arc<PipelineClock>>,
    pushed: Arc<AtomicU64>,
}

impl Body for Provide {
    fn poll_step(&mut self, cx: &mut Cx<'_>) -> Poll<Result<(), gst::FlowError>> {
        let item = std::task::ready!(self.fifo.poll_pop(cx));
        self.prelude.push(&self.pad);
        Poll::Ready(match item {
            Item::Buffer(mut buffer) => {
                if let Some(clock) = &self.clock {
                    let time = clock.running_time();
                    let buffer = buffer.make_mut();
                    buffer.set_pts(time);
                    buffer.set_dts(time);
                }
                self.pushed.fetch_add(1, Ordering::Relaxed);
                self.pad.push(buffer).map(drop)
            }
            // Apart from buffers, only the end of the stream is added to this queue.
            _ => Err(gst::FlowError::Eos),
        })
    }

    fn ended(&mut self, error: gst::FlowError) {
        self.prelude.push(&self.pad);
        self.fifo.fail(error);
        source::end(self.element.upcast_ref(), &self.pad, error);
    }

    fn flushed(&mut self) {
        self.prelude.flushed();
    }

    fn restarted(&mut self) {
        self.prelude.restarted();
    }

    fn panicked(&mut self, message: &str) {
        self.fifo.fail(gst::FlowError::Error);
        source::report_panic(self.element.upcast_ref(), &self.pad, message);
    }
}
