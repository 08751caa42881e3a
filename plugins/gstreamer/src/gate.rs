//! Waiting for the pipeline: until it plays, and until the clock reaches a buffer's time.
//!
//! A [`Gate`] is the waiting part of an element that passes items on at their time. On a thread of
//! a context, items that are early stay in the gate, and the stream that brought them waits (see
//! [`stream`](crate::stream)). On other threads, the caller blocks.

use gst::prelude::*;
use gst::subclass::prelude::*;
use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::task::{Context as Cx, Poll, Waker};
use std::time::Duration;

use crate::fifo::Item;
use crate::source;
use crate::stream::{defer, in_step};

type Time = gst::ClockTime;

/// The longest time for which a thread sleeps before it reads the pipeline's clock again. We need
/// a limit, because the pipeline's clock may run faster or slower than the system's.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// An element that uses a gate.
pub(crate) trait Gated: ElementImpl {
    /// Whether items wait for the state PLAYING even if they do not wait for the clock.
    const HOLDS_ALWAYS: bool = true;

    fn gate(&self) -> &Gate;

    /// Passes an item on, now that it is due.
    fn pass(&self, item: Item) -> Result<gst::FlowSuccess, gst::FlowError>;
}

#[derive(Default)]
struct Inner {
    /// Whether the pad is active and no flush is under way.
    open: bool,
    playing: bool,
    clock: Option<(gst::Clock, Time)>,
    /// The time by which all items are delayed.
    latency: Time,
    /// A further delay in ns, which may be negative.
    offset: i64,
    /// The segment of the items, if its format is time. Other items do not wait for the clock.
    segment: Option<gst::FormattedSegment<Time>>,
    /// Items that are early, in order. Only a stream of a context leaves them here.
    early: VecDeque<Item>,
    /// The error of the last early item, which was passed on after its sender had continued. All
    /// further items return this error to their senders.
    result: Option<gst::FlowError>,
    wakers: Vec<Waker>,
}

/// The waiting part of an element.
#[derive(Default)]
pub(crate) struct Gate {
    inner: Mutex<Inner>,
    changed: Condvar,
}

/// The decision of a gate about an item.
enum Verdict {
    /// The item may pass now.
    Now,
    /// The item has to wait for this time.
    In(Duration),
    /// The item has to wait until the state of the pipeline changes.
    Unknown,
    /// The item must be dropped, because the gate is closed, for example by a flush.
    Never,
}

impl Gate {
    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn change(&self, f: impl FnOnce(&mut Inner)) {
        let mut inner = self.lock();
        f(&mut inner);
        let wakers = std::mem::take(&mut inner.wakers);
        drop(inner);
        self.changed.notify_all();
        wakers.into_iter().for_each(Waker::wake);
    }

    /// Lets items pass from now on, if they are due.
    pub(crate) fn open(&self) {
        self.change(|inner| {
            inner.open = true;
            inner.result = None;
        });
    }

    /// Drops all items, and refuses others until the gate is opened.
    pub(crate) fn close(&self) {
        self.change(|inner| {
            inner.open = false;
            inner.early.clear();
            inner.segment = None;
        });
    }

    /// Lets items pass at their times by this clock and base time, because the state becomes
    /// PLAYING.
    pub(crate) fn play(&self, clock: Option<(gst::Clock, Time)>) {
        self.change(|inner| (inner.playing, inner.clock) = (true, clock));
    }

    /// Holds all items until the pipeline plays again.
    pub(crate) fn pause(&self) {
        self.change(|inner| (inner.playing, inner.clock) = (false, None));
    }

    /// Sets the latency of the pipeline, by which all items are delayed.
    pub(crate) fn set_latency(&self, latency: Time) {
        self.change(|inner| inner.latency = latency);
    }

    /// Sets the delay of all items: a latency, and an offset in ns that may be negative.
    pub(crate) fn set_delay(&self, latency: Time, offset: i64) {
        self.change(|inner| (inner.latency, inner.offset) = (latency, offset));
    }

    /// Passes the item on at once if it is due. Otherwise keeps it and makes the stream wait. On a
    /// thread that belongs to no context, blocks until the item is due. `sync` states whether items
    /// wait for the clock, rather than only for the state PLAYING.
    pub(crate) fn handle<T: Gated>(
        element: &T,
        item: Item,
        sync: bool,
    ) -> Result<gst::FlowSuccess, gst::FlowError>
    where
        T::Type: Send + Sync,
    {
        let gate = element.gate();
        let mut inner = gate.lock();
        if !inner.open {
            return Err(gst::FlowError::Flushing);
        }
        if let Some(error) = inner.result {
            drop(inner);
            // No further item follows the end of the stream, so the sender cannot report the error.
            if let Item::Event(event) = item
                && event.type_() == gst::EventType::Eos
            {
                source::report(element.obj().upcast_ref(), error);
            }
            return Err(error);
        }
        if !in_step() {
            let inner = gate.wait::<T>(inner, &item, sync)?;
            drop(inner);
            return element.pass(item);
        }
        if inner.early.is_empty() && matches!(inner.verdict::<T>(&item, sync), Verdict::Now) {
            drop(inner);
            return element.pass(item);
        }
        inner.early.push_back(item);
        let first = inner.early.len() == 1;
        drop(inner);
        if first {
            let weak = element.obj().downgrade();
            let mut sleep = None;
            defer(Box::new(move |cx| match weak.upgrade() {
                Some(element) => {
                    let element = T::from_obj(&element);
                    element.gate().poll_early(element, cx, sync, &mut sleep)
                }
                None => Poll::Ready(()),
            }));
        }
        Ok(gst::FlowSuccess::Ok)
    }

