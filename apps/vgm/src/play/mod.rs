//! Playing songs one after another: three parts that never wait for each other.
//!
//! ```text
//!            orders              blocks, each of 10 ms
//! interface ────────► renderer ════════════════════════► sink ────► device
//!     ▲                 │  ▲                              │ │
//!     │   news of them  │  └───────── empty blocks ───────┘ │
//!     └─────────────────┴──────────── the desk ─────────────┘
//! ```
//!
//! The renderer ([`renderer`]) makes blocks as long as there are empty ones; so many there are, so
//! much sound is made ahead. The sink ([`sink`]) gives them to the device when it has room. The
//! interface is not here: it sends [`Order`]s, looks at the [`Desk`] and takes what [`News`] there is.
//!
//! Invariants. No part waits for the interface: news that it does not take are dropped. The sink
//! takes no lock and allocates nothing for a block. What is heard is what was ordered last: blocks of
//! an older *turn* (before a seek, a mute, another song) are thrown away, not played. A gap in the
//! sound that nobody asked for is counted.

mod desk;
pub mod device;
mod queue;
pub mod renderer;
pub mod sink;
mod track;

pub use desk::Desk;
pub use device::Device;
pub use queue::{Queue, Repeat};
pub use renderer::Renderer;
pub use sink::Sink;

use creel::channel::ring;
use std::sync::Arc;
use std::time::Duration;

use crate::format::Gd3;
use crate::render::Settings;

/// Blocks a second.
const BLOCKS_PER_SECOND: u32 = 100;
/// So many blocks are made ahead of the device: 80 ms.
const BLOCKS: usize = 8;
/// Voices whose levels are told, at most.
pub const VOICES_MAX: usize = 48;

/// What the interface asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
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
    Toggle(usize),
    /// This voice alone is heard; if that is so already, all are.
    Solo(usize),
    /// All voices are heard.
    HearAll,
    /// Songs that loop are played for ever, or as often as was set.
    LoopForever(bool),
    /// What comes after the last song, or after this one.
    Repeat(Repeat),
    /// Whether the rest of the queue is in a random order.
    Shuffle(bool),
    /// The end: the parts return.
    Quit,
}

/// What the renderer tells.
#[derive(Debug, Clone)]
pub enum News {
    /// From this block on it is another song, or this one anew.
    Begun(u64, Arc<Track>),
    /// A block was made.
    Made(Tap),
    /// A song cannot be played: its place in the queue, and why.
    Failed(usize, String),
    /// The queue is at its end.
    Ended,
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
    /// Where its loop begins and how long it is, in frames.
    pub looped: Option<(u64, u64)>,
    /// The names of its chips that are not played.
    pub missing: Vec<&'static str>,
}

/// What a block holds, for who draws it.
#[derive(Debug, Clone, Copy)]
pub struct Tap {
    /// Which block.
    pub serial: u64,
    /// The song's frame that it begins with.
    pub frame: u64,
    /// The loudest sample of each voice, heard or not.
    pub levels: [f32; VOICES_MAX],
    /// Which voices are heard.
    pub heard: u64,
    /// How long it took to make, as a share of how long it lasts, in thousandths.
    pub load: u32,
}

/// Sound on its way from the renderer to the sink.
struct Block {
    frames: Vec<[f32; 2]>,
    serial: u64,
    turn: u64,
    /// The song's frame that it begins with.
    first: u64,
}

/// What the renderer waits for.
enum Inbox {
    Order(Order),
    Empty(Box<Block>),
}

/// Sends orders; clones send to the same renderer.
#[derive(Clone)]
pub struct Orders(ring::Sender<Inbox>);

impl Orders {
    /// Orders something. False: the renderer has ended, or has more orders than it can see to.
    pub fn send(&self, order: Order) -> bool {
        self.0.try_send(Inbox::Order(order)).is_ok()
    }
}

/// The parts, not running yet, and what the interface has of them.
pub struct Parts {
    /// To be run on a pool of its own: [`Renderer::run`].
    pub renderer: Renderer,
    /// To be run on another: [`Sink::run`].
    pub sink: Sink,
    /// What is played, and how.
    pub desk: Arc<Desk>,
    /// Where orders go.
    pub orders: Orders,
    /// What the renderer tells; what is not taken in time is dropped.
    pub news: ring::Receiver<News>,
}

/// Makes the parts that play a queue on a device.
pub fn parts(queue: Queue, settings: Settings, open: device::Open) -> Parts {
    let frames = (settings.sample_rate / BLOCKS_PER_SECOND) as usize;
    // Orders on top of the blocks, all of which may be in there.
    let (to_renderer, inbox) = ring::channel(BLOCKS + 56);
    let (to_sink, blocks) = ring::channel(BLOCKS);
    let (tell, news) = ring::channel(256);
    for _ in 0..BLOCKS {
        let block = Block {
            frames: Vec::with_capacity(frames),
            serial: 0,
            turn: 0,
            first: 0,
        };
        let sent = to_renderer.try_send(Inbox::Empty(Box::new(block)));
        debug_assert!(sent.is_ok(), "there is a place for each");
    }
    let desk = Arc::new(Desk::new(settings.sample_rate));
    Parts {
        sink: Sink::new(blocks, to_renderer.clone(), Arc::clone(&desk), open),
        renderer: Renderer::new(queue, settings, (inbox, to_sink, tell), Arc::clone(&desk)),
        desk,
        orders: Orders(to_renderer),
        news,
    }
}

/// How long a block lasts.
pub(crate) const BLOCK_TIME: Duration = Duration::from_millis(1000 / BLOCKS_PER_SECOND as u64);
