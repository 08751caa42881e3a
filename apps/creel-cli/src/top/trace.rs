//! Writes a trace for Perfetto. It has one track per PU, which shows the thread that ran there.
//!
//! Source: the Trace Event Format, which <https://ui.perfetto.dev> reads. Times are in microseconds.

use super::sampler::LaneSample;
use creel_console::AtomicFile;
use serde::Serialize;
use std::{collections::BTreeMap, io, path::Path};

/// The maximum number of slices. More would need hundreds of megabytes.
const SLICES_MAX: usize = 1 << 20;

/// A slice of a track: the same state in samples that follow each other.
#[derive(Clone, Debug, PartialEq, Serialize)]
struct Slice {
    name: String,
    ph: &'static str,
    ts: u64,
    dur: u64,
    pid: u32,
    tid: usize,
}

/// The slices so far.
#[derive(Debug, Default)]
pub struct Trace {
    done: Vec<Slice>,
    open: BTreeMap<usize, (LaneSample, Slice)>,
}

impl Trace {
    /// Adds a sample of a PU at a time. `name` returns the name of a thread.
    pub fn add(
        &mut self,
        pu: usize,
        seen: LaneSample,
        at_us: u64,
        name: impl Fn(u32) -> Option<String>,
    ) {
        if let Some((state, slice)) = self.open.get_mut(&pu) {
            slice.dur = at_us.saturating_sub(slice.ts);
            if *state == seen {
                return;
            }
        }
        let ended = self.open.remove(&pu);
        self.keep(ended);
        let thread = |tid: u32| format!("{} ({tid})", name(tid).unwrap_or_default());
        let name = match seen {
            LaneSample::Nobody => return,
            LaneSample::One(tid) => thread(tid),
            LaneSample::Several(tid) => format!("{}, others wait", thread(tid)),
            LaneSample::Waiting => "waiting for this CPU".into(),
        };
        let slice = Slice {
            name,
            ph: "X",
            ts: at_us,
            dur: 0,
            pid: 0,
            tid: pu,
        };
        self.open.insert(pu, (seen, slice));
    }

    fn keep(&mut self, ended: Option<(LaneSample, Slice)>) {
        if self.done.len() < SLICES_MAX {
            self.done.extend(ended.map(|(_, slice)| slice));
        }
    }

    /// Writes the trace to a file.
    pub fn write(mut self, file: &Path) -> io::Result<()> {
        for (_, open) in std::mem::take(&mut self.open) {
            self.keep(Some(open));
        }
        let tracks: std::collections::BTreeSet<usize> = self.done.iter().map(|s| s.tid).collect();
        let names = tracks.into_iter().map(|pu| {
            serde_json::json!({
                "name": "thread_name", "ph": "M", "pid": 0, "tid": pu,
                "args": { "name": format!("PU {pu}") },
            })
        });
        let slices = self.done.iter().map(|slice| serde_json::json!(slice));
        let events: Vec<serde_json::Value> = names.chain(slices).collect();
        let text = serde_json::to_vec(&serde_json::json!({ "traceEvents": events }))?;
        AtomicFile::write(file, &text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_consecutive_samples_become_one_slice() {
        let mut trace = Trace::default();
        let name = |tid| Some(format!("t{tid}"));
        for (at, seen) in [
            (0, LaneSample::One(7)),
            (20, LaneSample::One(7)),
            (40, LaneSample::Nobody),
            (60, LaneSample::Several(8)),
            (80, LaneSample::Several(8)),
        ] {
            trace.add(3, seen, at, name);
        }
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("trace.json");
        trace.write(&file).unwrap();
        let text = std::fs::read_to_string(file).unwrap();
        let trace: serde_json::Value = serde_json::from_str(&text).unwrap();
        let events = trace["traceEvents"].as_array().unwrap();
        assert_eq!(events[0]["args"]["name"], "PU 3");
        let slice = |i: usize| (&events[i]["name"], &events[i]["ts"], &events[i]["dur"]);
        assert_eq!(slice(1), (&"t7 (7)".into(), &0.into(), &40.into()));
        assert_eq!(
            slice(2),
            (&"t8 (8), others wait".into(), &60.into(), &20.into())
        );
    }
}
