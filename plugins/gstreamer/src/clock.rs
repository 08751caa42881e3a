//! The clock of the pipeline, as a streaming task reads it.

use gst::prelude::*;
use std::sync::{Mutex, PoisonError};

/// The clock and the base time of an element, which do not change while it is in the state PLAYING.
/// Asking the element for them would take its lock, which other threads hold during state changes.
#[derive(Default)]
pub(crate) struct PipelineClock(Mutex<Option<(gst::Clock, gst::ClockTime)>>);

impl PipelineClock {
    /// Reads the clock of `element`. Call it when the state becomes PLAYING.
    pub(crate) fn start(&self, element: &impl IsA<gst::Element>) {
        *self.lock() = element.clock().zip(element.base_time());
    }

    /// Returns the running time now, or `None` if the element has no clock.
    pub(crate) fn running_time(&self) -> Option<gst::ClockTime> {
        let inner = self.lock();
        let (clock, base) = inner.as_ref()?;
        Some(clock.time().saturating_sub(*base))
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Option<(gst::Clock, gst::ClockTime)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
