//! `creel-audiotestsrc`: a sine tone, for tests and measurements.

use gst::glib;
use gst::prelude::*;
use gst::subclass::prelude::*;
use std::f64::consts::TAU;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, LazyLock};
use std::task::{Context as Cx, Poll};
use std::time::{Duration, Instant};

use crate::clock::PipelineClock;
use crate::context::{self, Context};
use crate::settings::Settings;
use crate::source::{self, Prelude, Source, SourceImpl};
use crate::stream::Body;

const RATE: i32 = 44_100;

static PROPERTIES: LazyLock<Vec<glib::ParamSpec>> = LazyLock::new(|| {
    let mut all = context::properties();
    all.extend([
        glib::ParamSpecUInt::builder("samples-per-buffer")
            .nick("Samples Per Buffer")
            .blurb("Number of samples of each channel in a buffer")
            .minimum(1)
            .maximum(1 << 20)
            .default_value(1_024)
            .mutable_ready()
            .build(),
        glib::ParamSpecUInt::builder("freq")
            .nick("Frequency")
            .blurb("Frequency of the tone in Hz")
            .minimum(1)
            .maximum(192_000)
            .default_value(440)
            .mutable_playing()
            .controllable()
            .build(),
        glib::ParamSpecDouble::builder("volume")
            .nick("Volume")
            .blurb("Amplitude of the tone. Above 1, samples are clipped")
            .minimum(0.0)
            .maximum(10.0)
            .default_value(0.8)
            .mutable_playing()
            .build(),
        glib::ParamSpecBoolean::builder("mute")
            .nick("Mute")
            .blurb("Whether the buffers contain silence")
            .default_value(false)
            .mutable_playing()
            .build(),
        glib::ParamSpecBoolean::builder("is-live")
            .nick("Is Live")
            .blurb("Whether each buffer is produced at its time, rather than as fast as possible")
            .default_value(true)
            .mutable_ready()
            .build(),
        glib::ParamSpecInt::builder("num-buffers")
            .nick("Num Buffers")
            .blurb("Number of buffers after which the stream ends. -1 means no end")
            .minimum(-1)
            .default_value(-1)
            .mutable_ready()
            .build(),
        glib::ParamSpecBoolean::builder("main-elem")
            .nick("Main Element")
            .blurb("Whether to log the context's load at the end of the stream. Set it on one element of a measurement")
            .default_value(false)
            .mutable_ready()
            .build(),
        crate::stats_property(),
    ]);
    all
});

static CAT: LazyLock<gst::DebugCategory> = LazyLock::new(|| {
    let flags = gst::DebugColorFlags::empty();
    gst::DebugCategory::new("creel-audiotestsrc", flags, Some("Creel audio test source"))
});

/// Returns the caps that the element can produce.
fn caps() -> gst::Caps {
    gst::Caps::builder("audio/x-raw")
        .field("format", "S16LE")
        .field("layout", "interleaved")
        .field("rate", gst::IntRange::new(1, i32::MAX))
        .field("channels", gst::IntRange::new(1, 64))
        .build()
}

/// The properties that may change while the tone plays.
struct Tone {
    freq: AtomicU32,
    /// The volume as the bits of an `f64`.
    volume: AtomicU64,
    mute: AtomicBool,
    buffers: AtomicU64,
}

pub struct AudioTestSrc {
    settings: Settings,
    source: Source<Play>,
    tone: Arc<Tone>,
    clock: Arc<PipelineClock>,
}

crate::element!(AudioTestSrcElement, AudioTestSrc);
crate::source_element!(
    AudioTestSrc,
    "Creel audio test source",
    "Source/Test",
    "Produces a sine tone on the threads of a context",
    caps()
);

#[glib::object_subclass]
impl ObjectSubclass for AudioTestSrc {
    const NAME: &'static str = "GstCreelAudioTestSrc";
    type Type = AudioTestSrcElement;
    type ParentType = gst::Element;

    fn with_class(class: &Self::Class) -> Self {
        let settings = Settings::new(&PROPERTIES);
        let tone = Tone {
            freq: AtomicU32::new(settings.get("freq")),
            volume: AtomicU64::new(settings.get::<f64>("volume").to_bits()),
            mute: AtomicBool::new(settings.get("mute")),
            buffers: AtomicU64::new(0),
        };
        Self {
            source: Source::new(source::pad::<Self>(class)),
            tone: Arc::new(tone),
            clock: Arc::default(),
            settings,
        }
    }
}

