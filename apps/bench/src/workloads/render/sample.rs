//! One sample in a process of its own: this program, started with [`SAMPLE`] and a request.

use std::io::Write;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Instant;

use anyhow::{Context, bail};
use creel::{Balance, Pool, Wait};
use creel_console::Exit;
use creel_console::energy::Meter;
use creel_vgm::format::Song;
use rayon::prelude::*;
use serde::{Deserialize, Serialize};

use super::album::Album;
use super::models::{self, Model};
use crate::memory::peak_rss_bytes;

/// The first argument of a process that takes a sample; the second is the request.
pub const SAMPLE: &str = "render-sample";

/// Who renders.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub enum Renderer {
    /// A pool, one queue, workers that sleep: what suits a batch.
    CreelShared,
    /// A pool as a frame loop has it.
    CreelSticky,
    /// A plain loop.
    OneThread,
    /// A parallel iterator that splits down to single songs.
    Rayon,
    /// Tasks that take turns.
    Tasks(Model),
}

/// What to sample.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Request {
    /// Who renders.
    pub renderer: Renderer,
    /// On how many workers.
    pub jobs: usize,
    /// Which songs; those carried if none are named.
    pub songs: Option<PathBuf>,
    /// Frames of each song at most.
    pub frames_max: u64,
}

/// What came of it.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Sample {
    frames: u64,
    seconds: f64,
    /// Nothing where the system does not tell.
    peak_rss_bytes: Option<f64>,
    /// The same; the whole machine's.
    energy_j: Option<f64>,
}

impl Sample {
    /// Frames a second, seconds, peak memory in bytes, energy in joules.
    pub fn values(&self) -> Vec<f64> {
        vec![
            self.frames as f64 / self.seconds,
            self.seconds,
            self.peak_rss_bytes.unwrap_or(f64::NAN),
            self.energy_j.unwrap_or(f64::NAN),
        ]
    }
}

/// A process that takes a sample.
pub struct Running(Child);

impl Request {
    /// Takes the sample in a new process, and waits for it.
    pub fn sample(&self) -> anyhow::Result<Sample> {
        self.start()?.end()
    }

    /// Starts the process.
    pub fn start(&self) -> anyhow::Result<Running> {
        let program = std::env::current_exe().context("where is this program?")?;
        let mut command = Command::new(program);
        command
            .arg(SAMPLE)
            .arg(serde_json::to_string(self)?)
            .stdout(Stdio::piped());
        Ok(Running(
            command.spawn().context("starting a process for a sample")?,
        ))
    }

    fn take(&self) -> anyhow::Result<Sample> {
        let album = Album::load(self.songs.as_deref(), self.frames_max)?;
        let meter = Meter::start();
        let begin = Instant::now();
        let frames = self.render(album)?;
        let seconds = begin.elapsed().as_secs_f64();
        let energy_j = meter.map(Meter::joules);
        let peak = peak_rss_bytes();
        Ok(Sample {
            frames,
            seconds,
            peak_rss_bytes: peak.is_finite().then_some(peak),
            energy_j,
        })
    }

    fn render(&self, album: Album) -> anyhow::Result<u64> {
        let songs = album.songs();
        let one = |song: &Song| album.render(song);
        let frames: Vec<creel_vgm::Result<u64>> = match self.renderer {
            Renderer::OneThread => songs.iter().map(one).collect(),
            Renderer::CreelShared => self
                .pool(Balance::Shared, Wait::Park)?
                .map(songs, |_, song| one(song)),
            Renderer::CreelSticky => self
                .pool(Balance::Sticky, Wait::Adaptive)?
                .map(songs, |_, song| one(song)),
            Renderer::Rayon => {
                let pool = rayon::ThreadPoolBuilder::new()
                    .num_threads(self.jobs)
                    .build()?;
                let songs = songs.par_iter().with_max_len(1);
                pool.install(|| songs.map(one).collect())
            }
            Renderer::Tasks(model) => return models::render(album, model, self.jobs),
        };
        Ok(frames.into_iter().sum::<creel_vgm::Result<u64>>()?)
    }

    fn pool(&self, balance: Balance, wait: Wait) -> anyhow::Result<Pool> {
        Ok(Pool::builder()
            .workers(self.jobs)
            .balance(balance)
            .wait(wait)
            .build()?)
    }
}

impl Running {
    /// Waits for the sample.
    pub fn end(self) -> anyhow::Result<Sample> {
        let output = self.0.wait_with_output()?;
        if !output.status.success() {
            bail!("the process of a sample failed: {}", output.status);
        }
        serde_json::from_slice(&output.stdout).context("a sample that is none")
    }
}

/// The process's side: takes the requested sample and prints it.
pub fn answer(request: Option<std::ffi::OsString>) -> anyhow::Result<Exit> {
    let request = request
        .and_then(|request| request.into_string().ok())
        .unwrap_or_default();
    let request: Request = serde_json::from_str(&request).context("a request that is none")?;
    let sample = serde_json::to_vec(&request.take()?)?;
    std::io::stdout().write_all(&sample)?;
    Ok(Exit::Done)
}
