//! The signals that end the service.

use creel_console::Interrupt;

/// Returns a future that is ready at the first SIGINT, SIGTERM or SIGHUP.
///
/// A second SIGINT or SIGTERM ends the process at once. We ignore SIGHUP if the process was started
/// with SIGHUP ignored, for example by `nohup`.
#[cfg(unix)]
pub fn signal() -> anyhow::Result<impl Future<Output = ()>> {
    use creel::signal::{SIGHUP, SIGINT, SIGTERM, signal};
    use creel_console::is_ignored;
    use std::future::poll_fn;
    use std::pin::pin;
    use std::task::Poll;

    let interrupt = Interrupt::install()?;
    let handles_hup = !is_ignored(SIGHUP);
    let signals = [signal(SIGINT)?, signal(SIGTERM)?, signal(SIGHUP)?];
    Ok(async move {
        let [mut int, mut term, mut hup] = signals;
        let (mut int, mut term) = (pin!(int.recv()), pin!(term.recv()));
        let mut hup = pin!(hup.recv());
        poll_fn(|cx| {
            let signalled = int.as_mut().poll(cx).is_ready()
                || term.as_mut().poll(cx).is_ready()
                || handles_hup && hup.as_mut().poll(cx).is_ready();
            if signalled || interrupt.requested() {
                Poll::Ready(())
            } else {
                Poll::Pending
            }
        })
        .await;
    })
}

/// How often we check whether the user has pressed Ctrl-C.
#[cfg(not(unix))]
const POLL_INTERVAL: std::time::Duration = std::time::Duration::from_millis(50);

/// Returns a future that is ready after the first Ctrl-C. A second one ends the process at once.
#[cfg(not(unix))]
pub fn signal() -> anyhow::Result<impl Future<Output = ()>> {
    let interrupt = Interrupt::install()?;
    Ok(async move {
        while !interrupt.requested() {
            creel::time::sleep(POLL_INTERVAL).await;
        }
    })
}
