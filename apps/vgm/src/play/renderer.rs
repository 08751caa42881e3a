//! The renderer. It renders blocks and executes commands.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Instant;

use creel::channel::{RecvError, bounded};
use creel::task::yield_now;

use super::track::{MeterSchedule, SongPlayer};
use super::{
    BLOCK_TIME, BLOCKS_PER_SECOND, Block, ChooseSettings, Command, MeterMode, PlaybackSettings,
    PlayerControls, PlayerEvent, Queue, RendererMessage, TapBlock, Track,
};
use crate::chips::factory::missing;
use crate::effects::Chain;
use crate::format::{Song, TICKS_PER_SECOND};
use crate::mix::SampleFormat;
use crate::render::Settings;

/// The number of loops that stands for an endless song.
const ENDLESS_LOOPS: u32 = u32::MAX;
/// After this time, "previous" goes to the start of the song and not to the previous song.
const RESTART_AFTER_SECONDS: u64 = 2;
/// The maximum number of messages that we keep during a long seek. Others stay in the channel.
const DEFERRED_MAX: usize = 256;

/// The renderer of a player.
pub struct Renderer {
    queue: Queue,
    choose: ChooseSettings,
    inbox: bounded::Receiver<RendererMessage>,
    blocks: bounded::Sender<Box<Block>>,
    events: bounded::Sender<PlayerEvent>,
    taps: bounded::Sender<TapBlock>,
    controls: Arc<PlayerControls>,
    /// The number of blocks that exist.
    all_blocks: usize,
    serial: u64,
    generation: u64,
    /// The time of the command that started this generation, until a block carries it.
    commanded_at: Option<Instant>,
    looks: MeterSchedule,
    scratch: Vec<[f32; 2]>,
    /// Messages that arrived during a long seek.
    deferred: VecDeque<RendererMessage>,
}

/// Marks the player as ended when the renderer ends, even after a panic. Otherwise, the other parts
/// would wait for it forever.
struct EndOnDrop(Arc<PlayerControls>);

impl Drop for EndOnDrop {
    fn drop(&mut self) {
        // A new generation makes the sink drop the rendered blocks, so that quitting is immediate.
        self.0.next_generation();
        self.0.end();
    }
}

type RendererEnds = (
    bounded::Receiver<RendererMessage>,
    bounded::Sender<Box<Block>>,
    bounded::Sender<PlayerEvent>,
    bounded::Sender<TapBlock>,
);

/// The way in which a song was left.
enum Exit {
    /// The song has ended.
    SongEnded,
    /// A command moved the queue. Play its current song at once.
    Leave,
    Quit,
}

impl Renderer {
    pub(super) fn new(
        queue: Queue,
        choose: ChooseSettings,
        ends: RendererEnds,
        controls: Arc<PlayerControls>,
        all_blocks: usize,
    ) -> Self {
        let (inbox, blocks, events, taps) = ends;
        Renderer {
            queue,
            choose,
            inbox,
            blocks,
            events,
            taps,
            controls,
            all_blocks,
            serial: 0,
            generation: 0,
            commanded_at: None,
            looks: MeterSchedule::default(),
            scratch: Vec::new(),
            deferred: VecDeque::new(),
        }
    }

    /// Receives the next message. Messages that were kept during a seek come first.
    async fn receive(&mut self) -> Result<RendererMessage, RecvError> {
        match self.deferred.pop_front() {
            Some(kept) => Ok(kept),
            None => self.inbox.recv().await,
        }
    }

    /// Plays the queue until it receives [`Command::Quit`], or until the sink is gone. At the end
    /// of the queue, it waits for commands.
    pub async fn run(mut self) {
        let _end = EndOnDrop(Arc::clone(&self.controls));
        self.play_queue().await;
    }

    async fn play_queue(&mut self) {
        loop {
            let Some((place, source)) = self.queue.current() else {
                match self.wait_for_song().await {
                    Ok(true) => continue,
                    _ => return,
                }
            };
            let sound = (self.choose)(source, self.queue.peek_next());
            let way = match source.load() {
                Ok(song) => {
                    let named = (place, source.to_string());
                    self.play(&song, sound, named).await
                }
                Err(error) => Err(error.to_string()),
            };
            match way {
                Ok(Exit::SongEnded) => self.queue.advance(),
                Ok(Exit::Leave) => self.discard_queued(),
                Ok(Exit::Quit) => return,
                Err(error) => {
                    self.controls.add_failed();
                    self.send_event(PlayerEvent::Failed(place, error));
                    self.queue.skip_failed();
                }
            }
        }
    }

