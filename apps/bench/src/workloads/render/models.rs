//! The three threading models 1:1, M:N and M:1, which differ in the number of pools and of their
//! workers.
//!
//! With [`render`], each song is a task that yields after each block, so that songs on the same
//! thread alternate. With [`render_crossed`], you choose the number of jobs and whether they yield.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use anyhow::anyhow;
use creel::task::yield_now;
use creel::{Pool, Wait};
use creel_vgm::output::BLOCK_FRAMES;
use creel_vgm::render::{Buffers, Player};
use creel_vgm::wav::Layout;

use super::album::Album;

/// A threading model, which says how many songs share a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub enum Model {
    /// Each song or job has a pool with one worker. The OS schedules them.
    OneToOne,
    /// All songs share one pool with several workers.
    ManyToMany,
    /// All songs share a pool with one worker.
    ManyToOne,
}

/// A combination of the settings that an article compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Crossed {
    /// The threading model.
    pub model: Model,
    /// The number of workers of [`Model::ManyToMany`].
    pub workers: usize,
    /// The number of songs at a time.
    pub jobs: usize,
    /// Whether a task yields after each block.
    pub yields: bool,
}

/// Renders all songs, `jobs` at a time, and returns the number of frames. A job that has finished a
/// song takes the next one.
///
/// # Errors
///
/// Returns an error if a song cannot be rendered, or if a pool cannot be started.
pub fn render_crossed(album: Album, crossed: Crossed) -> anyhow::Result<u64> {
    let Crossed {
        model,
        workers,
        jobs,
        yields,
    } = crossed;
    let album = Arc::new(album);
    // Relaxed is enough, because the counter only distributes the songs. Awaiting the tasks makes
    // their results visible.
    let next = Arc::new(AtomicUsize::new(0));
    let workers = if model == Model::ManyToMany {
        workers
    } else {
        1
    };
    let count = if model == Model::OneToOne { jobs } else { 1 };
    let pool = || Pool::builder().workers(workers).wait(Wait::Park).build();
    let pools: Vec<Pool> = (0..count).map(|_| pool()).collect::<Result<_, _>>()?;
    let job = || {
        let (album, next) = (Arc::clone(&album), Arc::clone(&next));
        async move {
            let mut frames = 0;
            loop {
                let index = next.fetch_add(1, Ordering::Relaxed);
                if index >= album.songs().len() {
                    return creel_vgm::Result::Ok(frames);
                }
                frames += song(Arc::clone(&album), index, yields).await?;
            }
        }
    };
    let tasks: Vec<_> = (0..jobs)
        .map(|index| pools[index % count].spawn(job()))
        .collect();
    pools[0].block_on(async {
        let mut frames = 0;
        for task in tasks {
            frames += task.await.map_err(|error| anyhow!("{error:?}"))??;
        }
        Ok(frames)
    })
}

/// Renders all songs at the same time, and returns the number of frames. [`Model::ManyToMany`] uses
/// `jobs` workers.
///
/// # Errors
///
/// Returns an error if a song cannot be rendered, or if a pool cannot be started.
pub fn render(album: Album, model: Model, jobs: usize) -> anyhow::Result<u64> {
    let album = Arc::new(album);
    let songs = 0..album.songs().len();
    let workers = if model == Model::ManyToMany { jobs } else { 1 };
    let pool = || Pool::builder().workers(workers).wait(Wait::Park).build();
    let count = if model == Model::OneToOne {
        songs.len()
    } else {
        1
    };
    let pools: Vec<Pool> = (0..count).map(|_| pool()).collect::<Result<_, _>>()?;
    let tasks: Vec<_> = songs
        .map(|index| pools[index % count].spawn(song(Arc::clone(&album), index, true)))
        .collect();
    pools[0].block_on(async {
        let mut frames = 0;
        for task in tasks {
            frames += task.await.map_err(|error| anyhow!("{error:?}"))??;
        }
        Ok(frames)
    })
}

async fn song(album: Arc<Album>, index: usize, yields: bool) -> creel_vgm::Result<u64> {
    let (mut buffers, mut mix) = (Buffers::default(), vec![[0.0; 2]; BLOCK_FRAMES]);
    let mut player = Player::new(&album.songs()[index], album.settings(), &mut buffers)?;
    let (layout, mut bytes) = (Layout::default(), Vec::new());
    let mut rendered = 0;
    loop {
        let frames = player.fill(&mut buffers, &mut mix);
        if frames == 0 {
            break;
        }
        rendered += frames as u64;
        bytes.clear();
        layout.encode(&mix[..frames], &mut bytes);
        std::hint::black_box(&bytes);
        if yields {
            yield_now().await;
        }
    }
    Ok(rendered)
}
