//! The code blocks of the guide, as tests: a page that does not compile or whose assertion fails,
//! fails here. The list of pages is that of `SUMMARY.md`, which a test compares.

#![forbid(unsafe_code)]

/// Each page with its name.
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
    "workers.md" workers
    "placement.md" placement
    "wait.md" wait
    "balance.md" balance
    "game-loop.md" game_loop
    "inference.md" inference
    "batch.md" batch
    "music.md" music
    "server.md" server
    "audio.md" audio
    "service.md" service
    "player.md" player
}

#[cfg(test)]
mod tests {
    use super::PAGES;

    #[test]
    fn every_page_of_the_summary_is_tested() {
        let links = include_str!("SUMMARY.md").split("](").skip(1);
        let listed: Vec<&str> = links.filter_map(|link| link.split(')').next()).collect();
        assert_eq!(listed, PAGES);
    }
}
