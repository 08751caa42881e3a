//! The renderer: makes blocks, and does what is ordered.

use std::sync::Arc;
use std::time::Instant;

use creel::channel::{Closed, ring};

use super::track::Playing;
use super::{
    BLOCK_TIME, BLOCKS_PER_SECOND, Block, Desk, Inbox, News, Order, Queue, Tap, Track, VOICES_MAX,
};
use crate::chips::set::missing;
use crate::format::{Song, TICKS_PER_SECOND};
use crate::render::Settings;

/// Loops of a song that is played for ever.
const FOREVER: u32 = u32::MAX;
/// Before this, "previous" is the song before, not this one's start.
const EARLY_SECONDS: u64 = 2;

/// Makes the sound.
pub struct Renderer {
    queue: Queue,
    settings: Settings,
    /// Loops as set, while they are not for ever.
    loops: u32,
    inbox: ring::Receiver<Inbox>,
    blocks: ring::Sender<Box<Block>>,
    news: ring::Sender<News>,
    desk: Arc<Desk>,
    serial: u64,
    turn: u64,
    scratch: Vec<[f32; 2]>,
}

type Ends = (
    ring::Receiver<Inbox>,
    ring::Sender<Box<Block>>,
    ring::Sender<News>,
);

/// How a song is left.
enum Way {
    /// It has ended.
    Ended,
    /// To the song that the queue is at, at once.
    Leave,
    /// The same song in another way, from the frame that is heard.
    Anew(u64),
    Quit,
}

impl Renderer {
    pub(super) fn new(queue: Queue, settings: Settings, ends: Ends, desk: Arc<Desk>) -> Self {
        let (inbox, blocks, news) = ends;
        Renderer {
            queue,
            loops: settings.loops,
            settings,
            inbox,
            blocks,
            news,
            desk,
            serial: 0,
            turn: 0,
            scratch: Vec::new(),
        }
    }

    /// Plays the queue; returns when [`Order::Quit`] has come or nobody listens any more.
    ///
    /// At the queue's end it waits for orders.
    pub async fn run(mut self) {
        self.serve().await;
        self.desk.end();
    }

    async fn serve(&mut self) {
        let mut from = 0;
        loop {
            let Some((place, source)) = self.queue.current() else {
                self.tell(News::Ended);
                match self.idle().await {
                    Ok(true) => continue,
                    _ => return,
                }
            };
            let way = match source.load() {
                Ok(song) => self.play(&song, (place, source.to_string()), from).await,
                Err(error) => Err(error.to_string()),
            };
            from = 0;
            match way {
                Ok(Way::Ended) => self.queue.advance(),
                Ok(Way::Leave) => self.turn(),
                Ok(Way::Anew(frame)) => {
                    self.turn();
                    from = frame;
                }
                Ok(Way::Quit) => return,
                Err(error) => {
                    self.tell(News::Failed(place, error));
                    self.queue.next();
                }
            }
        }
    }

