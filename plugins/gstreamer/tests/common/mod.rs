//! Pipelines for tests, which fail after a time limit instead of hanging.

#![allow(dead_code)] // each test file uses a part of this

use gst::prelude::*;
use std::sync::{Arc, Mutex, Once};
use std::time::{Duration, Instant};

/// The time after which a test fails.
const LIMIT: Duration = Duration::from_secs(60);

/// Loads GStreamer and the plugin.
pub fn init() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        gst::init().unwrap();
        gstcreel::register().unwrap();
    });
}

/// Returns the number in an environment variable, or `default` if it is not set.
pub fn number(name: &str, default: u64) -> u64 {
    let text = std::env::var(name).ok();
    text.map_or(default, |text| text.parse().expect("a number"))
}

/// Waits until `done` returns true.
#[track_caller]
pub fn wait_for(done: impl Fn() -> bool) {
    wait_until(done, || ());
}

/// Waits until `done` returns true. Calls `explain` before the test fails because it never does.
#[track_caller]
pub fn wait_until(done: impl Fn() -> bool, explain: impl Fn()) {
    let begin = Instant::now();
    while !done() {
        if begin.elapsed() > LIMIT {
            explain();
            panic!("the test waits in vain");
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// A pipeline whose state becomes NULL when it is dropped.
pub struct Pipeline(gst::Pipeline);

impl Pipeline {
    #[track_caller]
    pub fn parse(text: &str) -> Self {
        init();
        let element = gst::parse::launch_full(text, None, gst::ParseFlags::FATAL_ERRORS).unwrap();
        let pipeline = match element.downcast::<gst::Pipeline>() {
            Ok(pipeline) => pipeline,
            Err(element) => {
                let pipeline = gst::Pipeline::new();
                pipeline.add(&element).unwrap();
                pipeline
            }
        };
        Self(pipeline)
    }

    pub fn bin(&self) -> &gst::Pipeline {
        &self.0
    }

    pub fn get(&self, name: &str) -> gst::Element {
        self.0.by_name(name).unwrap()
    }

    /// Returns the first of our elements.
    pub fn element(&self) -> gst::Element {
        let ours = |element: &gst::Element| element.type_().name().starts_with("GstCreel");
        self.0.children().into_iter().rev().find(ours).unwrap()
    }

    #[track_caller]
    pub fn set_state(&self, state: gst::State) {
        self.0.set_state(state).unwrap();
        let (result, now, _) = self.0.state(gst::ClockTime::from_seconds(60));
        result.unwrap();
        assert_eq!(now, state);
    }

    /// Calls `f` for each buffer that arrives at the fakesink `name`.
    pub fn on_buffer(
        &self,
        name: &str,
        f: impl Fn(&gst::BufferRef, Option<gst::Caps>) + Send + Sync + 'static,
    ) {
        self.get(name).connect("handoff", false, move |values| {
            let buffer = values[1].get::<gst::Buffer>().unwrap();
            let pad = values[2].get::<gst::Pad>().unwrap();
            f(&buffer, pad.current_caps());
            None
        });
    }

    #[track_caller]
    fn wait_for_message(&self, kind: gst::MessageType) -> gst::Message {
        let bus = self.0.bus().unwrap();
        let kinds = [kind, gst::MessageType::Error];
        let message = bus.timed_pop_filtered(gst::ClockTime::from_seconds(60), &kinds);
        let message = message.expect("the message arrives");
        assert_eq!(message.type_(), kind, "{message:?}");
        message
    }

    #[track_caller]
    pub fn wait_for_eos(&self) {
        self.wait_for_message(gst::MessageType::Eos);
    }

    #[track_caller]
    pub fn wait_for_warning(&self) {
        self.wait_for_message(gst::MessageType::Warning);
    }

    #[track_caller]
    pub fn wait_for_error(&self) -> String {
        let message = self.wait_for_message(gst::MessageType::Error);
        let gst::MessageView::Error(error) = message.view() else {
            unreachable!("the type of the message was checked")
        };
        format!("{} {:?}", error.error(), error.debug())
    }
}

impl Drop for Pipeline {
    fn drop(&mut self) {
        self.0.set_state(gst::State::Null).unwrap();
    }
}

/// A sink that reports each buffer and does not wait for the clock.
pub const SINK: &str = "fakesink name=sink signal-handoffs=true sync=false async=false";

/// Calls `f` for each buffer that arrives at the sink of a pipeline, and collects the results.
pub fn collect<T: Send + 'static>(
    pipeline: &Pipeline,
    f: impl Fn(&gst::BufferRef) -> T + Send + Sync + 'static,
) -> Arc<Mutex<Vec<T>>> {
    let got = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&got);
    pipeline.on_buffer("sink", move |buffer, _| {
        seen.lock().unwrap().push(f(buffer))
    });
    got
}
