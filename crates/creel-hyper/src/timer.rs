//! Runs hyper's timeouts on Creel's timers.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

/// A timer for hyper's timeouts, for example those of request heads, keep-alive and pings.
///
/// ```
/// use std::time::Duration;
///
/// use hyper::rt::Timer as _;
///
/// let pool = creel::Pool::builder().workers(1).build()?;
/// pool.block_on(creel_hyper::Timer.sleep(Duration::from_millis(1)));
/// # Ok::<(), creel::BuildError>(())
/// ```
#[derive(Debug, Clone, Copy, Default)]
pub struct Timer;

/// A sleep in the form that hyper expects.
struct Sleep(creel::time::Sleep);

impl Future for Sleep {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        Pin::new(&mut self.0).poll(cx)
    }
}

impl hyper::rt::Sleep for Sleep {}

impl hyper::rt::Timer for Timer {
    fn sleep(&self, duration: Duration) -> Pin<Box<dyn hyper::rt::Sleep>> {
        Box::pin(Sleep(creel::time::sleep(duration)))
    }

    fn sleep_until(&self, deadline: Instant) -> Pin<Box<dyn hyper::rt::Sleep>> {
        Box::pin(Sleep(creel::time::sleep_until(deadline)))
    }

    fn reset(&self, sleep: &mut Pin<Box<dyn hyper::rt::Sleep>>, deadline: Instant) {
        match sleep.as_mut().downcast_mut_pin::<Sleep>() {
            Some(mut own) => own.0.reset(deadline),
            None => *sleep = self.sleep_until(deadline),
        }
    }
}
