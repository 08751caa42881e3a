//! Stores the finished runs of an evaluation in a file, so that you can resume an interrupted one.
//!
//! Each run is a line, with the key of the run and its measurements. We append a complete line when
//! a run is over. If the program was killed while it wrote a line, [`FinishedRuns::open`] removes
//! the incomplete line.

use std::fs::{self, File};
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};

use anyhow::Context;
use creel_console::{Exit, Failure};

/// The measurements of a run, in the order of [`COLUMNS`].
pub type Values = [f64; COLUMNS.len()];

/// The names of the columns with measurements.
pub const COLUMNS: [&str; 9] = [
    "cpu_ns_per_buffer",
    "parked_share",
    "interval_mean_ms",
    "interval_sd_ms",
    "latency_p50_us",
    "latency_p99_us",
    "lateness_p50_ms",
    "lateness_p99_ms",
    "latency_mean_us",
];
/// The names of the columns with the key of a run.
const KEY_COLUMNS: &str = "sink,streams,contexts,wait_ms,period_ms,buffers";

/// The runs that need not be repeated.
pub struct FinishedRuns {
    /// The key and the measurements of each run, in the order of the file.
    runs: Vec<(String, Values)>,
    /// The file for new runs, or `None` if runs are not stored.
    file: Option<(PathBuf, File)>,
}

impl FinishedRuns {
    /// Creates an empty list, which does not store new runs.
    pub fn none() -> Self {
        FinishedRuns {
            runs: Vec::new(),
            file: None,
        }
    }

    /// Reads the runs in the file at `path`. The file is created if it does not exist.
    ///
    /// # Errors
    ///
    /// Returns an error if the file cannot be read and written, or has other contents.
    pub fn open(path: &Path) -> anyhow::Result<Self> {
        let name = || format!("cannot use {}", path.display());
        let other = || {
            let text = format!(
                "{}: it is not a file that creel-cast evaluate --resume has written",
                name()
            );
            Failure::new(Exit::BadData, text)
        };
        // We reject devices, because some of them never end.
        if path.metadata().is_ok_and(|found| !found.is_file()) {
            anyhow::bail!("{}: it is not a regular file", name());
        }
        let text = match fs::read_to_string(path) {
            Err(error) if error.kind() == ErrorKind::NotFound => String::new(),
            Err(error) if error.kind() == ErrorKind::InvalidData => return Err(other().into()),
            read => read.with_context(name)?,
        };
        let header = format!("{KEY_COLUMNS},{}\n", COLUMNS.join(","));
        let whole = text.rfind('\n').map_or(0, |end| end + 1);
        if !text.starts_with(&header) && !header.starts_with(&text) {
            return Err(other().into());
        }
        let mut runs = Vec::new();
        for (number, line) in text[..whole].lines().enumerate().skip(1) {
            let run = parse(line).ok_or_else(|| {
                let text = format!(
                    "{}: line {} is not a run. Delete that line to repeat its run",
                    name(),
                    number + 1
                );
                Failure::new(Exit::BadData, text)
            })?;
            runs.push(run);
        }
        let mut options = File::options();
        let mut file = options.create(true).append(true).open(path);
        if let Ok(file) = &mut file {
            file.set_len(whole as u64).with_context(name)?;
            if whole == 0 {
                file.write_all(header.as_bytes()).with_context(name)?;
            }
        }
        Ok(FinishedRuns {
            runs,
            file: Some((path.to_owned(), file.with_context(name)?)),
        })
    }

    /// Returns the first `most` runs with this key.
    pub fn of(&self, key: &str, most: usize) -> Vec<Values> {
        let of_key = self.runs.iter().filter(|(of, _)| of == key);
        of_key.map(|&(_, values)| values).take(most).collect()
    }

    /// Stores a finished run.
    ///
    /// # Errors
    ///
    /// Returns an error if the file cannot be written.
    pub fn add(&mut self, key: &str, values: Values) -> anyhow::Result<()> {
        let Some((path, file)) = &mut self.file else {
            return Ok(());
        };
        let values = values.map(|value| value.to_string()).join(",");
        file.write_all(format!("{key},{values}\n").as_bytes())
            .with_context(|| format!("cannot write {}", path.display()))
    }
}

fn parse(line: &str) -> Option<(String, Values)> {
    let fields: Vec<&str> = line.split(',').collect();
    let (key, values) = fields.split_at_checked(KEY_COLUMNS.split(',').count())?;
    let values: Result<Vec<f64>, _> = values.iter().map(|value| value.parse()).collect();
    Some((key.join(","), values.ok()?.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: &str = "slot,100,1,20,20,50";

    struct Scratch(PathBuf);

    impl Scratch {
        fn new(name: &str) -> Self {
            let name = format!("creel-cast-{name}-{}.csv", std::process::id());
            Scratch(std::env::temp_dir().join(name))
        }
    }

    impl Drop for Scratch {
        fn drop(&mut self) {
            let _ = fs::remove_file(&self.0);
        }
    }

    #[test]
    fn finished_runs_are_reread_and_a_torn_last_line_is_dropped() {
        let file = Scratch::new("kept");
        let (first, second) = ([1.5; 9], [0.1; 9]);
        FinishedRuns::open(&file.0)
            .unwrap()
            .add(KEY, first)
            .unwrap();
        let torn = fs::read_to_string(&file.0).unwrap() + "slot,100,1,20,20,50,9";
        fs::write(&file.0, torn).unwrap();
        let mut finished = FinishedRuns::open(&file.0).unwrap();
        assert_eq!(finished.of(KEY, 9), [first]);
        finished.add(KEY, second).unwrap();
        let finished = FinishedRuns::open(&file.0).unwrap();
        assert_eq!(finished.of(KEY, 9), [first, second]);
        assert_eq!(finished.of(KEY, 1), [first]);
        assert!(finished.of("slot,200,1,20,20,50", 9).is_empty());
    }

    #[test]
    fn a_file_of_another_kind_is_rejected_and_not_changed() {
        let file = Scratch::new("other");
        for bytes in [&b"a,b\n1,2\n"[..], b"no line", b"\xff\x00"] {
            fs::write(&file.0, bytes).unwrap();
            let error = FinishedRuns::open(&file.0).err().unwrap().to_string();
            assert!(
                error.ends_with("it is not a file that creel-cast evaluate --resume has written"),
                "{error}"
            );
            assert_eq!(fs::read(&file.0).unwrap(), bytes);
        }
        let header = format!("{KEY_COLUMNS},{}\n", COLUMNS.join(","));
        fs::write(&file.0, header + "slot,1\n").unwrap();
        let error = FinishedRuns::open(&file.0).err().unwrap().to_string();
        assert!(error.contains("line 2 is not a run"), "{error}");
    }
}
