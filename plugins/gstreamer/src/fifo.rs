//! A queue of buffers and events between two streaming threads.
//!
//! A queue has three limits: the number of buffers, their bytes, and the time that they take. It is
//! full as soon as it reaches one of them. Events keep their place between the buffers, and the
//! queue accepts them even if it is full.
//!
//! If the queue is full and not leaky, the caller waits. A thread that belongs to no context
//! blocks. A thread of a context adds the buffer and waits afterwards by deferred work (see
//! [`stream`](crate::stream)), so that its next buffer finds room. It cannot wait before it adds
//! the buffer, because its caller expects the buffer to be taken.

use gst::glib;
use gst::prelude::*;
use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::task::{Context as Cx, Poll, Waker};

use crate::context::Worker;
use crate::stream::{self, defer, in_step};

/// The behaviour of a queue that is full.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, glib::Enum)]
#[enum_type(name = "GstCreelLeaky")]
pub enum Leaky {
    /// The sender waits for room.
    #[default]
    #[enum_value(name = "Not Leaky", nick = "no")]
    No,
    /// The queue drops the new buffer.
    #[enum_value(name = "Leaky on upstream (new buffers)", nick = "upstream")]
    Upstream,
    /// The queue drops its oldest buffers.
    #[enum_value(name = "Leaky on downstream (old buffers)", nick = "downstream")]
    Downstream,
}

/// The limits of a queue, or the size of its contents. A limit of 0 means that there is no limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Level {
    pub(crate) buffers: u32,
    pub(crate) bytes: u32,
    pub(crate) time: gst::ClockTime,
}

impl Level {
    fn reaches(self, limits: Level) -> bool {
        (limits.buffers > 0 && self.buffers >= limits.buffers)
            || (limits.bytes > 0 && self.bytes >= limits.bytes)
            || (!limits.time.is_zero() && self.time >= limits.time)
    }
}

/// An item that moves through a pad in order.
#[derive(Debug, Clone)]
pub(crate) enum Item {
    Buffer(gst::Buffer),
    List(gst::BufferList),
    Event(gst::Event),
}

impl Item {
    fn size(&self) -> (u32, u32) {
        match self {
            Item::Buffer(buffer) => (1, buffer.size() as u32),
            Item::List(list) => (list.len() as u32, list.calculate_size() as u32),
            Item::Event(_) => (0, 0),
        }
    }

    /// Returns the times at which the item begins and ends in the stream.
    fn times(&self, segment: &gst::FormattedSegment<gst::ClockTime>) -> Option<(u64, u64)> {
        let of = |buffer: &gst::BufferRef| {
            let begin = segment.to_running_time(buffer.dts_or_pts()?)?;
            let end = begin + buffer.duration().unwrap_or_default();
            Some((begin.nseconds(), end.nseconds()))
        };
        match self {
            Item::Buffer(buffer) => of(buffer),
            Item::List(list) => {
                let (first, last) = (list.get(0)?, list.get(list.len().checked_sub(1)?)?);
                Some((of(first)?.0, of(last)?.1))
            }
            Item::Event(_) => None,
        }
    }

    /// Pushes the item through `pad`.
    pub(crate) fn push(self, pad: &gst::Pad) -> Result<gst::FlowSuccess, gst::FlowError> {
        match self {
            Item::Buffer(buffer) => pad.push(buffer),
            Item::List(list) => pad.push_list(list),
            Item::Event(event) => {
                pad.push_event(event);
                Ok(gst::FlowSuccess::Ok)
            }
        }
    }
}

struct Entry {
    item: Item,
    times: Option<(u64, u64)>,
}

struct Inner {
    entries: VecDeque<Entry>,
    level: Level,
    limits: Level,
    leaky: Leaky,
    /// The segment of the buffers that arrive.
    segment: gst::FormattedSegment<gst::ClockTime>,
    /// The end of the last buffer that arrived, in running time.
    newest: Option<u64>,
    /// The error that a sender gets if it adds an item, for example an error of the other side.
    /// `None` while the queue accepts items.
    closed: Option<gst::FlowError>,
    eos: bool,
    /// Whether `closed` is an error of the other side, rather than a flush.
    failed: bool,
    /// Whether the other side pushes an item that it has taken.
    pushing: bool,
    /// The number of buffers dropped because the queue was full.
    dropped: u64,
    consumer: Option<Waiter>,
    producers: Vec<Waiter>,
    /// The number of threads that block in `changed`.
    blocked: usize,
    since: Since,
}