    /// Waits for a command that leads to a song. Returns `false` if the player should quit, or if
    /// the sink has ended.
    async fn wait_for_song(&mut self) -> Result<bool, RecvError> {
        let mut empty = Vec::new();
        loop {
            // If all blocks are here, the sink has passed all sound to the device.
            self.controls.set_drained(empty.len() == self.all_blocks);
            match self.receive().await? {
                RendererMessage::EmptyBlock(block) => empty.push(block),
                RendererMessage::Command(Command::Quit, _) => return Ok(false),
                RendererMessage::Command(command, when) => {
                    self.commanded_at = Some(when);
                    self.apply_queue_command(command);
                    if self.queue.current().is_some() {
                        break;
                    }
                }
            }
        }
        self.controls.set_drained(false);
        self.discard_queued();
        for block in empty {
            // We pass the empty blocks through the sink, which returns them as usual. This does not
            // wait, because the channel has room for all blocks.
            if self.blocks.send(block).await.is_err() {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Executes a command that affects only the queue. Returns whether to play the current song of
    /// the queue from its start.
    fn apply_queue_command(&mut self, command: Command) -> bool {
        match command {
            Command::Next => self.queue.next(),
            Command::Previous => self.queue.previous(),
            Command::Jump(place) => self.queue.jump(place),
            Command::Repeat(repeat) => {
                self.queue.set_repeat(repeat);
                return false;
            }
            Command::Shuffle(shuffled) => {
                self.queue.shuffle(shuffled);
                return false;
            }
            _ => return false,
        }
        true
    }

    async fn play(
        &mut self,
        song: &Song,
        sound: PlaybackSettings,
        (place, source): (usize, String),
    ) -> Result<Exit, String> {
        let PlaybackSettings {
            mut settings,
            effects,
            gain,
        } = sound;
        let rate = settings.sample_rate;
        let mut chain = Chain::whole(&effects, rate, gain, SampleFormat::F32);
        let loops = settings.loops;
        if self.controls.loops_forever() {
            settings.loops = ENDLESS_LOOPS;
        }
        let mut playing = SongPlayer::new(song, &settings).map_err(|error| error.to_string())?;
        self.queue.mark_played();
        playing.set_tempo(self.controls.tempo(), self.controls.pitch());
        self.controls.set_voice_mask(playing.voice_mask());
        let named = (place, source);
        let track = self.track(song, &playing, &settings, named.clone());
        self.send_event(PlayerEvent::Started(self.serial + 1, Arc::new(track)));
        if self.serial == 0 {
            self.controls.set_position(0, 0);
        } else if self.controls.is_paused() {
            // While paused, we show the new song at once, because no sound would announce it.
            self.controls.set_position(self.serial + 1, 0);
        }
        loop {
            let block = match self.receive().await {
                Ok(RendererMessage::EmptyBlock(block)) => block,
                Ok(RendererMessage::Command(Command::LoopForever(forever), _)) => {
                    settings.loops = if forever { ENDLESS_LOOPS } else { loops };
                    // Blocks that are already rendered stay valid.
                    playing.set_length(&settings);
                    let track = self.track(song, &playing, &settings, named.clone());
                    self.send_event(PlayerEvent::Started(self.serial, Arc::new(track)));
                    continue;
                }
                Ok(RendererMessage::Command(command, when)) => {
                    let generation = self.generation;
                    let way = self.apply_command(command, &mut playing).await;
                    if self.generation != generation || way.is_some() {
                        self.commanded_at = Some(when);
                    }
                    match way {
                        Some(way) => return Ok(way),
                        None => continue,
                    }
                }
                Err(RecvError) => return Ok(Exit::Quit),
            };
            let block = self.make_block(block, &mut playing, &mut chain);
            let is_last = block.frames.is_empty();
            if self.blocks.send(block).await.is_err() {
                return Ok(Exit::Quit);
            }
            if is_last {
                return Ok(Exit::SongEnded);
            }
        }
    }

    /// Renders the next block. It is empty at the end of the song.
    fn make_block(
        &mut self,
        mut block: Box<Block>,
        playing: &mut SongPlayer<'_>,
        chain: &mut Chain,
    ) -> Box<Block> {
        let begin = Instant::now();
        let seeing = self.controls.meter_mode();
        let mut voices = Vec::new();
        let frames = (self.controls.sample_rate() / BLOCKS_PER_SECOND) as usize;
        if self.looks.is_due(seeing) {
            let long = if seeing == MeterMode::Waves { 2 } else { 1 };
            voices = playing.meter_voices(frames * long);
            self.looks
                .record_cost(begin.elapsed().as_nanos(), BLOCK_TIME.as_nanos());
        }
        block.first = playing.frame();
        block.frames.resize(frames, [0.0; 2]);
        let made = playing.fill(&mut block.frames);
        block.frames.truncate(made);
        chain.apply(&mut block.frames);
        block.tempo = self.controls.tempo();
        (block.generation, block.commanded_at) = (self.generation, None);
        if made > 0 {
            self.serial += 1;
            block.commanded_at = self.commanded_at.take();
            let took = begin.elapsed().as_nanos() * 1000 / BLOCK_TIME.as_nanos();
            // Without metering, we send only one block in ten. It keeps the load figure up to date.
            let is_metered = seeing != MeterMode::Off || self.serial.is_multiple_of(10);
            let together = |frame: &[f32; 2]| (frame[0] + frame[1]) * 0.5;
            let tap = is_metered.then(|| TapBlock {
                serial: self.serial,
                frame: block.first,
                load: took as u32,
                mix: match seeing {
                    MeterMode::Off => Vec::new(),
                    _ => block.frames.iter().map(together).collect(),
                },
                voices,
            });
            if let Some(tap) = tap {
                // If the channel is full, the interface sees a later block.
                let _ = self.taps.try_send(tap);
            }
        }
        block.serial = self.serial;
        block
    }

    /// Executes a command while a song plays. Returns how the song was left, if it was.
    async fn apply_command(
        &mut self,
        command: Command,
        playing: &mut SongPlayer<'_>,
    ) -> Option<Exit> {
        let now = self.heard_frame(playing);
        let rate = u64::from(self.controls.sample_rate());
        let frames = |ms: u64| ms.saturating_mul(rate) / 1000;
        match command {
            Command::Quit => return Some(Exit::Quit),
            Command::Previous if now >= RESTART_AFTER_SECONDS * rate => self.seek(playing, 0).await,
            Command::Seek(ms) if ms < 0 => {
                self.seek(playing, now.saturating_sub(frames(ms.unsigned_abs())))
                    .await;
            }
            Command::Seek(ms) => {
                self.seek(playing, now.saturating_add(frames(ms.unsigned_abs())))
                    .await
            }
            Command::SeekTo(ms) => self.seek(playing, frames(ms)).await,
            Command::ToggleVoice(voice) if voice < 64 => {
                self.set_voice_mask(playing, playing.voice_mask() ^ 1 << voice)
                    .await
            }
            Command::SoloVoice(voice) if voice < 64 => {
                let voices = playing.voices().len() as u32;
                let others = u64::MAX.checked_shl(voices).unwrap_or(0);
                let alone = 1 << voice | others;
                let is_alone = playing.voice_mask() == alone;
                self.set_voice_mask(playing, if is_alone { u64::MAX } else { alone })
                    .await;
            }
            Command::UnmuteAll => self.set_voice_mask(playing, u64::MAX).await,
            Command::Tempo(_) | Command::Pitch(_) => {
                let next = self.next_frame(playing);
                self.seek(playing, next).await;
                playing.set_tempo(self.controls.tempo(), self.controls.pitch());
            }
            _ => return self.apply_queue_command(command).then_some(Exit::Leave),
        }
        None
    }

    /// Sets the unmuted voices. The change starts with the next sound after the buffer of the
    /// device.
    async fn set_voice_mask(&mut self, playing: &mut SongPlayer<'_>, heard: u64) {
        let next = self.next_frame(playing);
        self.seek(playing, next).await;
        playing.set_voice_mask(heard);
        self.controls.set_voice_mask(heard);
    }

    /// Seeks to a frame of the song. A new command that changes the position cancels the seek.
    /// Other commands wait until it ends. It yields regularly, so that other tasks of the worker
    /// can run.
    async fn seek(&mut self, playing: &mut SongPlayer<'_>, to: u64) {
        self.discard_queued();
        let to = playing.start_seek(to);
        while playing.advance_seek(to, &mut self.scratch) {
            self.controls.set_seeking(true);
            yield_now().await;
            while self.deferred.len() < DEFERRED_MAX
                && let Ok(next) = self.inbox.try_recv()
            {
                self.deferred.push_back(next);
            }
            let is_elsewhere = |kept: &RendererMessage| matches!(kept, RendererMessage::Command(command, _) if command.changes_position());
            if self.deferred.iter().any(is_elsewhere) {
                break;
            }
        }
        playing.finish_seek();
        self.controls.set_seeking(false);
        if self.controls.is_paused() {
            // While paused, no block would update the position.
            self.controls.set_position(self.serial, playing.frame());
        }
    }

    /// Makes the sink drop all blocks that are not in the device yet.
    fn discard_queued(&mut self) {
        self.generation = self.controls.next_generation();
    }

    /// Returns the frame of this song that follows the sound in the device.
    fn next_frame(&self, playing: &SongPlayer<'_>) -> u64 {
        self.controls.next_frame().min(playing.frame())
    }

    fn heard_frame(&self, playing: &SongPlayer<'_>) -> u64 {
        self.controls.frame().min(playing.frame())
    }

    fn track(
        &self,
        song: &Song,
        playing: &SongPlayer<'_>,
        settings: &Settings,
        (place, source): (usize, String),
    ) -> Track {
        let rate = u64::from(settings.sample_rate);
        let frames = |ticks: u64| ticks * rate / u64::from(TICKS_PER_SECOND);
        let repeat = song.repeat();
        let forever = repeat.is_some() && settings.loops == ENDLESS_LOOPS;
        Track {
            place,
            source,
            tags: song.tags.with_fallback(),
            voices: playing.voices(),
            frames: (!forever).then(|| playing.frames()),
            faded: settings.frames(song).1,
            looped: repeat.map(|at| (frames(at.tick), frames(song.ticks() - at.tick))),
            missing: missing(song)
                .into_iter()
                .map(|instance| song.header.name(instance.chip))
                .collect(),
        }
    }

    /// Sends an event to the interface, unless the channel is full.
    fn send_event(&self, events: PlayerEvent) {
        let _ = self.events.try_send(events);
    }
}
