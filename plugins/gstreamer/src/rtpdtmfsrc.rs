//! `creel-rtpdtmfsrc`: sends key presses as RTP telephone events.
//!
//! A press begins and ends with an upstream event that has the structure `dtmf-event`. Its fields
//! are `type` (1), `number` (0 to 15), `volume` (0 to 36) and `start`, as GStreamer's own
//! `rtpdtmfsrc` documents them. Presses and releases must alternate. When a press begins or ends, the
//! element posts the message `dtmf-event-processed` with the same fields. When it stops, it posts
//! `dtmf-event-dropped` for each event that it has not handled. The duration in a packet has 16 bits,
//! so we split a longer press into segments.
//!
//! Source: RFC 4733, sections 2.3 and 2.5.

use gst::glib;
use gst::prelude::*;
use gst::subclass::prelude::*;
use std::collections::VecDeque;
use std::hash::{BuildHasher, RandomState};
use std::pin::Pin;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, LazyLock, Mutex, PoisonError};
use std::task::{Context as Cx, Poll, Waker, ready};
use std::time::{Duration, Instant};

use crate::clock::PipelineClock;
use crate::context::{self, Context};
use crate::settings::Settings;
use crate::source::{self, Prelude, Source, SourceImpl};
use crate::stream::Body;

/// The time between two packets of a press, in ms.
const PACKET_MS: u32 = 40;
/// The minimum duration of a press in ms. We prolong a shorter press, so that receivers recognize
/// it.
const PRESS_MS_MIN: u32 = 250;
/// The pause between two presses, in ms. The duration of the last buffer of a press includes it.
const PAUSE_MS: u32 = 3 * PACKET_MS;
/// The name of the message about a press or a release that is being sent.
const PROCESSED: &str = "dtmf-event-processed";
/// The maximum number of key events that wait for the task. The element refuses further events.
const WAITING_MAX: usize = 1_000;

static PROPERTIES: LazyLock<Vec<glib::ParamSpec>> = LazyLock::new(|| {
    let uint = |name: &str, blurb: &str, min, max, default| {
        glib::ParamSpecUInt::builder(name)
            .nick(name)
            .blurb(blurb)
            .minimum(min)
            .maximum(max)
            .default_value(default)
            .mutable_ready()
            .build()
    };
    let shown = |name: &str, blurb: &str| {
        glib::ParamSpecUInt::builder(name)
            .nick(name)
            .blurb(blurb)
            .read_only()
            .build()
    };
    let or_random = |name: &str, blurb: &str| {
        glib::ParamSpecInt64::builder(name)
            .nick(name)
            .blurb(blurb)
            .minimum(-1)
            .maximum(u32::MAX.into())
            .default_value(-1)
            .mutable_ready()
            .build()
    };
    let mut all = context::properties();
    all.extend([
        shown("timestamp", "RTP time stamp of the last packet"),
        shown("seqnum", "RTP sequence number of the last packet"),
        or_random(
            "timestamp-offset",
            "RTP time stamp at running time 0. -1 chooses a random one",
        ),
        glib::ParamSpecInt::builder("seqnum-offset")
            .nick("seqnum-offset")
            .blurb("RTP sequence number of the first packet. -1 chooses a random one")
            .minimum(-1)
            .maximum(u16::MAX.into())
            .default_value(-1)
            .mutable_ready()
            .build(),
        uint(
            "clock-rate",
            "Clock rate of the RTP stream in Hz",
            1_000,
            192_000,
            8_000,
        ),
        or_random(
            "ssrc",
            "Synchronization source of the packets. -1 chooses a random one",
        ),
        uint("pt", "Payload type of the packets", 0, 127, 96),
        uint(
            "packet-redundancy",
            "How often the first and the last packet of a press are sent",
            1,
            5,
            1,
        ),
        crate::stats_property(),
    ]);
    all
});

fn caps() -> gst::Caps {
    gst::Caps::builder("application/x-rtp")
        .field("media", "audio")
        .field("payload", gst::IntRange::new(0, 127))
        .field("clock-rate", gst::IntRange::new(1, i32::MAX))
        .field("encoding-name", "TELEPHONE-EVENT")
        .build()
}

/// A key that is pressed, or the end of a press.
#[derive(Clone, Copy, Debug)]
enum Key {
    Down { number: u8, volume: u8 },
    Up,
}

