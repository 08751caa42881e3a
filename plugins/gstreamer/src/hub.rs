//! Named connections between pipelines, for the proxy and inter elements.
//!
//! A [`Hub`] has at most one sink and any number of receivers, each of which has a queue. A
//! receiver that joins late, or that was stopped in between, first gets the sticky events of the
//! sink's pad. The sink's streaming thread puts them into the queue, because only this thread knows
//! which events come before the next buffer.

use gst::prelude::*;
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use crate::fifo::{Fifo, Item, Since};
use crate::queue::{self, Forward};
use crate::source::Source;

/// A receiver of a hub, which is the streaming side of a source element.
pub(crate) struct Receiver {
    pub(crate) fifo: Arc<Fifo>,
    pub(crate) source: Source<Forward>,
    /// The start of the queue, counted from 1, for which the receiver has got the sticky events of
    /// the sink. If the queue has been started again since, the receiver needs them again.
    pub(crate) joined: AtomicU64,
    /// The hub that the receiver belongs to. It is only compared.
    pub(crate) hub: AtomicPtr<Hub>,
}

/// The hubs of one kind of element.
pub(crate) struct Hubs {
    kind: Kind,
    by_name: Mutex<HashMap<String, Weak<Hub>>>,
}

impl Hubs {
    pub(crate) fn new(kind: Kind) -> Self {
        Self {
            kind,
            by_name: Mutex::default(),
        }
    }
}

/// How many receivers a hub may have, and whether they affect its sink.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// One receiver. Its errors and its upstream events reach the sink.
    Pair,
    /// Any number of receivers, which affect neither the sink nor each other. Each receiver reports
    /// its own errors.
    Broadcast,
}

/// A named connection.
pub(crate) struct Hub {
    pub(crate) kind: Kind,
    inner: Mutex<Inner>,
    /// Whether the sink stops, so that its streaming thread must not wait for a receiver.
    stops: AtomicBool,
}

