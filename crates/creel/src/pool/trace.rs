//! What each worker did when, written for a trace viewer.

use super::Pool;
use crate::worker::{slots::WorkerSlots, trace::Tracing};
use std::{
    fs::File,
    io::{self, BufWriter, Write},
    path::Path,
};

/// Ends the tracing when dropped.
struct On<'a>(&'a Tracing);

impl Drop for On<'_> {
    fn drop(&mut self) {
        self.0.set(false);
    }
}

impl Pool {
    /// Runs `f` and writes what each worker did meanwhile to the file `path`, for Perfetto
    /// (`ui.perfetto.dev`) or `chrome://tracing` to show: loops, urgent jobs, spins and sleeps,
    /// a row a worker. A loop's caller is in the row of the worker whose share it takes.
    ///
    /// # Errors
    /// If the file cannot be written. `f` has run then.
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

/// The Trace Event Format, complete events.
/// Source: "Trace Event Format", section "Complete Events".
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
