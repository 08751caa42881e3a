//! The three models of threading, each a setting of a pool: a task a song that yields after each
//! block, so that songs take turns where they share a thread; or so many jobs, which may or may not.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use anyhow::anyhow;
use creel::task::yield_now;
use creel::{Pool, Wait};
use creel_vgm::output::BLOCK_FRAMES;
use creel_vgm::render::{Buffers, Player};
use creel_vgm::wav::Layout;

use super::album::Album;

/// Who shares threads with whom.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub enum Model {
    /// A pool of one for each song: the system schedules.
    OneToOne,
    /// All songs on one pool with so many workers.
    ManyToMany,
    /// All songs on a pool of one.
    ManyToOne,
}

/// How a batch of songs is run as tasks: the settings that an article compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Crossed {
    /// Who shares threads with whom.
    pub model: Model,
    /// Threads, where the model has a choice.
    pub workers: usize,
    /// Songs at a time.
    pub jobs: usize,
    /// Whether a task gives way after each block, or only when its song is done.
    pub yields: bool,
}

/// Renders all songs, `jobs` at a time, each job taking the next song when it is done with one;
/// gives the number of frames.
///
/// # Errors
///
/// The first song's that cannot be rendered, or what a pool cannot start.
pub fn render_crossed(album: Album, crossed: Crossed) -> anyhow::Result<u64> {
    let Crossed {
        model,
        workers,
        jobs,
        yields,
    } = crossed;
    let album = Arc::new(album);
    // Relaxed: the tasks' ends are what orders the results.
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
            frames += task.await.map_err(|error| anyhow!("{error}"))??;
        }
        Ok(frames)
    })
}

/// Renders all songs at once, on `jobs` workers where the model has a choice; gives the number of
/// frames.
///
/// # Errors
///
/// The first song's that cannot be rendered, or what a pool cannot start.
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
            frames += task.await.map_err(|error| anyhow!("{error}"))??;
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