impl Key {
    /// Returns a structure about this event, as GStreamer's own element describes it.
    fn describe(self, name: &str) -> gst::Structure {
        let all = gst::Structure::builder(name)
            .field("type", 1)
            .field("method", 1)
            .field("start", matches!(self, Key::Down { .. }));
        match self {
            Key::Down { number, volume } => all
                .field("number", i32::from(number))
                .field("volume", i32::from(volume))
                .build(),
            Key::Up => all.build(),
        }
    }

    /// Posts a message about this event on the bus.
    fn post(self, element: &RtpDtmfSrcElement, name: &str) {
        let message = gst::message::Element::builder(self.describe(name));
        // A bus that is flushing refuses the message, and nobody waits for it then.
        let _ = element.post_message(message.src(element).build());
    }
}

/// The key events that wait for the task.
#[derive(Default)]
struct Waiting {
    keys: VecDeque<Key>,
    waker: Option<Waker>,
    /// Whether a key is pressed after the events in the queue.
    is_down: bool,
}

#[derive(Default)]
struct Keys {
    waiting: Mutex<Waiting>,
    seqnum: AtomicU32,
    timestamp: AtomicU32,
    presses: AtomicU64,
}

impl Keys {
    fn lock(&self) -> std::sync::MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds an event. Returns `false` if too many wait already, if a key is pressed while another
    /// one is, or if a key is released that is not pressed.
    fn push(&self, key: Key) -> bool {
        let mut waiting = self.lock();
        let is_down = matches!(key, Key::Down { .. });
        if waiting.keys.len() == WAITING_MAX || is_down == waiting.is_down {
            return false;
        }
        waiting.is_down = is_down;
        waiting.keys.push_back(key);
        let waker = waiting.waker.take();
        drop(waiting);
        if let Some(waker) = waker {
            waker.wake();
        }
        true
    }

    /// Returns the number and the volume of the next press. Drops a release before it, which
    /// belongs to a press that a flush has ended.
    fn poll_press(&self, cx: &mut Cx<'_>) -> Poll<(u8, u8)> {
        let mut waiting = self.lock();
        while let Some(key) = waiting.keys.pop_front() {
            if let Key::Down { number, volume } = key {
                return Poll::Ready((number, volume));
            }
        }
        waiting.waker = Some(cx.waker().clone());
        Poll::Pending
    }

    /// Removes the release of the current press from the queue. Returns whether it was there.
    fn take_release(&self) -> bool {
        self.lock().keys.pop_front().is_some()
    }

    /// Removes all events, and begins with no key pressed.
    fn clear(&self) -> VecDeque<Key> {
        let mut waiting = self.lock();
        waiting.is_down = false;
        std::mem::take(&mut waiting.keys)
    }
}

pub struct RtpDtmfSrc {
    settings: Settings,
    source: Source<Press>,
    clock: Arc<PipelineClock>,
    keys: Arc<Keys>,
}

crate::element!(RtpDtmfSrcElement, RtpDtmfSrc);
crate::source_element!(
    RtpDtmfSrc,
    "Creel RTP DTMF source",
    "Source/Network/RTP",
    "Sends key presses as RTP telephone events, on the threads of a context",
    caps()
);

#[glib::object_subclass]
impl ObjectSubclass for RtpDtmfSrc {
    const NAME: &'static str = "GstCreelRtpDtmfSrc";
    type Type = RtpDtmfSrcElement;
    type ParentType = gst::Element;

    fn with_class(class: &Self::Class) -> Self {
        Self {
            settings: Settings::new(&PROPERTIES),
            source: Source::new(source::pad::<Self>(class)),
            clock: Arc::default(),
            keys: Arc::default(),
        }
    }
}