impl ObjectImpl for AudioTestSrc {
    fn properties() -> &'static [glib::ParamSpec] {
        &PROPERTIES
    }

    fn set_property(&self, _id: usize, value: &glib::Value, spec: &glib::ParamSpec) {
        self.settings.set(spec, value);
        let (settings, tone) = (&self.settings, &self.tone);
        match spec.name() {
            "freq" => tone.freq.store(settings.get("freq"), Ordering::Relaxed),
            "mute" => tone.mute.store(settings.get("mute"), Ordering::Relaxed),
            "volume" => {
                let bits = settings.get::<f64>("volume").to_bits();
                tone.volume.store(bits, Ordering::Relaxed);
            }
            _ => {}
        }
    }

    fn property(&self, _id: usize, spec: &glib::ParamSpec) -> glib::Value {
        match spec.name() {
            "stats" => self.stats().to_value(),
            name => self.settings.value(name),
        }
    }

    fn constructed(&self) {
        self.parent_constructed();
        crate::add_pads(&*self.obj(), &[&self.source.pad], gst::ElementFlags::SOURCE);
    }
}

impl AudioTestSrc {
    fn stats(&self) -> gst::Structure {
        let mut stats = gst::Structure::builder("creel-audiotestsrc")
            .field("buffers", self.tone.buffers.load(Ordering::Relaxed))
            .build();
        if let Some(context) = self.source.context() {
            context.describe(&mut stats);
        }
        stats
    }
}

impl SourceImpl for AudioTestSrc {
    type Body = Play;

    fn source(&self) -> &Source<Play> {
        &self.source
    }

    fn acquire_context(&self) -> Result<Arc<Context>, gst::ErrorMessage> {
        Context::acquire(&self.settings, &*self.obj())
    }

    fn prepare_body(&self, _context: &Arc<Context>) -> Result<Play, gst::ErrorMessage> {
        let settings = &self.settings;
        Ok(Play {
            element: self.obj().clone(),
            pad: self.source.pad.clone(),
            prelude: Prelude::new(None),
            tone: Arc::clone(&self.tone),
            clock: self.is_live().then(|| Arc::clone(&self.clock)),
            samples: settings.get("samples-per-buffer"),
            left: u32::try_from(settings.get::<i32>("num-buffers")).ok(),
            buffers_max: u32::try_from(settings.get::<i32>("num-buffers")).ok(),
            main: settings.get("main-elem"),
            format: None,
            memory: None,
            next: 0,
            phase: 0.0,
            sleep: None,
        })
    }

    fn playing(&self) {
        self.clock.start(&*self.obj());
    }

    fn is_live(&self) -> bool {
        self.settings.get("is-live")
    }
}

/// The rate and the number of channels that the pads have agreed on.
#[derive(Clone, Copy)]
struct Format {
    rate: u32,
    channels: u32,
}

/// The body of the streaming task.
pub(crate) struct Play {
    element: AudioTestSrcElement,
    pad: gst::Pad,
    prelude: Prelude,
    tone: Arc<Tone>,
    /// The clock, if the source is live.
    clock: Option<Arc<PipelineClock>>,
    samples: u32,
    /// The number of buffers until the stream ends, or `None` if it never ends.
    left: Option<u32>,
    buffers_max: Option<u32>,
    main: bool,
    format: Option<Format>,
    memory: Option<gst::BufferPool>,
    /// The number of the next sample.
    next: u64,
    /// The angle of the next sample.
    phase: f64,
    sleep: Option<creel::time::Sleep>,
}

impl Body for Play {
    fn poll_step(&mut self, cx: &mut Cx<'_>) -> Poll<Result<(), gst::FlowError>> {
        if self.left == Some(0) {
            return Poll::Ready(Err(gst::FlowError::Eos));
        }
        let format = match self.format {
            Some(format) => format,
            None => self.negotiate()?,
        };
        let time = |samples: u64| {
            let ns = u128::from(samples) * 1_000_000_000 / u128::from(format.rate);
            gst::ClockTime::from_nseconds(ns as u64)
        };
        let pts = time(self.next);
        std::task::ready!(self.poll_time(cx, pts));
        self.prelude.push(&self.pad);
        let mut buffer = self.fill(format)?;
        self.next += u64::from(self.samples);
        let inner = buffer.get_mut().ok_or(gst::FlowError::Error)?;
        inner.set_pts(pts);
        inner.set_duration(time(self.next) - pts);
        self.left = self.left.map(|left| left - 1);
        self.tone.buffers.fetch_add(1, Ordering::Relaxed);
        Poll::Ready(self.pad.push(buffer).map(drop))
    }

