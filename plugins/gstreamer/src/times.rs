//! `creel-times`: a tracer of the time that is spent in each element.
//!
//! An element takes a buffer in its chain function, which usually passes a buffer on to the next
//! element before it returns. We count only the time that an element itself takes, which is the
//! time of its chain function without those of the elements after it. A queue ends such a chain of
//! calls, as everywhere in GStreamer.
//!
//! We leave out the time in which a source makes or receives its buffers, because a source has no
//! chain function.

use gst::glib;
use gst::prelude::*;
use gst::subclass::prelude::*;
use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::{LazyLock, Mutex, PoisonError};
use std::time::{Duration, Instant};

static CAT: LazyLock<gst::DebugCategory> = LazyLock::new(|| {
    gst::DebugCategory::new(
        "creel-times",
        gst::DebugColorFlags::empty(),
        Some("Time spent in each element"),
    )
});

/// A chain function that has not returned yet.
struct Call {
    begin: Instant,
    /// The time of the chain functions that it has called.
    inside: Duration,
}

thread_local! {
    /// The chain functions that this thread is in, from the outermost to the innermost.
    static CALLS: RefCell<Vec<Call>> = const { RefCell::new(Vec::new()) };
}

/// The times of one element.
#[derive(Default)]
struct Times {
    name: String,
    calls: u64,
    total: Duration,
    max: Duration,
}

/// The tracer. It prints its table when GStreamer ends.
#[derive(Default)]
pub struct TimesTracer {
    /// The times by the address of the element.
    elements: Mutex<HashMap<usize, Times>>,
}

gst::glib::wrapper! {
    pub struct Tracer(ObjectSubclass<TimesTracer>)
        @extends gst::Tracer, gst::Object;
}

#[glib::object_subclass]
impl ObjectSubclass for TimesTracer {
    const NAME: &'static str = "GstCreelTimesTracer";
    type Type = Tracer;
    type ParentType = gst::Tracer;
}

impl ObjectImpl for TimesTracer {
    fn constructed(&self) {
        self.parent_constructed();
        self.register_hook(TracerHook::PadChainPre);
        self.register_hook(TracerHook::PadChainPost);
        self.register_hook(TracerHook::PadChainListPre);
        self.register_hook(TracerHook::PadChainListPost);
    }

    fn dispose(&self) {
        let mut elements = self.elements.lock().unwrap_or_else(PoisonError::into_inner);
        let mut all: Vec<Times> = elements.drain().map(|(_, times)| times).collect();
        all.sort_by_key(|times| std::cmp::Reverse(times.total));
        for Times {
            name,
            calls,
            total,
            max,
        } in all
        {
            let mean = total / calls.try_into().unwrap_or(u32::MAX);
            gst::info!(
                CAT,
                "{name}: {total:?} in {calls} calls, {mean:?} each, at most {max:?}"
            );
        }
    }
}

impl GstObjectImpl for TimesTracer {}

impl TracerImpl for TimesTracer {
    fn pad_chain_pre(&self, _: u64, _: &gst::Pad, _: &gst::Buffer) {
        begin();
    }

    fn pad_chain_list_pre(&self, _: u64, _: &gst::Pad, _: &gst::BufferList) {
        begin();
    }

    fn pad_chain_post(&self, _: u64, pad: &gst::Pad, _: Result<gst::FlowSuccess, gst::FlowError>) {
        self.end(pad);
    }

    fn pad_chain_list_post(
        &self,
        _: u64,
        pad: &gst::Pad,
        _: Result<gst::FlowSuccess, gst::FlowError>,
    ) {
        self.end(pad);
    }
}

fn begin() {
    let call = Call {
        begin: Instant::now(),
        inside: Duration::ZERO,
    };
    CALLS.with_borrow_mut(|calls| calls.push(call));
}

impl TimesTracer {
    fn end(&self, pad: &gst::Pad) {
        let own = CALLS.with_borrow_mut(|calls| {
            let call = calls.pop()?;
            let whole = call.begin.elapsed();
            if let Some(outer) = calls.last_mut() {
                outer.inside += whole;
            }
            Some(whole.saturating_sub(call.inside))
        });
        // The pad of a bin only passes a buffer on to an element in the bin.
        let element = pad.parent_element().filter(|it| !it.is::<gst::Bin>());
        let (Some(own), Some(element)) = (own, element) else {
            return;
        };
        let mut elements = self.elements.lock().unwrap_or_else(PoisonError::into_inner);
        let times = elements
            .entry(element.as_ptr().addr())
            .or_insert_with(|| Times {
                name: element.name().into(),
                ..Times::default()
            });
        times.calls += 1;
        times.total += own;
        times.max = times.max.max(own);
    }
}
