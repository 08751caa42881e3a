//! Runs the same windows on threads of another runtime instead of Creel's loops, for comparison. We
//! use it in `creel-bench` to compare the runtimes without comparing the models.

use super::tile::Tile;
use super::{Mail, Ms, Simulation, Sources, TICK_MS, receive_messages};

/// The work of one tile in one window. The threads of another runtime do it, see
/// [`Simulation::run_with`].
#[derive(Debug)]
pub struct TileWindow<'a> {
    tile: &'a mut Tile,
    outgoing: &'a mut Mail,
    sources: &'a Sources,
}

impl Simulation {
    /// Runs for `ticks` ticks on the threads of another runtime. Rerouting does not take place.
    ///
    /// `all` must call the given function once for each element, in any order, and must return
    /// after all calls have returned. It is called once per window and once at the end.
    ///
    /// # Panics
    /// Panics if the simulation would continue after [`END_MS_MAX`](super::END_MS_MAX).
    pub fn run_with(
        &mut self,
        ticks: Ms,
        mut all: impl FnMut(&mut [TileWindow<'_>], &(dyn Fn(&mut TileWindow<'_>) + Sync)),
    ) {
        let until = self.until(ticks.saturating_mul(TICK_MS));
        while self.now_ms < until {
            let next = until.min(self.now_ms + self.window_ms);
            let (from, rules, [incoming, outgoing]) = (self.now_ms, &self.rules, &mut self.mail);
            let incoming = &*incoming;
            all(
                &mut tile_windows(&mut self.tiles, outgoing, &self.sources),
                &|window| {
                    window.tile.prefetch();
                    receive_messages(window.tile, window.sources, incoming, from);
                    window.outgoing.iter_mut().for_each(Vec::clear);
                    window.tile.run(from, next, rules, window.outgoing);
                },
            );
            self.mail.swap(0, 1);
            self.now_ms = next;
        }
        let (now, [incoming, outgoing]) = (self.now_ms, &mut self.mail);
        let taken = &*incoming;
        all(
            &mut tile_windows(&mut self.tiles, outgoing, &self.sources),
            &|window| {
                receive_messages(window.tile, window.sources, taken, now);
            },
        );
        incoming.iter_mut().flatten().for_each(Vec::clear);
    }
}

fn tile_windows<'a>(
    tiles: &'a mut [Tile],
    outgoing: &'a mut [Mail],
    sources: &'a [Sources],
) -> Vec<TileWindow<'a>> {
    let all = tiles.iter_mut().zip(outgoing).zip(sources);
    all.map(|((tile, outgoing), sources)| TileWindow {
        tile,
        outgoing,
        sources,
    })
    .collect()
}
