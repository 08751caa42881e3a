//! The same windows run by somebody else's threads, beside Creel's loops, for comparison.

use super::tile::Tile;
use super::{Mail, Ms, Simulation, Sources, receive_messages};

/// A tile in a window that somebody else runs: see [`Simulation::run_by`].
#[derive(Debug)]
pub struct Part<'a> {
    tile: &'a mut Tile,
    outgoing: &'a mut Mail,
    sources: &'a Sources,
}

impl Simulation {
    /// Runs for so many ticks by somebody else's threads: `all` is to call what it is given once for
    /// each part, in any order; for each window, and once at the end.
    ///
    /// # Panics
    /// If it would go on after [`END_MS_MAX`](super::END_MS_MAX).
    pub fn run_by(
        &mut self,
        ticks: Ms,
        mut all: impl FnMut(&mut [Part<'_>], &(dyn Fn(&mut Part<'_>) + Sync)),
    ) {
        let until = self.until(ticks);
        while self.now_ms < until {
            let next = until.min(self.now_ms + self.window_ms);
            let (from, rules, [incoming, outgoing]) = (self.now_ms, &self.rules, &mut self.mail);
            let incoming = &*incoming;
            all(
                &mut parts(&mut self.tiles, outgoing, &self.sources),
                &|part| {
                    part.tile.prefetch();
                    receive_messages(part.tile, part.sources, incoming, from);
                    part.outgoing.iter_mut().for_each(Vec::clear);
                    part.tile.run(from, next, rules, part.outgoing);
                },
            );
            self.mail.swap(0, 1);
            self.now_ms = next;
        }
        let (now, [incoming, outgoing]) = (self.now_ms, &mut self.mail);
        let taken = &*incoming;
        all(
            &mut parts(&mut self.tiles, outgoing, &self.sources),
            &|part| {
                receive_messages(part.tile, part.sources, taken, now);
            },
        );
        incoming.iter_mut().flatten().for_each(Vec::clear);
    }
}

fn parts<'a>(
    tiles: &'a mut [Tile],
    outgoing: &'a mut [Mail],
    sources: &'a [Sources],
) -> Vec<Part<'a>> {
    let all = tiles.iter_mut().zip(outgoing).zip(sources);
    all.map(|((tile, outgoing), sources)| Part {
        tile,
        outgoing,
        sources,
    })
    .collect()
}
