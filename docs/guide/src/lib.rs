//! Runs the code blocks of the guide as tests. If a code block does not compile, or one of its
//! assertions fails, the documentation test of its page fails.
//!
//! The pages below must be the same as those in `SUMMARY.md`, in the same order. We check this with
//! a test, because a page that is missing here would not be tested.

#![forbid(unsafe_code)]

/// Includes each page as the documentation of a module, so that `cargo test` runs its code blocks.
macro_rules! pages {
    ($($page:literal $module:ident)*) => {
        $(
            #[doc = include_str!($page)]
            #[cfg(doctest)]
            pub mod $module {}
        )*
        #[cfg(test)]
        const PAGES: &[&str] = &[$($page),*];
    };
}

pages! {
    "introduction.md" introduction
    "from-rayon.md" from_rayon
    "from-threads.md" from_threads
    "from-tokio.md" from_tokio
    "from-openmp.md" from_openmp
    "rayon-inside.md" rayon_inside
    "workers.md" workers
    "placement.md" placement
    "wait.md" wait
    "balance.md" balance
    "game-loop.md" game_loop
    "inference.md" inference
    "batch.md" batch
    "music.md" music
    "server.md" server
    "gui.md" gui
    "audio.md" audio
    "c.md" c
    "measuring.md" measuring
    "traffic.md" traffic
    "cast.md" cast
    "service.md" service
    "player.md" player
    "video.md" video
}

#[cfg(test)]
mod tests {
    use super::PAGES;

    #[test]
    fn the_tested_pages_are_those_of_the_summary() {
        let links = include_str!("SUMMARY.md").split("](").skip(1);
        let listed: Vec<&str> = links.filter_map(|link| link.split(')').next()).collect();
        assert_eq!(listed, PAGES);
    }
}
