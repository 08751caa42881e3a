//! Playing songs one after another, with three parts: the renderer, the sink and the interface.
//!
//! ```text
//!            commands            blocks, each of 10 ms
//! interface ────────► renderer ════════════════════════► sink ────► device
//!     ▲                 │  ▲                              │ │
//!     │     events      │  └───────── empty blocks ───────┘ │
//!     └─────────────────┴────────── the controls ───────────┘
//! ```
//!
//! - The renderer ([`renderer`]) fills empty blocks. The number of blocks limits how much sound we
//!   render ahead.
//! - The sink ([`sink`]) passes the blocks to the device when the device has room.
//! - The interface is outside this module. It sends [`Command`]s, reads the [`PlayerControls`] and
//!   receives [`PlayerEvent`]s.
//!
//! Invariants:
//!
//! - The renderer and the sink never wait for the interface. They drop events that it does not
//!   receive in time.
//! - The sink takes no lock and allocates nothing for a block.
//! - A command takes effect at once, because the sink drops blocks of an older *generation*. For
//!   example, a seek, a mute or a jump to another song starts a new generation.
//! - We count each gap in the sound of more than a millisecond that no command asked for, either as
//!   an underrun or as a stall of the device.

mod controls;
pub mod device;
mod notes;
mod pitch;
mod queue;
mod realtime;
pub mod renderer;
pub mod sink;
mod track;

pub use controls::{MeterMode, PlayerControls};
pub use device::Device;
pub use notes::{Note, note_name};
pub use queue::{Queue, Repeat};
pub use renderer::Renderer;
pub use sink::Sink;
pub use track::SongPlayer;

use creel::channel::bounded;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::batch::Source;
use crate::effects::Effects;
use crate::format::Gd3;
use crate::render::{Settings, TEMPO};

/// The number of blocks per second of sound.
const BLOCKS_PER_SECOND: u32 = 100;
/// The usual number of blocks that are rendered ahead of the device. They last 200 ms, which is
/// twice the longest time that we measured a thread to wait for a busy core. Commands do not wait
/// for these blocks, because we drop them and render new ones.
const BLOCKS: usize = 20;
/// The maximum number of voices that are shown and can be muted. Further voices are always audible.
pub const VOICES_MAX: usize = 64;
/// The range of the tempo and of the pitch, in thousandths.
pub const TEMPO_RANGE: std::ops::RangeInclusive<u32> = 250..=4000;

/// A command of the interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Command {
    /// Plays the next song of the queue.
    Next,
    /// Goes to the start of this song, or within its first two seconds to the previous song.
    Previous,
    /// Plays the song at this position in the queue.
    Jump(usize),
    /// Seeks forward by this number of milliseconds, or back if it is negative.
    Seek(i64),
    /// Seeks to this number of milliseconds from the start of the song.
    SeekTo(u64),
    /// Mutes or unmutes the voice with this index.
    ToggleVoice(usize),
    /// Mutes all voices except this one, or unmutes all if that is already the case.
    SoloVoice(usize),
    /// Unmutes all voices.
    UnmuteAll,
    /// Repeats loops endlessly if true, and as often as the settings say if false.
    LoopForever(bool),
    /// Sets the repeat mode: what follows the last song of the queue, or each song.
    Repeat(Repeat),
    /// Plays the rest of the queue in a random order if true, and in the original order if false.
    Shuffle(bool),
    /// Sets the tempo, in thousandths of the tempo of the song, within [`TEMPO_RANGE`].
    Tempo(u32),
    /// Sets the pitch, in thousandths of the frequencies of the song, within [`TEMPO_RANGE`].
    Pitch(u32),
    /// Ends the player. The renderer and the sink return.
    Quit,
}

