//! Playing songs one after another: three parts that never wait for each other.
//!
//! ```text
//!            commands            blocks, each of 10 ms
//! interface ────────► renderer ════════════════════════► sink ────► device
//!     ▲                 │  ▲                              │ │
//!     │     events      │  └───────── empty blocks ───────┘ │
//!     └─────────────────┴────────── the controls ───────────┘
//! ```
//!
//! The renderer ([`renderer`]) makes blocks as long as there are empty ones; so many there are, so
//! much sound is made ahead. The sink ([`sink`]) gives them to the device when it has room. The
//! interface is not here: it sends [`Command`]s, looks at the [`PlayerControls`] and takes what [`PlayerEvent`] there is.
//!
//! Invariants. No part waits for the interface: news that it does not take are dropped. The sink
//! takes no lock and allocates nothing for a block. What is heard is what was commanded last: blocks of
//! an older *generation* (before a seek, a mute, another song) are thrown away, not played. A gap in the
//! sound that nobody asked for is counted.

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

/// Blocks a second.
const BLOCKS_PER_SECOND: u32 = 100;
/// So many blocks are made ahead of the device: 200 ms, which is twice as long as a thread was seen to
/// wait for a busy core. What is ordered does not wait for them: they are made anew.
const BLOCKS: usize = 20;
/// Voices that are told of and can be muted, at most; more are always heard.
pub const VOICES_MAX: usize = 64;
/// The slowest and the fastest tempo, the lowest and the highest pitch, in thousandths.
pub const TEMPO_RANGE: std::ops::RangeInclusive<u32> = 250..=4000;

/// What the interface asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Command {
    /// The next song of the queue.
    Next,
    /// The start of this song, or, within its first two seconds, the song before.
    Previous,
    /// The song with this place in the queue.
    Jump(usize),
    /// So many milliseconds on, or back.
    Seek(i64),
    /// To so many milliseconds from the song's start.
    SeekTo(u64),
    /// A voice is heard, or not: its place among the song's voices.
    ToggleVoice(usize),
    /// This voice alone is heard; if that is so already, all are.
    SoloVoice(usize),
    /// All voices are heard.
    UnmuteAll,
    /// Songs that loop are played for ever, or as often as was set.
    LoopForever(bool),
    /// What comes after the last song, or after this one.
    Repeat(Repeat),
    /// Whether the rest of the queue is in a random order.
    Shuffle(bool),
    /// How fast songs go by, in thousandths of their own tempo, within [`PACE`].
    Tempo(u32),
    /// How high they sound, in thousandths of their own frequencies, within [`PACE`].
    Pitch(u32),
    /// The end: the parts return.
    Quit,
}

impl Command {
    /// Whether it leads away from where the song is.
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

/// What the renderer tells.
#[derive(Debug, Clone)]
pub enum PlayerEvent {
    /// From this block on it is another song, or this one anew.
    Started(u64, Arc<Track>),
    /// A song cannot be played: its place in the queue, and why.
    Failed(usize, String),
}

/// A song that is being played.
#[derive(Debug, Clone)]
pub struct Track {
    /// Its place in the queue.
    pub place: usize,
    /// Where it comes from.
    pub source: String,
    /// What its file says about it.
    pub tags: Gd3,
    /// The names of its voices.
    pub voices: Vec<String>,
    /// Its length with loops and fade, in frames; none if it is played for ever.
    pub frames: Option<u64>,
    /// How many of these, at the end, are faded.
    pub faded: u64,
    /// Where its loop begins and how long it is, in frames.
    pub looped: Option<(u64, u64)>,
    /// The names of its chips that are not played.
    pub missing: Vec<&'static str>,
}

/// What a block holds, for who draws it.
#[derive(Debug, Clone)]
pub struct TapBlock {
    /// Which block.
    pub serial: u64,
    /// The song's frame that it begins with.
    pub frame: u64,
    /// How long it took to make, as a share of how long it lasts, in thousandths.
    pub load: u32,
    /// Left and right together; empty while [nobody looks](PlayerControls::see).
    pub mix: Vec<f32>,
    /// What the voices play; empty at most blocks.
    pub voices: Vec<VoiceMeter>,
}

/// A voice, looked at for a moment.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct VoiceMeter {
    /// The loudest sample of a block, 1 is full scale.
    pub level: f32,
    /// What it plays.
    pub note: Note,
    /// Its sound alone.
    pub wave: Vec<f32>,
}

/// Sound on its way from the renderer to the sink.
struct Block {
    frames: Vec<[f32; 2]>,
    serial: u64,
    generation: u64,
    /// The song's frame that it begins with, and how many it lasts a frame, in thousandths.
    first: u64,
    tempo: u32,
    /// When that was ordered which it is the first to follow, if it is.
    commanded_at: Option<Instant>,
}

/// What the renderer waits for.
enum RendererMessage {
    Command(Command, Instant),
    EmptyBlock(Box<Block>),
}

/// Sends commands; clones send to the same renderer.
#[derive(Clone)]
pub struct CommandSender {
    sender: bounded::Sender<RendererMessage>,
    controls: Arc<PlayerControls>,
}

impl CommandSender {
    /// Sends a command. False: the renderer has ended, or has more commands than it can see to.
    ///
    /// What holds from now on is on the controls at once.
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

/// How a song is to sound.
#[derive(Debug, Clone)]
pub struct PlaybackSettings {
    /// How it is played.
    pub settings: Settings,
    /// What is done to it; a loudness that must be measured first is not brought about.
    pub effects: Effects,
    /// The factor that brings it to a loudness.
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

/// How a song is to sound: called by the renderer as it begins, with the song after it.
pub type ChooseSettings = Box<dyn Fn(&Source, Option<&Source>) -> PlaybackSettings + Send>;

/// The parts, not running yet, and what the interface has of them.
pub struct PlayerParts {
    /// To be run on a pool of its own: [`Renderer::run`].
    pub renderer: Renderer,
    /// To be run on another: [`Sink::run`].
    pub sink: Sink,
    /// What is played, and how.
    pub controls: Arc<PlayerControls>,
    /// Where commands go.
    pub commands: CommandSender,
    /// What the renderer tells; what is not taken in time is dropped.
    pub events: bounded::Receiver<PlayerEvent>,
    /// What was made: each block while [somebody looks](PlayerControls::see), else one in ten; dropped as well.
    pub taps: bounded::Receiver<TapBlock>,
}

/// Makes the parts that play a queue on a device that takes so many frames a second; all settings
/// chosen must have this rate.
pub fn player_parts(
    queue: Queue,
    sample_rate: u32,
    choose: ChooseSettings,
    open: device::Open,
) -> PlayerParts {
    let frames = (sample_rate / BLOCKS_PER_SECOND) as usize;
    // Commands on top of the blocks, all of which may be in there.
    let (to_renderer, inbox) = bounded::channel(BLOCKS + 56);
    let (to_sink, blocks) = bounded::channel(BLOCKS);
    let (events_out, events) = bounded::channel(256);
    let (show, taps) = bounded::channel(256);
    for _ in 0..BLOCKS {
        let block = Block {
            frames: Vec::with_capacity(frames),
            serial: 0,
            generation: 0,
            first: 0,
            tempo: TEMPO,
            commanded_at: None,
        };
        let sent = to_renderer.try_send(RendererMessage::EmptyBlock(Box::new(block)));
        debug_assert!(sent.is_ok(), "there is a place for each");
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

/// How long a block lasts.
pub(crate) const BLOCK_TIME: Duration = Duration::from_millis(1000 / BLOCKS_PER_SECOND as u64);