impl ObjectImpl for RtpDtmfSrc {
    fn properties() -> &'static [glib::ParamSpec] {
        &PROPERTIES
    }

    fn set_property(&self, _id: usize, value: &glib::Value, spec: &glib::ParamSpec) {
        self.settings.set(spec, value);
    }

    fn property(&self, _id: usize, spec: &glib::ParamSpec) -> glib::Value {
        match spec.name() {
            "timestamp" => self.keys.timestamp.load(Ordering::Relaxed).to_value(),
            "seqnum" => self.keys.seqnum.load(Ordering::Relaxed).to_value(),
            "stats" => {
                let mut stats = gst::Structure::builder("creel-rtpdtmfsrc")
                    .field("presses", self.keys.presses.load(Ordering::Relaxed))
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

/// Returns a random number.
fn random() -> u32 {
    RandomState::new().hash_one(Instant::now()) as u32
}

impl SourceImpl for RtpDtmfSrc {
    type Body = Press;

    fn source(&self) -> &Source<Press> {
        &self.source
    }

    fn acquire_context(&self) -> Result<Arc<Context>, gst::ErrorMessage> {
        Context::acquire(&self.settings, &*self.obj())
    }

    fn prepare_body(&self, _context: &Arc<Context>) -> Result<Press, gst::ErrorMessage> {
        let settings = &self.settings;
        let or_random = |value: i64| u32::try_from(value).unwrap_or_else(|_| random());
        let (rate, pt) = (settings.get::<u32>("clock-rate"), settings.get::<u32>("pt"));
        let ssrc = or_random(settings.get("ssrc"));
        let caps = gst::Caps::builder("application/x-rtp")
            .field("media", "audio")
            .field("payload", pt as i32)
            .field("clock-rate", rate as i32)
            .field("encoding-name", "TELEPHONE-EVENT")
            .field("ssrc", ssrc)
            .build();
        Ok(Press {
            element: self.obj().clone(),
            pad: self.source.pad.clone(),
            prelude: Prelude::new(Some(caps)),
            keys: Arc::clone(&self.keys),
            clock: Arc::clone(&self.clock),
            rate,
            pt: pt as u8,
            ssrc,
            redundancy: settings.get("packet-redundancy"),
            offset: or_random(settings.get("timestamp-offset")),
            seqnum: or_random(settings.get::<i32>("seqnum-offset").into()) as u16,
            phase: Phase::Idle,
            sleep: None,
        })
    }

    fn playing(&self) {
        self.clock.start(&*self.obj());
    }

    fn activated(&self, active: bool) {
        let dropped = self.keys.clear();
        if !active {
            for key in dropped {
                key.post(&self.obj(), "dtmf-event-dropped");
            }
        }
    }

    fn source_event(&self, event: &gst::Event) -> Option<bool> {
        let gst::EventView::CustomUpstream(event) = event.view() else {
            return None;
        };
        let structure = event
            .structure()
            .filter(|structure| structure.name() == "dtmf-event")?;
        let int = |field| structure.get::<i32>(field).ok();
        // Method 1 asks for RTP events. Method 2 asks for the key's sound, which this element
        // cannot produce.
        if int("type") != Some(1) || int("method").is_some_and(|method| method != 1) {
            return Some(false);
        }
        let key = match structure.get::<bool>("start") {
            Ok(false) => Key::Up,
            Ok(true) => {
                let within = |field, max| int(field).filter(|value| (0..=max).contains(value));
                let (Some(number), Some(volume)) = (within("number", 15), within("volume", 36))
                else {
                    return Some(false);
                };
                Key::Down {
                    number: number as u8,
                    volume: volume as u8,
                }
            }
            Err(_) => return Some(false),
        };
        Some(self.keys.push(key))
    }
}

/// The current activity of the task.
enum Phase {
    Idle,
    /// A key is pressed. A segment is a part of the press whose duration fits into 16 bits.
    Pressed {
        number: u8,
        volume: u8,
        begin: gst::ClockTime,
        /// The RTP time stamp of the segment.
        timestamp: u32,
        /// The duration of the segment until now, in ticks of the RTP clock.
        duration: u32,
        /// The duration of the whole press in ms.
        total_ms: u32,
    },
    /// The pause after a press. The next press begins when it is over.
    Pause,
}

/// The body of the streaming task.
pub(crate) struct Press {
    element: RtpDtmfSrcElement,
    pad: gst::Pad,
    prelude: Prelude,
    keys: Arc<Keys>,
    clock: Arc<PipelineClock>,
    rate: u32,
    pt: u8,
    ssrc: u32,
    redundancy: u32,
    offset: u32,
    seqnum: u16,
    phase: Phase,
    sleep: Option<creel::time::Sleep>,
}

/// One packet of a press.
struct Packet {
    number: u8,
    volume: u8,
    timestamp: u32,
    duration: u32,
    marker: bool,
    end: bool,
    pts: gst::ClockTime,
}

impl Body for Press {
    fn poll_step(&mut self, cx: &mut Cx<'_>) -> Poll<Result<(), gst::FlowError>> {
        if let Some(sleep) = &mut self.sleep {
            ready!(Pin::new(sleep).poll(cx));
            self.sleep = None;
        }
        match self.phase {
            Phase::Idle => {
                let (number, volume) = ready!(self.keys.poll_press(cx));
                let begin = self.clock.running_time().unwrap_or_default();
                let ticks = u128::from(begin.nseconds()) * u128::from(self.rate) / 1_000_000_000;
                self.phase = Phase::Pressed {
                    number,
                    volume,
                    begin,
                    timestamp: self.offset.wrapping_add(ticks as u32),
                    duration: 0,
                    total_ms: 0,
                };
                self.keys.presses.fetch_add(1, Ordering::Relaxed);
                Key::Down { number, volume }.post(&self.element, PROCESSED);
                self.wait(Duration::from_millis(PACKET_MS.into()));
                Poll::Ready(Ok(()))
            }
            Phase::Pressed { .. } => Poll::Ready(self.press()),
            Phase::Pause => {
                self.phase = Phase::Idle;
                Poll::Ready(Ok(()))
            }
        }
    }

    fn ended(&mut self, error: gst::FlowError) {
        self.prelude.push(&self.pad);
        source::end(self.element.upcast_ref(), &self.pad, error);
    }

    fn flushed(&mut self) {
        self.prelude.flushed();
        self.phase = Phase::Idle;
    }

    fn restarted(&mut self) {
        self.prelude.restarted();
        (self.phase, self.sleep) = (Phase::Idle, None);
    }

    fn panicked(&mut self, message: &str) {
        source::report_panic(self.element.upcast_ref(), &self.pad, message);
    }
}

impl Press {
    fn wait(&mut self, time: Duration) {
        self.sleep = Some(creel::time::sleep(time));
    }

    /// Sends the next packet of a press, which covers the time until now.
    fn press(&mut self) -> Result<(), gst::FlowError> {
        let step = self.rate * PACKET_MS / 1_000;
        let redundancy = self.redundancy;
        let Phase::Pressed {
            number,
            volume,
            begin,
            timestamp,
            duration,
            total_ms,
        } = &mut self.phase
        else {
            return Ok(());
        };
        let first = *total_ms == 0;
        if *duration + step > u32::from(u16::MAX) {
            // The next segment continues where the last one ended. Only the first packet of the
            // whole press has the marker.
            *timestamp = timestamp.wrapping_add(*duration);
            *duration = 0;
        }
        *duration += step;
        *total_ms += PACKET_MS;
        let end = *total_ms >= PRESS_MS_MIN && self.keys.take_release();
        let packet = Packet {
            number: *number,
            volume: *volume,
            timestamp: *timestamp,
            duration: *duration,
            marker: first,
            end,
            pts: *begin + u64::from(*total_ms - PACKET_MS) * gst::ClockTime::MSECOND,
        };
        if end {
            self.phase = Phase::Pause;
            Key::Up.post(&self.element, PROCESSED);
            self.wait(Duration::from_millis(PAUSE_MS.into()));
        } else {
            self.wait(Duration::from_millis(PACKET_MS.into()));
        }
        self.prelude.push(&self.pad);
        for _ in 0..if first || end { redundancy } else { 1 } {
            self.send(&packet)?;
        }
        Ok(())
    }

    fn send(&mut self, packet: &Packet) -> Result<(), gst::FlowError> {
        let mut bytes = Vec::with_capacity(16);
        bytes.extend([0x80, (u8::from(packet.marker) << 7) | self.pt]);
        bytes.extend(self.seqnum.to_be_bytes());
        bytes.extend(packet.timestamp.to_be_bytes());
        bytes.extend(self.ssrc.to_be_bytes());
        bytes.extend([packet.number, (u8::from(packet.end) << 7) | packet.volume]);
        bytes.extend((packet.duration as u16).to_be_bytes());
        let mut buffer = gst::Buffer::from_slice(bytes);
        let inner = buffer.get_mut().ok_or(gst::FlowError::Error)?;
        inner.set_pts(packet.pts);
        let pause_ms = if packet.end { PAUSE_MS } else { 0 };
        inner.set_duration(u64::from(PACKET_MS + pause_ms) * gst::ClockTime::MSECOND);
        self.keys
            .seqnum
            .store(self.seqnum.into(), Ordering::Relaxed);
        self.keys
            .timestamp
            .store(packet.timestamp, Ordering::Relaxed);
        self.seqnum = self.seqnum.wrapping_add(1);
        self.pad.push(buffer).map(drop)
    }
}