impl Command {
    /// Returns whether the command leaves the current position in the song.
    fn changes_position(self) -> bool {
        match self {
            Command::Next | Command::Previous | Command::Jump(_) | Command::Quit => true,
            Command::Seek(_) | Command::SeekTo(_) => true,
            Command::ToggleVoice(_) | Command::SoloVoice(_) | Command::UnmuteAll => false,
            Command::LoopForever(_) | Command::Repeat(_) | Command::Shuffle(_) => false,
            Command::Tempo(_) | Command::Pitch(_) => false,
        }
    }
}

/// An event of the renderer.
#[derive(Debug, Clone)]
pub enum PlayerEvent {
    /// A song starts with this block. It may also be the same song again, or with another length.
    Started(u64, Arc<Track>),
    /// The song at this position in the queue cannot be played, for this reason.
    Failed(usize, String),
}

/// A playing song.
#[derive(Debug, Clone)]
pub struct Track {
    /// The position of the song in the queue, from 0.
    pub place: usize,
    /// The name of the file, or of the file in an archive.
    pub source: String,
    /// The tags of the song.
    pub tags: Gd3,
    /// The names of the voices.
    pub voices: Vec<String>,
    /// The length with loops and fade, in frames, or `None` if the song is endless.
    pub frames: Option<u64>,
    /// The number of frames of the fade at the end.
    pub faded: u64,
    /// The start and the length of the loop, in frames.
    pub looped: Option<(u64, u64)>,
    /// The names of the chips that are not supported.
    pub missing: Vec<&'static str>,
}

/// A copy of a block for the interface.
#[derive(Debug, Clone)]
pub struct TapBlock {
    /// The serial number of the block.
    pub serial: u64,
    /// The first frame of the block in the song.
    pub frame: u64,
    /// The rendering time, in thousandths of the duration of the block.
    pub load: u32,
    /// The mean of left and right. It is empty while
    /// [metering is off](PlayerControls::set_meter_mode).
    pub mix: Vec<f32>,
    /// The measurements of the voices. Most blocks have none.
    pub voices: Vec<VoiceMeter>,
}

/// The measurement of a voice at one moment.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct VoiceMeter {
    /// Half of the distance between the highest and the lowest sample of the measured sound, where
    /// 1 is full scale.
    pub level: f32,
    /// The note of the voice.
    pub note: Note,
    /// The sound of this voice alone.
    pub wave: Vec<f32>,
}

/// A block of sound on its way from the renderer to the sink.
struct Block {
    frames: Vec<[f32; 2]>,
    serial: u64,
    generation: u64,
    /// The first frame of the block in the song.
    first: u64,
    /// The number of song frames per output frame, in thousandths.
    tempo: u32,
    /// The time of a command, if this is the first block after it.
    commanded_at: Option<Instant>,
}

enum RendererMessage {
    Command(Command, Instant),
    EmptyBlock(Box<Block>),
}

/// Sends commands to the renderer. Clones send to the same renderer.
#[derive(Clone)]
pub struct CommandSender {
    sender: bounded::Sender<RendererMessage>,
    controls: Arc<PlayerControls>,
}

impl CommandSender {
    /// Sends a command. Returns whether it was sent. It fails if the renderer has ended, or if too
    /// many commands are pending.
    ///
    /// The controls show the new settings at once.
    pub fn send(&self, command: Command) -> bool {
        let command = match command {
            Command::Tempo(tempo) => {
                Command::Tempo(tempo.clamp(*TEMPO_RANGE.start(), *TEMPO_RANGE.end()))
            }
            Command::Pitch(pitch) => {
                Command::Pitch(pitch.clamp(*TEMPO_RANGE.start(), *TEMPO_RANGE.end()))
            }
            command => command,
        };
        let sent = self
            .sender
            .try_send(RendererMessage::Command(command, Instant::now()));
        if sent.is_ok() {
            self.controls.apply(command);
        }
        sent.is_ok()
    }
}

/// The settings for playing one song.
#[derive(Debug, Clone)]
pub struct PlaybackSettings {
    /// The settings of the renderer.
    pub settings: Settings,
    /// The effects on the mix. We ignore their loudness, because the player does not measure it.
    pub effects: Effects,
    /// The gain that brings the song to the wanted loudness.
    pub gain: f32,
}

