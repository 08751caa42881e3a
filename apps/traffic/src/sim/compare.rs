//! The same windows run by somebody else's threads, beside Creel's loops, for comparison.

use super::records::Message;
use super::tile::Tile;
use super::{Mail, Ms, Simulation, Sources, take_in};
use std::sync::{Mutex, PoisonError};

/// A tile in a window that somebody else runs: see [`Simulation::run_by`].
#[derive(Debug)]
pub struct Part<'a> {
    tile: &'a mut Tile,
    room: &'a mut Mail,
    sources: &'a Sources,
    index: usize,
}

/// What calls its second argument once for each part, in any order.
type All<'a> = dyn FnMut(&mut [Part<'_>], &(dyn Fn(&mut Part<'_>) + Sync)) + 'a;

/// What a tile is sent: by what runs in a window, for the next one.
#[derive(Debug, Default)]
struct Inbox([Mutex<Vec<Message>>; 2]);

impl Inbox {
    fn of(&self, window: usize) -> std::sync::MutexGuard<'_, Vec<Message>> {
        // What a lock holds is whole, whoever panicked: messages are moved, not made.
        self.0[window % 2]
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

impl Simulation {
    /// Runs for so many ticks by somebody else's threads: `all` is to call what it is given once for
    /// each part, in any order; for each window, and once at the end. What tiles send is collected by whom it is for, as with
    /// [`run`](Self::run).
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
            let (from, rules, [sent, room]) = (self.now_ms, &self.rules, &mut self.mail);
            let sent = &*sent;
            all(&mut parts(&mut self.tiles, room, &self.sources), &|part| {
                part.tile.warm_up();
                take_in(part.tile, part.sources, sent, from);
                part.room.iter_mut().for_each(Vec::clear);
                part.tile.run(from, next, rules, part.room);
            });
            self.mail.swap(0, 1);
            self.now_ms = next;
        }
        let (now, [sent, room]) = (self.now_ms, &mut self.mail);
        let taken = &*sent;
        all(&mut parts(&mut self.tiles, room, &self.sources), &|part| {
            take_in(part.tile, part.sources, taken, now);
        });
        sent.iter_mut().flatten().for_each(Vec::clear);
    }

    /// The same with a mutex a tile, behind which others put what they send it, as many programs do.
    ///
    /// # Panics
    /// If it would go on after [`END_MS_MAX`](super::END_MS_MAX).
    pub fn run_by_locks(
        &mut self,
        ticks: Ms,
        mut all: impl FnMut(&mut [Part<'_>], &(dyn Fn(&mut Part<'_>) + Sync)),
    ) {
        let until = self.until(ticks);
        let inboxes: Vec<Inbox> = self.tiles.iter().map(|_| Inbox::default()).collect();
        let mut goals: Vec<Vec<u32>> = self.mail[1]
            .iter()
            .map(|mail| vec![0; mail.len()])
            .collect();
        for (tile, sources) in self.sources.iter().enumerate() {
            for &(source, slot) in sources {
                goals[source as usize][usize::from(slot)] = tile as u32;
            }
        }
        let run: &mut All<'_> = &mut all;
        let mut window = 0;
        while self.now_ms < until {
            let next = until.min(self.now_ms + self.window_ms);
            let (from, rules, [_, room]) = (self.now_ms, &self.rules, &mut self.mail);
            run(&mut parts(&mut self.tiles, room, &self.sources), &|part| {
                part.tile.warm_up();
                for message in inboxes[part.index].of(window).drain(..) {
                    part.tile.receive(message, from);
                }
                part.room.iter_mut().for_each(Vec::clear);
                part.tile.run(from, next, rules, part.room);
                for (sent, &goal) in part.room.iter_mut().zip(&goals[part.index]) {
                    if !sent.is_empty() {
                        inboxes[goal as usize].of(window + 1).append(sent);
                    }
                }
            });
            window += 1;
            self.now_ms = next;
        }
        let (now, [_, room]) = (self.now_ms, &mut self.mail);
        run(&mut parts(&mut self.tiles, room, &self.sources), &|part| {
            for message in inboxes[part.index].of(window).drain(..) {
                part.tile.receive(message, now);
            }
        });
    }
}

fn parts<'a>(tiles: &'a mut [Tile], room: &'a mut [Mail], sources: &'a [Sources]) -> Vec<Part<'a>> {
    let all = tiles.iter_mut().zip(room).zip(sources).enumerate();
    all.map(|(index, ((tile, room), sources))| Part {
        tile,
        room,
        sources,
        index,
    })
    .collect()
}