    /// Blocks until `item` is due.
    fn wait<'a, T: Gated>(
        &'a self,
        mut inner: MutexGuard<'a, Inner>,
        item: &Item,
        sync: bool,
    ) -> Result<MutexGuard<'a, Inner>, gst::FlowError> {
        loop {
            let limit = match inner.verdict::<T>(item, sync) {
                Verdict::Now => return Ok(inner),
                Verdict::Never => return Err(gst::FlowError::Flushing),
                Verdict::In(time) => time.min(LOOK_EVERY),
                Verdict::Unknown => LOOK_EVERY,
            };
            let waited = self.changed.wait_timeout(inner, limit);
            inner = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Passes on the items that have become due. Returns `Ready` when none is left.
    fn poll_early<T: Gated>(
        &self,
        element: &T,
        cx: &mut Cx<'_>,
        sync: bool,
        sleep: &mut Option<creel::time::Sleep>,
    ) -> Poll<()> {
        loop {
            let mut inner = self.lock();
            let Some(item) = inner.early.front() else {
                return Poll::Ready(());
            };
            match inner.verdict::<T>(item, sync) {
                Verdict::Never => {
                    inner.early.clear();
                    return Poll::Ready(());
                }
                Verdict::Now => {
                    let item = inner.early.pop_front().expect("there is a first item");
                    drop(inner);
                    if let Err(error) = element.pass(item) {
                        let mut inner = self.lock();
                        if inner.open {
                            inner.result = Some(error);
                        }
                        inner.early.clear();
                        return Poll::Ready(());
                    }
                    *sleep = None;
                }
                verdict => {
                    if !inner.wakers.iter().any(|waker| waker.will_wake(cx.waker())) {
                        inner.wakers.push(cx.waker().clone());
                    }
                    drop(inner);
                    let Verdict::In(time) = verdict else {
                        return Poll::Pending;
                    };
                    let sleep = sleep.insert(creel::time::sleep(time.min(LOOK_EVERY)));
                    if Pin::new(sleep).poll(cx).is_pending() {
                        return Poll::Pending;
                    }
                }
            }
        }
    }
}

impl Inner {
    fn verdict<T: Gated>(&self, item: &Item, sync: bool) -> Verdict {
        if !self.open {
            return Verdict::Never;
        }
        let time = match item {
            Item::Buffer(buffer) => buffer.dts_or_pts(),
            Item::List(list) => list.get(0).and_then(|buffer| buffer.dts_or_pts()),
            // An event has no time of its own. It passes as soon as the buffers before it have
            // passed.
            Item::Event(_) => return Verdict::Now,
        };
        let segment = self.segment.as_ref().filter(|_| sync);
        if !self.playing && (T::HOLDS_ALWAYS || segment.is_some()) {
            return Verdict::Unknown;
        }
        let running = segment.zip(time);
        let running = running.and_then(|(segment, time)| segment.to_running_time(time));
        let (Some(running), Some((clock, base))) = (running, &self.clock) else {
            return Verdict::Now;
        };
        let due = (*base + running + self.latency)
            .nseconds()
            .saturating_add_signed(self.offset);
        match Time::from_nseconds(due).checked_sub(clock.time()) {
            Some(left) if !left.is_zero() => Verdict::In(left.into()),
            _ => Verdict::Now,
        }
    }
}

/// Handles an event of an element's sink pad, except for what [`Gated::pass`] does with it.
pub(crate) fn sink_event<T: Gated>(
    element: &T,
    event: gst::Event,
) -> Result<gst::FlowSuccess, gst::FlowError>
where
    T::Type: Send + Sync,
{
    let gate = element.gate();
    match event.view() {
        gst::EventView::FlushStart(_) => {
            gate.close();
            element.pass(Item::Event(event))
        }
        gst::EventView::FlushStop(_) => {
            let passed = element.pass(Item::Event(event));
            gate.open();
            passed
        }
        _ => {
            if let gst::EventView::Segment(segment) = event.view() {
                let time = segment.segment().downcast_ref::<Time>().cloned();
                // Items that still wait in the gate belong to the former segment, and we now
                // compute their times with the new one. We accept that, because only a few items
                // wait, and they are of the same stream, so their times are hardly wrong.
                gate.lock().segment = time;
            }
            match event.is_serialized() {
                true => Gate::handle(element, Item::Event(event), true),
                false => element.pass(Item::Event(event)),
            }
        }
    }
}