impl Default for PlaybackSettings {
    fn default() -> Self {
        PlaybackSettings {
            settings: Settings::default(),
            effects: Effects::default(),
            gain: 1.0,
        }
    }
}

/// Chooses the settings of a song. The renderer calls it when a song starts, and also passes the
/// song after it.
pub type ChooseSettings = Box<dyn Fn(&Source, Option<&Source>) -> PlaybackSettings + Send>;

/// The parts of a player before they run, and their ends for the interface.
pub struct PlayerParts {
    /// The renderer. Run it on a pool of its own with [`Renderer::run`].
    pub renderer: Renderer,
    /// The sink. Run it on another pool with [`Sink::run`].
    pub sink: Sink,
    /// The switches and gauges of the player.
    pub controls: Arc<PlayerControls>,
    /// The sender of commands.
    pub commands: CommandSender,
    /// The events of the renderer. If this channel is full, further events are dropped.
    pub events: bounded::Receiver<PlayerEvent>,
    /// Copies of the blocks: all of them while
    /// [metering is on](PlayerControls::set_meter_mode), otherwise one in ten. If this channel is
    /// full, further copies are dropped.
    pub taps: bounded::Receiver<TapBlock>,
}

/// Creates the parts of a player for a queue. The device plays `sample_rate` frames per second, and
/// `choose` must return settings with the same rate.
pub fn player_parts(
    queue: Queue,
    sample_rate: u32,
    choose: ChooseSettings,
    open: device::Open,
) -> PlayerParts {
    player_parts_ahead(queue, sample_rate, choose, open, BUFFER)
}

/// The duration of the sound that the renderer usually is ahead of the device.
pub const BUFFER: Duration = BLOCK_TIME.saturating_mul(BLOCKS as u32);

/// Creates the parts of a player like [`player_parts`]. The renderer is up to `ahead` ahead of the
/// device, in steps of 10 ms. We limit `ahead` to the range from 20 ms to 10 s.
pub fn player_parts_ahead(
    queue: Queue,
    sample_rate: u32,
    choose: ChooseSettings,
    open: device::Open,
    ahead: Duration,
) -> PlayerParts {
    let ahead = (ahead.as_millis() / BLOCK_TIME.as_millis()).clamp(2, 1000) as usize;
    let frames = (sample_rate / BLOCKS_PER_SECOND) as usize;
    // The channel must have room for all blocks, in addition to the commands.
    let (to_renderer, inbox) = bounded::channel(ahead + 56);
    let (to_sink, blocks) = bounded::channel(ahead);
    let (events_out, events) = bounded::channel(256);
    let (show, taps) = bounded::channel(256);
    for _ in 0..ahead {
        let block = Block {
            frames: Vec::with_capacity(frames),
            serial: 0,
            generation: 0,
            first: 0,
            tempo: TEMPO,
            commanded_at: None,
        };
        let sent = to_renderer.try_send(RendererMessage::EmptyBlock(Box::new(block)));
        debug_assert!(sent.is_ok(), "the channel has room for all blocks");
    }
    let controls = Arc::new(PlayerControls::new(sample_rate));
    controls.apply(Command::Repeat(queue.repeat()));
    controls.apply(Command::Shuffle(queue.is_shuffled()));
    PlayerParts {
        sink: Sink::new(blocks, to_renderer.clone(), Arc::clone(&controls), open),
        renderer: Renderer::new(
            queue,
            choose,
            (inbox, to_sink, events_out, show),
            Arc::clone(&controls),
            ahead,
        ),
        commands: CommandSender {
            sender: to_renderer,
            controls: Arc::clone(&controls),
        },
        controls,
        events,
        taps,
    }
}

pub(crate) const BLOCK_TIME: Duration = Duration::from_millis(1000 / BLOCKS_PER_SECOND as u64);