    /// Waits for an order that leads to a song; false: it was to quit.
    async fn idle(&mut self) -> Result<bool, Closed> {
        let mut empty = Vec::new();
        loop {
            match self.inbox.recv().await? {
                Inbox::Empty(block) => empty.push(block),
                Inbox::Order(Order::Quit) => return Ok(false),
                Inbox::Order(order) => {
                    self.elsewhere(order);
                    if self.queue.current().is_some() {
                        break;
                    }
                }
            }
        }
        self.turn();
        for block in empty {
            // Their places in the sink's ring are free: it gives them back.
            if self.blocks.send(block).await.is_err() {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// What an order does that is not about the song under way. True: the queue was moved.
    fn elsewhere(&mut self, order: Order) -> bool {
        match order {
            Order::Next => self.queue.next(),
            Order::Previous => self.queue.previous(),
            Order::Jump(place) => self.queue.jump(place),
            Order::Repeat(repeat) => {
                self.queue.set_repeat(repeat);
                return false;
            }
            Order::Shuffle(shuffled) => {
                self.queue.shuffle(shuffled);
                return false;
            }
            Order::LoopForever(forever) => {
                self.settings.loops = if forever { FOREVER } else { self.loops };
                return false;
            }
            _ => return false,
        }
        true
    }

    async fn play(
        &mut self,
        song: &Song,
        (place, source): (usize, String),
        from: u64,
    ) -> Result<Way, String> {
        let mut playing = Playing::new(song, &self.settings).map_err(|error| error.to_string())?;
        playing.seek(from, &mut self.scratch);
        let track = self.track(song, &playing, (place, source));
        self.tell(News::Begun(self.serial + 1, Arc::new(track)));
        let mut first = true;
        loop {
            let mut block = match self.inbox.recv().await {
                Ok(Inbox::Empty(block)) => block,
                Ok(Inbox::Order(order)) => {
                    if let Some(way) = self.obey(order, &mut playing) {
                        return Ok(way);
                    }
                    continue;
                }
                Err(Closed) => return Ok(Way::Quit),
            };
            if std::mem::take(&mut first) && from == 0 && self.serial == 0 {
                self.desk.set_place(0, 0);
            }
            let begin = Instant::now();
            let mut levels = [0.0; VOICES_MAX];
            block.first = playing.frame();
            let frames = (self.settings.sample_rate / BLOCKS_PER_SECOND) as usize;
            block.frames.resize(frames, [0.0; 2]);
            let made = playing.fill(&mut levels, &mut block.frames);
            block.frames.truncate(made);
            self.serial += u64::from(made > 0);
            (block.serial, block.turn) = (self.serial, self.turn);
            if made > 0 {
                let took = begin.elapsed().as_nanos() * 1000 / BLOCK_TIME.as_nanos();
                self.tell(News::Made(Tap {
                    serial: self.serial,
                    frame: block.first,
                    levels,
                    heard: playing.heard,
                    load: took as u32,
                }));
            }
            if self.blocks.send(block).await.is_err() {
                return Ok(Way::Quit);
            }
            if made == 0 {
                return Ok(Way::Ended);
            }
        }
    }

    /// Does what is ordered while a song plays; says how it is left, if it is.
    fn obey(&mut self, order: Order, playing: &mut Playing<'_>) -> Option<Way> {
        let now = self.heard_frame(playing);
        let rate = u64::from(self.settings.sample_rate);
        let frames = |ms: u64| ms.saturating_mul(rate) / 1000;
        match order {
            Order::Quit => return Some(Way::Quit),
            Order::Previous if now >= EARLY_SECONDS * rate => self.seek(playing, 0),
            Order::Seek(ms) if ms < 0 => {
                self.seek(playing, now.saturating_sub(frames(ms.unsigned_abs())));
            }
            Order::Seek(ms) => self.seek(playing, now.saturating_add(frames(ms.unsigned_abs()))),
            Order::SeekTo(ms) => self.seek(playing, frames(ms)),
            Order::Toggle(voice) if voice < 64 => self.hear(playing, playing.heard ^ 1 << voice),
            Order::Solo(voice) if voice < 64 => {
                let alone = playing.heard == 1 << voice;
                self.hear(playing, if alone { u64::MAX } else { 1 << voice });
            }
            Order::HearAll => self.hear(playing, u64::MAX),
            Order::LoopForever(_) => {
                let before = self.settings.loops;
                self.elsewhere(order);
                return (before != self.settings.loops).then_some(Way::Anew(now));
            }
            _ => return self.elsewhere(order).then_some(Way::Leave),
        }
        None
    }

    /// Changes which voices are heard, from the next sound on that the device does not have yet.
    fn hear(&mut self, playing: &mut Playing<'_>, heard: u64) {
        playing.heard = heard;
        let next = self.next_frame(playing);
        self.seek(playing, next);
    }

    fn seek(&mut self, playing: &mut Playing<'_>, to: u64) {
        self.turn();
        playing.seek(to, &mut self.scratch);
    }

    /// What was made and is not with the device yet is not played.
    fn turn(&mut self) {
        self.turn = self.desk.next_turn();
    }

    /// The frame of this song that follows what the device has; its start, if it has none of it yet.
    fn next_frame(&self, playing: &Playing<'_>) -> u64 {
        self.desk.next_frame().min(playing.frame())
    }

    fn heard_frame(&self, playing: &Playing<'_>) -> u64 {
        self.desk.frame().min(playing.frame())
    }

    fn track(&self, song: &Song, playing: &Playing<'_>, (place, source): (usize, String)) -> Track {
        let rate = u64::from(self.settings.sample_rate);
        let frames = |ticks: u64| ticks * rate / u64::from(TICKS_PER_SECOND);
        let repeat = song.repeat();
        let forever = repeat.is_some() && self.settings.loops == FOREVER;
        Track {
            place,
            source,
            tags: song.tags.either(),
            voices: playing.voices(),
            frames: (!forever).then(|| playing.frames()),
            looped: repeat.map(|at| (frames(at.tick), frames(song.ticks() - at.tick))),
            missing: missing(song)
                .into_iter()
                .map(|instance| song.header.name(instance.chip))
                .collect(),
        }
    }

    /// Tells the interface, if it has room to be told.
    fn tell(&self, news: News) {
        let _ = self.news.try_send(news);
    }
}
