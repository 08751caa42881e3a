//! The time that accesses to memory take: buffered stores, prefetches, and the prefetcher of a core.

use super::{Pu, State};
use crate::cache::Access;
use std::ops::Range;

/// The number of ascending sequences of cache lines that the prefetcher of a core follows, the
/// length of a sequence from which it requests cache lines, and how many it requests ahead. Intel's
/// streamer follows 32 sequences, within a page each, and is up to 20 cache lines ahead (Intel 64
/// and IA-32 Architectures Optimization Reference Manual, chapter "Data Prefetching"). The length is
/// an estimate.
pub(super) const STREAMS: usize = 32;
const STREAM_BEGINS: usize = 3;
const STREAM_AHEAD: usize = 4;

impl Pu {
    /// Returns the time when the prefetched cache line of the address `at` arrives, or 0 if this
    /// cache line is not on its way.
    pub(super) fn arrives_at(&self, at: usize) -> u64 {
        let line = at & !63;
        let fill = self.fills.iter().find(|fill| fill.0 == line);
        fill.map_or(0, |fill| fill.1)
    }

    /// Returns the time when all buffered stores are complete.
    pub(super) fn drained(&self) -> u64 {
        self.stores.back().copied().unwrap_or(0)
    }
}

impl State {
    /// Makes an access by the current thread, and returns the time that it takes. For a load or an
    /// exchange, this is the time for which the thread waits. A buffered store makes the thread
    /// wait only if the buffer is full. Its time runs until the cache line has arrived.
    pub(super) fn access(&mut self, at: usize, kind: Access) -> u64 {
        let index = self.current_pu();
        if kind == Access::Store {
            self.wait_for_store_buffer();
        }
        let pu = &self.pus[index];
        let (now, core) = (pu.now, pu.place.core);
        let begin = match kind {
            Access::Load => now,
            // A core requests the cache lines of its buffered stores at the same time, up to the
            // number of its fill buffers.
            Access::Store => {
                let waiting = (pu.stores.len() as u64).checked_sub(self.costs.streams);
                now.max(waiting.map_or(0, |first| pu.stores[first as usize]))
            }
            Access::Exchange => now.max(pu.drained()),
        };
        let begin = begin.max(pu.arrives_at(at));
        let end = self
            .cache
            .access(at, kind, (index as u32, core), now, begin);
        self.pus[index].pausing = false;
        match kind {
            Access::Load | Access::Exchange => self.spend(index, end - now),
            Access::Store => {
                // The stores leave the buffer in the order of the program.
                let leaves = end.max(self.pus[index].drained());
                self.pus[index].stores.push_back(leaves);
                self.spend(index, self.costs.hit);
            }
        }
        self.follow_stream(at, kind, end > begin + self.costs.rmw);
        match kind {
            Access::Load | Access::Exchange => end - now,
            Access::Store => end - begin,
        }
    }

    /// Requests the next cache lines of the page if the current core accesses its cache lines one
    /// after another, as the prefetchers in hardware do.
    pub(super) fn follow_stream(&mut self, at: usize, kind: Access, is_miss: bool) {
        const LINES_OF_A_PAGE: usize = 64;
        let index = self.current_pu();
        let pu = &mut self.pus[index];
        let line = at / 64;
        let begins_page = line.is_multiple_of(LINES_OF_A_PAGE);
        let continues = |(last, _): &(usize, usize)| !begins_page && *last + 1 == line;
        if let Some(stream) = pu.streams.iter_mut().find(|stream| continues(stream)) {
            *stream = (line, stream.1 + 1);
        } else if !is_miss {
            return;
        }
        let Some(&(_, length)) = pu.streams.iter().find(|stream| stream.0 == line) else {
            pu.streams[pu.oldest] = (line, 1);
            pu.oldest = (pu.oldest + 1) % STREAMS;
            return;
        };
        if length < STREAM_BEGINS {
            return;
        }
        let page_end = line / LINES_OF_A_PAGE * LINES_OF_A_PAGE + LINES_OF_A_PAGE;
        for next in line + 1..page_end.min(line + 1 + STREAM_AHEAD) {
            let now = self.pus[index].now;
            self.pus[index].fills.retain(|fill| fill.1 > now);
            if (self.pus[index].fills.len() as u64) < self.costs.streams {
                self.request(next * 64, kind);
            }
        }
    }

    /// Removes the completed stores from the buffer of the current PU, and waits for the first one
    /// if the buffer is full.
    pub(super) fn wait_for_store_buffer(&mut self) {
        let (index, most) = (self.current_pu(), self.costs.stores);
        let pu = &mut self.pus[index];
        let now = pu.now;
        while pu.stores.front().is_some_and(|leaves| *leaves <= now) {
            pu.stores.pop_front();
        }
        if pu.stores.len() as u64 >= most {
            let first = pu.stores.pop_front().unwrap_or(now);
            self.spend(index, first - now);
        }
    }

    /// Waits until the current core can request another cache line, if too many are on their way.
    /// Returns whether it had to wait.
    pub(super) fn wait_for_fill(&mut self) -> bool {
        let (index, most) = (self.current_pu(), self.costs.streams);
        let pu = &mut self.pus[index];
        let now = pu.now;
        pu.fills.retain(|fill| fill.1 > now);
        let first = pu.fills.iter().map(|fill| fill.1).min();
        let first = first.filter(|_| pu.fills.len() as u64 >= most);
        if let Some(first) = first {
            self.spend(index, first - now);
        }
        first.is_some()
    }

    /// Requests the cache line at `at`, like an access of this kind. The thread continues while the
    /// cache line arrives.
    pub(super) fn prefetch(&mut self, at: usize, kind: Access) {
        self.request(at, kind);
        let (index, hit) = (self.current_pu(), self.costs.hit);
        self.spend(index, hit);
    }

    /// Requests a cache line for the current core, unless it is already on its way.
    pub(super) fn request(&mut self, at: usize, kind: Access) {
        let index = self.current_pu();
        let (now, core) = (self.pus[index].now, self.pus[index].place.core);
        if self.pus[index].arrives_at(at) == 0 {
            let place = (index as u32, core);
            let end = self.cache.access(at, kind, place, now, now);
            if end > now + self.costs.rmw {
                self.pus[index].fills.push((at & !63, end));
            }
        }
    }

    /// Accesses the cache lines in `range` one after another. A core fetches several of them at the
    /// same time.
    pub(super) fn stream(&mut self, range: Range<usize>, kind: Access) {
        let index = self.current_pu();
        let (now, core) = (self.pus[index].now, self.pus[index].place.core);
        let place = (index as u32, core);
        let lines = (range.start & !63..range.end).step_by(64);
        let total: u64 = lines
            .map(|line| self.cache.access(line, kind, place, now, now) - now)
            .sum();
        self.spend(index, total.div_ceil(self.costs.streams));
    }

    /// Waits until the buffered stores of the current PU are complete.
    pub(super) fn drain(&mut self) {
        let index = self.current_pu();
        let pu = &self.pus[index];
        let ns = pu.drained().saturating_sub(pu.now).max(self.costs.rmw);
        self.spend(index, ns);
    }
}