#[derive(Default)]
struct Inner {
    sink: Option<gst::glib::WeakRef<gst::Pad>>,
    /// The receivers. The list is shared, so that each buffer reads it without an allocation.
    receivers: Arc<Vec<Arc<Receiver>>>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Hub {
    /// Returns the hub with this name.
    pub(crate) fn acquire(hubs: &Hubs, name: &str) -> Arc<Self> {
        let mut by_name = lock(&hubs.by_name);
        if let Some(hub) = by_name.get(name).and_then(Weak::upgrade) {
            return hub;
        }
        by_name.retain(|_, hub| hub.strong_count() > 0);
        let hub = Arc::new(Self {
            kind: hubs.kind,
            inner: Mutex::default(),
            stops: AtomicBool::new(false),
        });
        by_name.insert(name.into(), Arc::downgrade(&hub));
        hub
    }

    /// Makes `pad` the sink. Returns `false` if there is one already.
    pub(crate) fn connect_sink(&self, pad: &gst::Pad) -> bool {
        let mut inner = lock(&self.inner);
        let free = inner
            .sink
            .as_ref()
            .is_none_or(|sink| sink.upgrade().is_none());
        if free {
            inner.sink = Some(pad.downgrade());
            for receiver in inner.receivers.iter() {
                receiver.joined.store(0, Ordering::SeqCst);
            }
        }
        free
    }

    /// Removes the sink.
    pub(crate) fn disconnect_sink(&self) {
        lock(&self.inner).sink = None;
    }

    /// Adds a receiver. Returns `false` if there is one already and only one is allowed.
    pub(crate) fn connect(&self, receiver: &Arc<Receiver>) -> bool {
        let mut inner = lock(&self.inner);
        let free = self.kind == Kind::Broadcast || inner.receivers.is_empty();
        if free {
            receiver.hub.store(self.address(), Ordering::SeqCst);
            Arc::make_mut(&mut inner.receivers).push(Arc::clone(receiver));
        }
        free
    }

    /// Removes a receiver.
    pub(crate) fn disconnect(&self, receiver: &Arc<Receiver>) {
        let mut inner = lock(&self.inner);
        Arc::make_mut(&mut inner.receivers).retain(|known| !Arc::ptr_eq(known, receiver));
    }

    /// Returns the pad of the sink.
    pub(crate) fn sink(&self) -> Option<gst::Pad> {
        lock(&self.inner).sink.as_ref()?.upgrade()
    }

    fn address(&self) -> *mut Self {
        std::ptr::from_ref(self).cast_mut()
    }

    fn receivers(&self) -> Arc<Vec<Arc<Receiver>>> {
        Arc::clone(&lock(&self.inner).receivers)
    }

    /// Sets whether the sink stops. If it does, a thread that waits for a receiver returns.
    pub(crate) fn stop(&self, stops: bool) {
        self.stops.store(stops, Ordering::SeqCst);
        if stops {
            self.receivers()
                .iter()
                .for_each(|receiver| receiver.fifo.interrupt());
        }
    }

    /// Passes an item of the sink's pad to all receivers. Returns the error of the receiver of a
    /// pair, if it plays, or [`gst::FlowError::Flushing`] if the sink stops.
    pub(crate) fn send(
        &self,
        pad: &gst::Pad,
        item: &Item,
    ) -> Result<gst::FlowSuccess, gst::FlowError> {
        let mut result = Ok(gst::FlowSuccess::Ok);
        for receiver in self.receivers().iter() {
            // We read the counts before the flag `stops`. If `stop` interrupts the queue after we
            // have read the flag, `push_since` sees that the counts have changed, and does not
            // wait.
            let since = receiver.fifo.since();
            if self.stops.load(Ordering::SeqCst) {
                return Err(gst::FlowError::Flushing);
            }
            // The receiver may have changed to another hub since we read the list. In this case, it
            // belongs to that hub before its queue starts again, so that we see one of the two.
            if receiver.hub.load(Ordering::SeqCst) != self.address() {
                continue;
            }
            let joins = receiver.joined.load(Ordering::SeqCst) != since.starts;
            if joins && !receiver.welcome(pad, item, since) {
                continue;
            }
            let pushed = receiver.fifo.push_since(item.clone(), since);
            // A receiver that does not play takes nothing, which is not an error of the sink.
            if let Err(error) = pushed
                && self.kind == Kind::Pair
                && error != gst::FlowError::Flushing
                && error != gst::FlowError::Eos
            {
                result = result.and(Err(error));
            }
        }
        result
    }

    /// Begins or ends a flush at all receivers.
    pub(crate) fn flush(&self, event: &gst::Event) {
        for receiver in self.receivers().iter() {
            if !receiver.source.pad.is_active() {
                continue;
            }
            match event.type_() {
                gst::EventType::FlushStart => {
                    queue::flush_start(&receiver.fifo, &receiver.source, event.clone());
                }
                _ => queue::flush_stop(&receiver.fifo, &receiver.source, event.clone()),
            }
        }
    }
}

impl Receiver {
    /// Adds the sticky events that come before `item`. Returns whether to add the item as well.
    fn welcome(&self, pad: &gst::Pad, item: &Item, since: Since) -> bool {
        if let Item::Event(event) = item
            && event.is_sticky()
            && event.type_() != gst::EventType::Eos
        {
            // The pad keeps this event, and we add it before the next buffer.
            return false;
        }
        let mut events = Vec::new();
        pad.sticky_events_foreach(|event| {
            events.push(event.clone());
            std::ops::ControlFlow::Continue(gst::EventForeachAction::Keep)
        });
        let added = events
            .into_iter()
            .filter(|event| event.type_() != gst::EventType::Eos)
            .all(|event| self.fifo.push_since(Item::Event(event), since).is_ok());
        if added {
            self.joined.store(since.starts, Ordering::SeqCst);
        }
        added
    }
}