    fn ended(&mut self, error: gst::FlowError) {
        self.prelude.push(&self.pad);
        if self.main {
            gst::info!(CAT, obj = self.element, "{}", self.element.imp().stats());
        }
        source::end(self.element.upcast_ref(), &self.pad, error);
    }

    fn flushed(&mut self) {
        self.prelude.flushed();
    }

    fn restarted(&mut self) {
        self.prelude.restarted();
        (self.format, self.sleep) = (None, None);
        (self.next, self.phase) = (0, 0.0);
        self.left = self.buffers_max;
    }

    fn panicked(&mut self, message: &str) {
        source::report_panic(self.element.upcast_ref(), &self.pad, message);
    }
}

impl Play {
    /// Waits until the running time `pts`, if the source is live.
    fn poll_time(&mut self, cx: &mut Cx<'_>, pts: gst::ClockTime) -> Poll<()> {
        let Some(clock) = &self.clock else {
            return Poll::Ready(());
        };
        loop {
            let now = clock.running_time().unwrap_or(pts);
            let left = Duration::from(pts.saturating_sub(now));
            if left.is_zero() {
                return Poll::Ready(());
            }
            let deadline = Instant::now() + left;
            let sleep = match &mut self.sleep {
                Some(sleep) => {
                    sleep.reset(deadline);
                    sleep
                }
                sleep => sleep.insert(creel::time::sleep_until(deadline)),
            };
            std::task::ready!(Pin::new(sleep).poll(cx));
        }
    }

    /// Agrees with the peer on a format.
    fn negotiate(&mut self) -> Result<Format, gst::FlowError> {
        let mut caps = self.pad.peer_query_caps(Some(&caps()));
        if caps.is_any() || caps.is_empty() {
            return Err(gst::FlowError::NotNegotiated);
        }
        caps.truncate();
        let inner = caps
            .make_mut()
            .structure_mut(0)
            .ok_or(gst::FlowError::NotNegotiated)?;
        inner.fixate_field_nearest_int("rate", RATE);
        inner.fixate_field_nearest_int("channels", 1);
        caps.fixate();
        let of = |name| {
            let value = caps
                .structure(0)
                .and_then(|inner| inner.get::<i32>(name).ok());
            value
                .and_then(|value| u32::try_from(value).ok())
                .filter(|value| *value > 0)
        };
        let (Some(rate), Some(channels)) = (of("rate"), of("channels")) else {
            return Err(gst::FlowError::NotNegotiated);
        };
        let format = Format { rate, channels };
        self.prelude.set_caps(caps);
        let size = (self.samples * channels * 2) as usize;
        let context = self.element.imp().source.context();
        self.memory = context.and_then(|context| context.memory(size).ok());
        self.format = Some(format);
        Ok(format)
    }

    /// Returns a buffer with the next samples.
    fn fill(&mut self, format: Format) -> Result<gst::Buffer, gst::FlowError> {
        let memory = self.memory.as_ref().ok_or(gst::FlowError::Error)?;
        let mut buffer = memory.acquire_buffer(None)?;
        let inner = buffer.get_mut().ok_or(gst::FlowError::Error)?;
        let mut map = inner.map_writable().map_err(|_| gst::FlowError::Error)?;
        let step = TAU * f64::from(self.tone.freq.load(Ordering::Relaxed)) / f64::from(format.rate);
        let volume = match self.tone.mute.load(Ordering::Relaxed) {
            true => 0.0,
            false => f64::from_bits(self.tone.volume.load(Ordering::Relaxed)),
        };
        // Each sample turns the former one by the same angle, which is much cheaper than a sine.
        let (turn_sin, turn_cos) = step.sin_cos();
        let (mut sin, mut cos) = self.phase.sin_cos();
        let scale = volume * f64::from(i16::MAX);
        for frame in map
            .as_mut_slice()
            .chunks_exact_mut(2 * format.channels as usize)
        {
            let sample = ((sin * scale) as i16).to_le_bytes();
            frame
                .chunks_exact_mut(2)
                .for_each(|channel| channel.copy_from_slice(&sample));
            (sin, cos) = (
                sin * turn_cos + cos * turn_sin,
                cos * turn_cos - sin * turn_sin,
            );
        }
        self.phase = (self.phase + step * f64::from(self.samples)) % TAU;
        drop(map);
        Ok(buffer)
    }
}