/// A task that waits for a queue.
struct Waiter {
    waker: Waker,
    /// The worker that runs the task.
    worker: Option<Arc<Worker>>,
}

impl Waiter {
    fn new(cx: &Cx<'_>) -> Self {
        Self {
            waker: cx.waker().clone(),
            worker: stream::worker(),
        }
    }

    /// Wakes the task. It does not wait until the quantum of its context is over, because the
    /// latency of a pipeline would otherwise grow by a quantum with each queue.
    fn wake(self) {
        self.waker.wake();
        if let Some(worker) = self.worker.filter(|worker| !stream::is_on(worker)) {
            worker.hurry();
        }
    }
}

/// Counts of the interruptions and starts of a queue. A sender reads them before it decides
/// something about its item. When it then adds the item, the queue can see whether it was
/// interrupted or started again in between.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Since {
    /// The number of times that senders were interrupted.
    interrupts: u64,
    /// The number of times that the queue was started.
    pub(crate) starts: u64,
}

/// A queue of buffers and events.
pub(crate) struct Fifo {
    inner: Mutex<Inner>,
    changed: Condvar,
}

impl Fifo {
    /// Creates a queue that refuses everything until it is [opened](Self::open).
    pub(crate) fn new(limits: Level) -> Arc<Self> {
        Arc::new(Self {
            inner: Mutex::new(Inner {
                entries: VecDeque::new(),
                level: Level::default(),
                limits,
                leaky: Leaky::No,
                segment: gst::FormattedSegment::new(),
                newest: None,
                closed: Some(gst::FlowError::Flushing),
                eos: false,
                failed: false,
                pushing: false,
                dropped: 0,
                consumer: None,
                producers: Vec::new(),
                blocked: 0,
                since: Since::default(),
            }),
            changed: Condvar::new(),
        })
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sets the limits and the behaviour of a full queue.
    pub(crate) fn configure(&self, limits: Level, leaky: Leaky) {
        let mut inner = self.lock();
        (inner.limits, inner.leaky) = (limits, leaky);
        self.release(&mut inner);
    }

    /// Accepts items from now on.
    pub(crate) fn open(&self) {
        let mut inner = self.lock();
        (inner.closed, inner.eos, inner.failed) = (None, false, false);
    }

    /// Removes all items, and accepts items from now on, from senders that read [`Since`] after
    /// this call. Two threads may start the queue at once, so nobody may add an item between the
    /// two.
    pub(crate) fn start(&self) {
        let mut inner = self.lock();
        let removed = self.remove_all(&mut inner);
        inner.since.starts += 1;
        (inner.closed, inner.eos, inner.failed) = (None, false, false);
        drop(inner);
        drop(removed);
    }

    /// Closes the queue because the other side returned an error.
    pub(crate) fn fail(&self, error: gst::FlowError) {
        let mut inner = self.lock();
        if inner.closed.is_none() {
            (inner.closed, inner.failed) = (Some(error), true);
            self.release(&mut inner);
        }
    }

    /// Forgets an error of the other side. Returns whether there was one.
    pub(crate) fn reopen_after_error(&self) -> bool {
        let mut inner = self.lock();
        let failed = std::mem::take(&mut inner.failed);
        if failed {
            inner.closed = None;
        }
        failed
    }

    /// Refuses items from now on with `error`, and lets all senders that wait return it.
    pub(crate) fn close(&self, error: gst::FlowError) {
        let mut inner = self.lock();
        (inner.closed, inner.failed) = (Some(error), false);
        self.release(&mut inner);
    }

    /// Makes all senders that wait for room now return [`gst::FlowError::Flushing`], or continue if
    /// they run on a thread of a context.
    pub(crate) fn interrupt(&self) {
        let mut inner = self.lock();
        inner.since.interrupts += 1;
        self.changed.notify_all();
        inner.producers.drain(..).for_each(Waiter::wake);
    }

    /// Returns whether everything has been pushed.
    pub(crate) fn is_empty(&self) -> bool {
        self.lock().is_empty()
    }

    /// Blocks until everything has been pushed. Returns `false` if the queue was closed instead.
    pub(crate) fn wait_until_empty(&self) -> bool {
        let mut inner = self.lock();
        while inner.closed.is_none() && !inner.is_empty() {
            inner.blocked += 1;
            inner = self
                .changed
                .wait(inner)
                .unwrap_or_else(PoisonError::into_inner);
            inner.blocked -= 1;
        }
        inner.closed.is_none()
    }

    /// Records that the other side has pushed the item that it had taken.
    pub(crate) fn pushed(&self) {
        let mut inner = self.lock();
        inner.pushing = false;
        self.notify_blocked(&inner);
    }

    /// Removes all items. Returns the sticky events among them in order, so that the caller can
    /// store them in the source pad.
    pub(crate) fn clear(&self) -> Vec<gst::Event> {
        let entries = self.remove_all(&mut self.lock());
        let events = entries.into_iter().filter_map(|entry| match entry.item {
            Item::Event(event) => Some(event),
            _ => None,
        });
        events.filter(|event| event.is_sticky()).collect()
    }

    pub(crate) fn level(&self) -> Level {
        self.lock().level
    }

    /// Returns the number of buffers dropped because the queue was full.
    pub(crate) fn dropped(&self) -> u64 {
        self.lock().dropped
    }

    /// Returns whether the end of the stream has been added.
    pub(crate) fn is_eos(&self) -> bool {
        self.lock().eos
    }

    /// Adds an item. Waits if the queue is full and not leaky, and the item is not an event. On a
    /// thread of a context, it adds the item at once, and the stream waits afterwards.
    ///
    /// # Errors
    ///
    /// Returns the error with which the queue was closed, [`gst::FlowError::Flushing`] if an
    /// interrupt ended the wait, or [`gst::FlowError::Eos`] after the end of the stream.
    pub(crate) fn push(self: &Arc<Self>, item: Item) -> Result<gst::FlowSuccess, gst::FlowError> {
        self.push_since(item, self.since())
    }

    /// Returns the current counts, for [`push_since`](Self::push_since).
    pub(crate) fn since(&self) -> Since {
        self.lock().since
    }

    /// Does the same as [`push`](Self::push). However, if the queue was started again after `since`
    /// was read, it does not take the item, and if it was interrupted, it does not wait.
    pub(crate) fn push_since(
        self: &Arc<Self>,
        item: Item,
        since: Since,
    ) -> Result<gst::FlowSuccess, gst::FlowError> {
        let is_event = matches!(item, Item::Event(_));
        let mut inner = self.lock();
        let waits = !is_event && inner.leaky == Leaky::No;
        if waits && !in_step() {
            while inner.closed.is_none() && inner.is_full() {
                if inner.since.interrupts != since.interrupts {
                    return Err(gst::FlowError::Flushing);
                }
                inner.blocked += 1;
                inner = self
                    .changed
                    .wait(inner)
                    .unwrap_or_else(PoisonError::into_inner);
                inner.blocked -= 1;
            }
        }
        if let Some(error) = inner.closed {
            return Err(error);
        }
        if inner.since.starts != since.starts {
            return Err(gst::FlowError::Flushing);
        }
        if inner.eos {
            return Err(gst::FlowError::Eos);
        }
        if !is_event && inner.is_full() {
            match inner.leaky {
                Leaky::No => {}
                Leaky::Upstream => {
                    inner.dropped += u64::from(item.size().0);
                    return Ok(gst::FlowSuccess::Ok);
                }
                Leaky::Downstream => inner.drop_oldest(),
            }
        }
        inner.add(item);
        self.notify_blocked(&inner);
        let waits = waits && inner.is_full();
        let consumer = inner.consumer.take();
        drop(inner);
        if let Some(consumer) = consumer {
            consumer.wake();
        }
        if waits && in_step() {
            let fifo = Arc::clone(self);
            defer(Box::new(move |cx| fifo.poll_room(cx, since)));
        }
        Ok(gst::FlowSuccess::Ok)
    }

    /// Adds an item if there is room. If there is no room, drops the item and returns `Ok(false)`.
    /// An event is added even if there is no room.
    pub(crate) fn try_push(&self, item: Item) -> Result<bool, gst::FlowError> {
        let mut inner = self.lock();
        if let Some(error) = inner.closed {
            return Err(error);
        }
        if inner.eos {
            return Err(gst::FlowError::Eos);
        }
        if !matches!(item, Item::Event(_)) && inner.is_full() {
            inner.dropped += u64::from(item.size().0);
            return Ok(false);
        }
        inner.add(item);
        self.notify_blocked(&inner);
        let consumer = inner.consumer.take();
        drop(inner);
        if let Some(consumer) = consumer {
            consumer.wake();
        }
        Ok(true)
    }

    /// Waits until there is room, or the queue is closed.
    fn poll_room(&self, cx: &mut Cx<'_>, since: Since) -> Poll<()> {
        let mut inner = self.lock();
        if inner.since != since || inner.closed.is_some() || !inner.is_full() {
            return Poll::Ready(());
        }
        if !inner
            .producers
            .iter()
            .any(|waiter| waiter.waker.will_wake(cx.waker()))
        {
            inner.producers.push(Waiter::new(cx));
        }
        Poll::Pending
    }

    /// Removes the first item, or arranges that the task of `cx` is woken when there is one.
    pub(crate) fn poll_pop(&self, cx: &mut Cx<'_>) -> Poll<Item> {
        let mut inner = self.lock();
        match inner.pop() {
            Some(item) => {
                self.release(&mut inner);
                Poll::Ready(item)
            }
            None => {
                match &mut inner.consumer {
                    Some(consumer) => consumer.waker.clone_from(cx.waker()),
                    consumer => *consumer = Some(Waiter::new(cx)),
                }
                Poll::Pending
            }
        }
    }

    /// Removes the first item. Blocks until there is one. Returns `None` when the queue is closed.
    pub(crate) fn pop_blocking(&self) -> Option<Item> {
        let mut inner = self.lock();
        loop {
            if inner.closed.is_some() {
                return None;
            }
            if let Some(item) = inner.pop() {
                self.release(&mut inner);
                return Some(item);
            }
            inner.blocked += 1;
            inner = self
                .changed
                .wait(inner)
                .unwrap_or_else(PoisonError::into_inner);
            inner.blocked -= 1;
        }
    }

    /// Makes the threads that block in the queue check it again.
    fn notify_blocked(&self, inner: &Inner) {
        if inner.blocked > 0 {
            self.changed.notify_all();
        }
    }

    fn remove_all(&self, inner: &mut Inner) -> VecDeque<Entry> {
        let entries = std::mem::take(&mut inner.entries);
        (inner.level, inner.newest, inner.eos) = (Level::default(), None, false);
        inner.pushing = false;
        inner.segment = gst::FormattedSegment::new();
        self.release(inner);
        entries
    }

    /// Lets the threads and tasks continue that wait for room, if there is room or the queue is
    /// closed.
    fn release(&self, inner: &mut Inner) {
        self.notify_blocked(inner);
        if !inner.producers.is_empty() && (inner.closed.is_some() || !inner.is_full()) {
            inner.producers.drain(..).for_each(Waiter::wake);
        }
    }
}

impl Inner {
    fn is_empty(&self) -> bool {
        self.entries.is_empty() && !self.pushing
    }

