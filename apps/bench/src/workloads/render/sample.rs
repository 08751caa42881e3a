//! A sample in a process of its own, which is this program, started with [`SAMPLE`] and a request.

use std::io::Write;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Instant;

use anyhow::{Context, bail, ensure};
use creel::{Balance, Pool, Wait};
use creel_console::Exit;
use creel_console::energy::Meter;
use creel_vgm::batch::{Engine, Event, Existing, Observer, SPARE_WORKERS};
use creel_vgm::effects::Effects;
use creel_vgm::format::Song;
use creel_vgm::wav::Layout;
use rayon::prelude::*;
use serde::{Deserialize, Serialize};

use super::album::{Album, Choice};
use super::models::{self, Crossed, Model};
use crate::memory::peak_rss_bytes;

/// The first argument of a process that takes a sample. The second one is the request in JSON.
pub const SAMPLE: &str = "render-sample";

/// The way to render the songs.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub enum Renderer {
    /// A pool with one queue and workers that park, which suits a batch.
    CreelShared,
    /// The engine of `creel-vgm render`, which also reads songs and writes files.
    Batch,
    /// A pool with the settings for a frame loop, which does not suit a batch as well.
    CreelSticky,
    /// An ordinary loop on one thread.
    OneThread,
    /// A parallel iterator of rayon that splits down to single songs.
    Rayon,
    /// Tasks that yield to each other after each block.
    Tasks(Model),
    /// Jobs as in an article.
    Crossed(Crossed),
}

/// The parameters of a sample, which we pass to its process as JSON.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Request {
    /// The way to render.
    pub renderer: Renderer,
    /// The number of workers.
    pub jobs: usize,
    /// The songs.
    pub choice: Choice,
}

/// The result of a sample, which its process prints as JSON.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Sample {
    frames: u64,
    seconds: f64,
    /// The peak of the memory, if the system reports it.
    peak_rss_bytes: Option<f64>,
    /// The energy of the whole machine, if the system reports it.
    energy_j: Option<f64>,
}

impl Sample {
    /// Measures a function that renders and returns the number of frames.
    fn of(render: impl FnOnce() -> anyhow::Result<u64>) -> anyhow::Result<Sample> {
        let meter = Meter::start();
        let begin = Instant::now();
        let frames = render()?;
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

    /// Returns frames per second, seconds, peak memory in bytes, and energy in joules.
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
    /// Takes the sample in a new process and waits for it.
    pub fn sample(&self) -> anyhow::Result<Sample> {
        self.start()?.end()
    }

    /// Starts a process that takes the sample, without waiting for it.
    pub fn start(&self) -> anyhow::Result<Running> {
        let program = creel_console::system::own_program()
            .context("cannot find the program file of creel-bench, which starts itself again")?;
        let mut command = Command::new(program);
        command
            .arg(SAMPLE)
            .arg(serde_json::to_string(self)?)
            .stdout(Stdio::piped());
        Ok(Running(command.spawn().context(
            "cannot start the process that measures a sample",
        )?))
    }

    fn take(&self) -> anyhow::Result<Sample> {
        if let Renderer::Batch = self.renderer {
            return self.batch();
        }
        let album = Album::load(&self.choice)?;
        Sample::of(|| self.render(album))
    }

    /// Does the same as `creel-vgm render`, from the plan to the files. The files are in memory if
    /// the system has such a folder, because we do not want to measure the disk.
    fn batch(&self) -> anyhow::Result<Sample> {
        let memory = Path::new("/dev/shm");
        let temporary = std::env::temp_dir();
        let folder = if memory.is_dir() { memory } else { &temporary };
        // The name is unpredictable and the folder is private, so that no other user can prepare
        // files in it.
        let folder = tempfile::Builder::new()
            .prefix("creel-bench-")
            .tempdir_in(folder)
            .with_context(|| format!("cannot create a folder in {}", folder.display()))?
            .keep();
        let sample = Sample::of(|| {
            let pool = Pool::builder()
                .workers(self.jobs + SPARE_WORKERS)
                .balance(Balance::Shared)
                .wait(Wait::Park)
                .build()?;
            let (frames, failed) = (AtomicU64::new(0), AtomicBool::new(false));
            let engine = Engine {
                pool: &pool,
                jobs: self.jobs,
                settings: &self.choice.settings(),
                effects: &Effects::default(),
                layout: Layout::default(),
                existing: Existing::Refuse,
                strict: true,
            };
            // Relaxed is enough, because we read the values after all workers have finished.
            let watch = Observer {
                on_event: &|_, event| match event {
                    Event::Done(more, _) => drop(frames.fetch_add(more.frames, Ordering::Relaxed)),
                    Event::Failed(_) => failed.store(true, Ordering::Relaxed),
                    _ => {}
                },
                should_stop: &|| false,
            };
            engine.run(&self.choice.plan(&folder)?, watch);
            ensure!(!failed.into_inner(), "cannot render one of the songs");
            Ok(frames.into_inner())
        });
        std::fs::remove_dir_all(&folder)
            .with_context(|| format!("cannot remove the folder {}", folder.display()))?;
        sample
    }

    fn render(&self, album: Album) -> anyhow::Result<u64> {
        let songs = album.songs();
        let one = |song: &Song| album.render(song);
        let frames: Vec<creel_vgm::Result<u64>> = match self.renderer {
            Renderer::OneThread => songs.iter().map(one).collect(),
            Renderer::CreelShared => self.pool(Balance::Shared, Wait::Park)?.map(songs, one),
            Renderer::CreelSticky => self.pool(Balance::Sticky, Wait::Adaptive)?.map(songs, one),
            Renderer::Rayon => {
                let pool = rayon::ThreadPoolBuilder::new()
                    .num_threads(self.jobs)
                    .build()?;
                let songs = songs.par_iter().with_max_len(1);
                pool.install(|| songs.map(one).collect())
            }
            Renderer::Batch => unreachable!("`take` handles this renderer"),
            Renderer::Crossed(crossed) => return models::render_crossed(album, crossed),
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
    /// Waits for the process, and returns its sample.
    pub fn end(self) -> anyhow::Result<Sample> {
        let output = self.0.wait_with_output()?;
        if !output.status.success() {
            bail!(
                "the process that measures a sample failed: {}",
                output.status
            );
        }
        serde_json::from_slice(&output.stdout)
            .context("the process that measures a sample printed something other than a sample")
    }
}

/// Runs in the process of a sample: takes the requested sample and prints it.
pub fn answer(request: Option<std::ffi::OsString>) -> anyhow::Result<Exit> {
    let request = request
        .and_then(|request| request.into_string().ok())
        .unwrap_or_default();
    let request: Request =
        serde_json::from_str(&request).context("cannot parse the request for a sample")?;
    let sample = serde_json::to_vec(&request.take()?)?;
    std::io::stdout().write_all(&sample)?;
    Ok(Exit::Done)
}
