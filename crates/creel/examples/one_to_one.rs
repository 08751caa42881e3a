//! Gives each job a thread of its own (1:1). For this, the program creates one pool with one worker
//! per job.
//!
//! ```text
//! cargo run --release -p creel --example one_to_one -- [SONGS]
//! ```
//!
//! All tasks of a song run on the thread of that song. They never run at the same time, and the
//! other songs do not change their order.

use creel::task::yield_now;
use creel::{Pool, Wait};

async fn play(song: usize) -> (usize, Option<String>) {
    for _bar in 0..100 {
        yield_now().await;
    }
    (song, std::thread::current().name().map(String::from))
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let songs = std::env::args().nth(1).map_or(Ok(4), |text| text.parse())?;
    let stage = |song| {
        let name = format!("song {song}");
        Pool::builder()
            .workers(1)
            .wait(Wait::Park)
            .name(name)
            .build()
    };
    let pools: Vec<Pool> = (0..songs).map(stage).collect::<Result<_, _>>()?;
    let playing: Vec<_> = pools
        .iter()
        .enumerate()
        .map(|(song, pool)| pool.spawn_on(0, play(song)))
        .collect();
    for (pool, handle) in pools.iter().zip(playing) {
        let (song, thread) = pool.block_on(handle)?;
        println!("song {song} was played by {}", thread.unwrap_or_default());
    }
    Ok(())
}