    fn is_full(&self) -> bool {
        self.level.reaches(self.limits)
    }

    fn add(&mut self, item: Item) {
        if let Item::Event(event) = &item {
            match event.view() {
                gst::EventView::Segment(event) => {
                    let time = event.segment().downcast_ref::<gst::ClockTime>();
                    self.segment = time.cloned().unwrap_or_default();
                }
                gst::EventView::Eos(_) => self.eos = true,
                gst::EventView::StreamStart(_) => self.eos = false,
                _ => {}
            }
        }
        let times = item.times(&self.segment);
        let (buffers, bytes) = item.size();
        self.level.buffers += buffers;
        self.level.bytes = self.level.bytes.saturating_add(bytes);
        self.newest = times.map(|times| times.1).or(self.newest);
        self.entries.push_back(Entry { item, times });
        self.measure_time();
    }

    fn pop(&mut self) -> Option<Item> {
        let entry = self.entries.pop_front()?;
        self.pushing = true;
        self.remove_size(&entry.item);
        self.measure_time();
        Some(entry.item)
    }

    fn remove_size(&mut self, item: &Item) {
        let (buffers, bytes) = item.size();
        self.level.buffers -= buffers;
        self.level.bytes = self.level.bytes.saturating_sub(bytes);
    }

    /// Drops the oldest buffers until there is room. Events stay.
    fn drop_oldest(&mut self) {
        while self.is_full() {
            let is_buffer = |entry: &Entry| !matches!(entry.item, Item::Event(_));
            let Some(entry) = self
                .entries
                .iter()
                .position(is_buffer)
                .and_then(|oldest| self.entries.remove(oldest))
            else {
                return;
            };
            self.remove_size(&entry.item);
            self.dropped += u64::from(entry.item.size().0);
            self.measure_time();
        }
    }

    /// Computes the time from the first buffer's beginning to the last one's end.
    fn measure_time(&mut self) {
        // This search is short, because only a few events can be in front of the first buffer.
        let first = self.entries.iter().find_map(|entry| entry.times);
        let time = match (first, self.newest) {
            (Some((begin, _)), Some(end)) => end.saturating_sub(begin),
            _ => 0,
        };
        self.level.time = gst::ClockTime::from_nseconds(time);
    }
}
