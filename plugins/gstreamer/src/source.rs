//! The common parts of all elements that push buffers from a task of a context.

use gst::glib;
use gst::prelude::*;
use gst::subclass::prelude::*;
use std::sync::{Arc, Mutex, PoisonError};

use crate::context::Context;
use crate::stream::{Body, Stream};

/// The streaming side of an element with one source pad.
pub(crate) struct Source<B> {
    pub(crate) pad: gst::Pad,
    pub(crate) stream: Stream<B>,
    context: Mutex<Option<Arc<Context>>>,
}

impl<B: Body> Source<B> {
    pub(crate) fn new(pad: gst::Pad) -> Self {
        Self {
            pad,
            stream: Stream::default(),
            context: Mutex::default(),
        }
    }

    /// Returns the context, which exists except in the state NULL.
    pub(crate) fn context(&self) -> Option<Arc<Context>> {
        self.lock().clone()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Option<Arc<Context>>> {
        self.context.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Starts the task in `context`.
    pub(crate) fn prepare(&self, context: Arc<Context>, body: B) {
        self.stream.prepare(&context, body);
        *self.lock() = Some(context);
    }

    /// Ends the task, and leaves the context.
    pub(crate) fn unprepare(&self) {
        self.stream.unprepare();
        let context = self.lock().take();
        drop(context); // without the lock, because the end of a pool waits for its threads
    }

    /// Ends a flush that began with [`Stream::flush_start`], and pushes `event` downstream.
    pub(crate) fn flush_stop(&self, event: gst::Event) -> bool {
        self.stream.wait_for_step();
        let pushed = self.pad.push_event(event);
        self.stream.flush_stop();
        pushed
    }
}

/// An element that produces buffers and has no sink pad.
pub(crate) trait SourceImpl: ElementImpl<Type: IsA<gst::Element>> {
    type Body: Body;

    fn source(&self) -> &Source<Self::Body>;

    /// Creates the body of the task when the element leaves the state NULL.
    fn prepare_body(&self, context: &Arc<Context>) -> Result<Self::Body, gst::ErrorMessage>;

    /// Releases what the element does not need in the state NULL.
    fn unprepared(&self) {}

    /// Returns the context of the element's settings.
    fn acquire_context(&self) -> Result<Arc<Context>, gst::ErrorMessage>;

    /// Called before the state becomes PLAYING.
    fn playing(&self) {}

    /// Called before the pad is activated or deactivated.
    fn activated(&self, _active: bool) {}

    /// Called when a flush begins and before it ends.
    fn flushing(&self, _flushing: bool) {}

    /// Returns whether the element produces buffers only in the state PLAYING.
    fn is_live(&self) -> bool {
        true
    }

    /// Returns the latency that the element reports in addition to that of its context.
    fn latency(&self) -> gst::ClockTime {
        gst::ClockTime::ZERO
    }

    /// Handles a query, or returns `None` for the default.
    fn source_query(&self, _query: &mut gst::QueryRef) -> Option<bool> {
        None
    }

    /// Handles an event from downstream, or returns `None` for the default.
    fn source_event(&self, _event: &gst::Event) -> Option<bool> {
        None
    }
}

/// Creates the source pad of an element.
pub(crate) fn pad<T: SourceImpl>(class: &glib::Class<T::Type>) -> gst::Pad
where
    <T as ObjectSubclass>::Type: IsA<gst::Element> + glib::object::IsClass,
{
    let template = class.pad_template("src");
    let template = template.expect("the class has this template");
    gst::Pad::builder_from_template(&template)
        .activatemode_function(|_, parent, mode, active| {
            T::catch_panic_pad_function(
                parent,
                || {
                    Err(gst::loggable_error!(
                        gst::CAT_RUST,
                        "the activation panicked"
                    ))
                },
                |element| {
                    if mode == gst::PadMode::Push {
                        element.activated(active);
                        element.source().stream.activate(active);
                    }
                    Ok(())
                },
            )
        })
        .event_function(|_, parent, event| {
            T::catch_panic_pad_function(parent, || false, |element| upstream_event(element, event))
        })
        .query_function(|pad, parent, query| {
            T::catch_panic_pad_function(parent, || false, |element| answer(element, pad, query))
        })
        .flags(gst::PadFlags::FIXED_CAPS)
        .build()
}

/// Handles an event from downstream. Returns true if the element has flushed itself, even if the
/// elements after it refuse the event.
fn upstream_event<T: SourceImpl>(element: &T, event: gst::Event) -> bool {
    if let Some(handled) = element.source_event(&event) {
        return handled;
    }
    let source = element.source();
    match event.view() {
        gst::EventView::FlushStart(_) => {
            element.flushing(true);
            source.stream.flush_start();
            source.pad.push_event(event);
            true
        }
        gst::EventView::FlushStop(_) => {
            element.flushing(false);
            source.flush_stop(event);
            true
        }
        gst::EventView::Reconfigure(_) | gst::EventView::Latency(_) => true,
        _ => false,
    }
}

fn answer<T: SourceImpl>(element: &T, pad: &gst::Pad, query: &mut gst::QueryRef) -> bool {
    if let Some(answered) = element.source_query(query) {
        return answered;
    }
    match query.view_mut() {
        gst::QueryViewMut::Latency(query) => {
            let context = element.source().context();
            let context = context.map_or(gst::ClockTime::ZERO, |context| context.latency());
            query.set(
                element.is_live(),
                context + element.latency(),
                gst::ClockTime::NONE,
            );
            true
        }
        gst::QueryViewMut::Scheduling(query) => {
            query.set(gst::SchedulingFlags::SEQUENTIAL, 1, -1, 0);
            query.add_scheduling_modes([gst::PadMode::Push]);
            true
        }
        gst::QueryViewMut::Caps(query) => {
            let caps = pad
                .current_caps()
                .unwrap_or_else(|| pad.pad_template_caps());
            let caps = match query.filter() {
                Some(filter) => filter.intersect_with_mode(&caps, gst::CapsIntersectMode::First),
                None => caps,
            };
            query.set_result(&caps);
            true
        }
        _ => gst::Pad::query_default(pad, Some(&*element.obj()), query),
    }
}

/// Handles an event that the program sends to the element, for example the end of the stream.
pub(crate) fn send_event<T: SourceImpl>(element: &T, event: gst::Event) -> bool {
    match event.view() {
        gst::EventView::Eos(_) => {
            element.source().stream.ask_for_eos();
            true
        }
        gst::EventView::FlushStart(_) | gst::EventView::FlushStop(_) => {
            upstream_event(element, event)
        }
        _ if event.is_upstream() => element.source().pad.send_event(event),
        _ if event.is_downstream() => element.source().pad.push_event(event),
        _ => false,
    }
}

/// Changes the state of the element.
pub(crate) fn change_state<T: SourceImpl>(
    element: &T,
    transition: gst::StateChange,
) -> Result<gst::StateChangeSuccess, gst::StateChangeError> {
    let source = element.source();
    match transition {
        gst::StateChange::NullToReady => prepare(element).map_err(|error| {
            element.post_error_message(error);
            gst::StateChangeError
        })?,
        gst::StateChange::PausedToPlaying => {
            element.playing();
            source.stream.run();
        }
        gst::StateChange::PlayingToPaused if element.is_live() => source.stream.pause(),
        _ => {}
    }
    let changed = element.parent_change_state(transition);
    match transition {
        gst::StateChange::ReadyToPaused if changed.is_ok() => {
            if element.is_live() {
                return Ok(gst::StateChangeSuccess::NoPreroll);
            }
            source.stream.run();
        }
        gst::StateChange::PlayingToPaused if changed.is_ok() && element.is_live() => {
            return Ok(gst::StateChangeSuccess::NoPreroll);
        }
        gst::StateChange::PausedToReady => source.stream.pause(),
        gst::StateChange::ReadyToNull => {
            source.unprepare();
            element.unprepared();
        }
        _ => {}
    }
    changed
}

fn prepare<T: SourceImpl>(element: &T) -> Result<(), gst::ErrorMessage> {
    let context = element.acquire_context()?;
    let body = element.prepare_body(&context)?;
    element.source().prepare(context, body);
    Ok(())
}

/// The events that a stream sends before its first buffer.
pub(crate) struct Prelude {
    caps: Option<gst::Caps>,
    stream_start: bool,
    segment: bool,
    segment_caps: bool,
}

impl Prelude {
    /// Creates the events of a new stream, whose buffers have `caps` if these are known.
    pub(crate) fn new(caps: Option<gst::Caps>) -> Self {
        Self {
            caps,
            stream_start: true,
            segment: true,
            segment_caps: true,
        }
    }

    /// Makes the stream send its segment again, because a flush has removed it.
    pub(crate) fn flushed(&mut self) {
        self.segment = true;
    }

    /// Makes the stream send all events again.
    pub(crate) fn restarted(&mut self) {
        *self = Self::new(self.caps.take());
    }

    /// Makes the stream use new caps.
    pub(crate) fn set_caps(&mut self, caps: gst::Caps) {
        self.caps = Some(caps);
        self.segment_caps = true;
    }

    /// Pushes the events that are due.
    pub(crate) fn push(&mut self, pad: &gst::Pad) {
        self.push_with(pad, || {
            gst::FormattedSegment::<gst::ClockTime>::new().upcast()
        });
    }

    /// Pushes the events that are due, as [`push`](Self::push) does, with a segment that the caller
    /// chooses.
    pub(crate) fn push_with(&mut self, pad: &gst::Pad, segment: impl FnOnce() -> gst::Segment) {
        if !(self.stream_start || self.segment || self.segment_caps) {
            return;
        }
        if std::mem::take(&mut self.stream_start) {
            let element = pad.parent_element();
            let id = pad.create_stream_id(
                element.as_ref().expect("the pad has an element"),
                None::<&str>,
            );
            let group = gst::GroupId::next();
            pad.push_event(
                gst::event::StreamStart::builder(&id)
                    .group_id(group)
                    .build(),
            );
        }
        if std::mem::take(&mut self.segment_caps)
            && let Some(caps) = &self.caps
        {
            pad.push_event(gst::event::Caps::new(caps));
        }
        if std::mem::take(&mut self.segment) {
            pad.push_event(gst::event::Segment::new(&segment()));
        }
    }
}

/// Ends the stream of a source. [Reports](report) `error`, and then pushes the end of the stream.
pub(crate) fn end(element: &gst::Element, pad: &gst::Pad, error: gst::FlowError) {
    report(element, error);
    pad.push_event(gst::event::Eos::new());
}

/// Reports that a stream has failed with `error`, unless it is the normal end or a flush.
pub(crate) fn report(element: &gst::Element, error: gst::FlowError) {
    if error != gst::FlowError::Eos && error != gst::FlowError::Flushing {
        gst::element_error!(
            element,
            gst::StreamError::Failed,
            ("Internal data stream error."),
            ["streaming stopped, reason {error:?}"]
        );
    }
}

/// Reports that the streaming task of `element` has panicked.
pub(crate) fn report_panic(element: &gst::Element, pad: &gst::Pad, message: &str) {
    gst::element_error!(element, gst::LibraryError::Failed, ("Panicked: {message}"));
    pad.push_event(gst::event::Eos::new());
}
