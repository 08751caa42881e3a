//! Records what each worker did at which time, in a file for a trace viewer. `worker/trace.rs`
//! collects the spans, and this module writes them.

use super::Pool;
use crate::worker::{slots::WorkerSlots, trace::Tracing};
use std::{
    fs::File,
    io::{self, BufWriter, Write},
    path::Path,
};

/// Stops the tracing when dropped.
struct On<'a>(&'a Tracing);

impl Drop for On<'_> {
    fn drop(&mut self) {
        self.0.set(false);
    }
}

impl Pool {
    /// Runs `f`, writes a trace of what each worker did in that time to the file `path`, and
    /// returns the result of `f`. You can open the file in Perfetto (`ui.perfetto.dev`) or
    /// `chrome://tracing`. It has one row per worker and shows loops, inbox jobs, spins and sleeps.
    /// The caller of a loop appears in the row of the worker whose share it takes.
    ///
    /// # Errors
    /// Returns an error if the file cannot be written. `f` has run in that case.
    ///
    /// ```
    /// let pool = creel::Pool::builder().workers(2).build()?;
    /// let path = std::env::temp_dir().join(format!("creel-{}.json", std::process::id()));
    /// let doubled = pool.trace(&path, || pool.map(&[1, 2, 3], |x| x * 2))?;
    /// assert_eq!(doubled, [2, 4, 6]);
    /// assert!(std::fs::read_to_string(&path)?.starts_with("{\"traceEvents\":["));
    /// # std::fs::remove_file(&path)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn trace<R>(&self, path: impl AsRef<Path>, f: impl FnOnce() -> R) -> io::Result<R> {
        let slots = &self.shared.slots;
        slots.made().for_each(|slot| drop(slot.spans.take()));
        slots.tracing.set(true);
        let on = On(&slots.tracing);
        let result = f();
        drop(on);
        write(slots, path.as_ref())?;
        Ok(result)
    }
}

/// Writes the spans as complete events of the Trace Event Format. Source: "Trace Event Format",
/// section "Complete Events".
fn write(slots: &WorkerSlots, path: &Path) -> io::Result<()> {
    let mut out = BufWriter::new(File::create(path)?);
    write!(out, "{{\"traceEvents\":[")?;
    let mut comma = "";
    for slot in slots.made() {
        let row = slot.index;
        let spans = slot.spans.take();
        if spans.is_empty() {
            continue;
        }
        write!(
            out,
            "{comma}\n{{\"ph\":\"M\",\"name\":\"thread_name\",\"pid\":1,\"tid\":{row},\"args\":{{\"name\":\"worker {row}\"}}}}"
        )?;
        comma = ",";
        for span in spans {
            let name = span.doing.name();
            let begin_us = span.begin_ns as f64 / 1e3;
            let us = span.end_ns.saturating_sub(span.begin_ns) as f64 / 1e3;
            write!(
                out,
                ",\n{{\"ph\":\"X\",\"name\":\"{name}\",\"pid\":1,\"tid\":{row},\"ts\":{begin_us:.3},\"dur\":{us:.3}}}"
            )?;
        }
    }
    writeln!(out, "\n],\"displayTimeUnit\":\"ns\"}}")?;
    out.into_inner()?.sync_all()
}
