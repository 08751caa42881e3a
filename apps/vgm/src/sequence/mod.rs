//! The sequencer: walks a song's commands in time and hands each part of a chip its timed writes.
//!
//! Commands are decoded a window at a time, just ahead of what is rendered, into one queue for each
//! lane of a chip. So memory is bounded by the window and not by the song, a loop is a jump back,
//! and streams are expanded as they play. Each part of a chip renders in blocks between the events
//! of its own lanes: what another part, or another chip, is told never cuts its blocks short.
//!
//! Invariant: the ticks within a queue never fall, and its events do not depend on where the
//! windows end.

mod stream;

use crate::format::{ChipId, Command, Instance, Song, StreamCommand, Write, decode};
use stream::Stream;

/// Something a chip is told at a moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Event {
    /// When, in ticks of the song.
    pub tick: u64,
    /// What.
    pub action: Action,
}

/// What a chip is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    /// Write a register.
    Write {
        /// The chip's port, 0 or 1.
        port: u8,
        /// The register.
        reg: u8,
        /// The value.
        value: u8,
    },
    /// Take in the memory block whose command lies at this byte of the song.
    Memory(u32),
}

/// The events of one lane that have not been acted on yet.
#[derive(Debug, Default)]
pub struct Queue {
    events: Vec<Event>,
    taken: usize,
}

impl Queue {
    /// The events not yet taken, in order of time.
    pub fn pending(&self) -> &[Event] {
        &self.events[self.taken..]
    }

    /// Takes `count` events off the front.
    pub fn take(&mut self, count: usize) {
        self.taken += count;
    }

    /// Takes all that is pending.
    pub fn take_all(&mut self, mut act: impl FnMut(Action)) {
        for event in self.pending() {
            act(event.action);
        }
        self.taken = self.events.len();
    }
}

/// How many lanes a chip has: its own, and one for what must not cut that one's blocks short.
pub const LANES: usize = 2;

/// The lanes of a chip that a write goes to, as a pair (own, second).
///
/// The second lane is the SSG of an OPN chip, which renders apart from the FM, and the DAC data of
/// the YM2612, which changes at every few samples.
fn lanes(write: &Write) -> [bool; LANES] {
    let (chip, reg) = (write.instance.chip, write.reg);
    match chip {
        ChipId::Ym2203 | ChipId::Ym2608 if write.port == 0 && matches!(reg, 0x2D..=0x2F) => {
            // The prescaler sets the pace of both halves.
            [true, true]
        }
        ChipId::Ym2203 | ChipId::Ym2608 | ChipId::Ym2610 if write.port == 0 && reg < 0x10 => {
            [false, true]
        }
        ChipId::Ym2612 if write.port == 0 && reg == 0x2A => [false, true],
        _ => [true, false],
    }
}

/// The queues of all listeners.
#[derive(Debug)]
struct Queues {
    lanes: Vec<[Queue; LANES]>,
    /// Which listener an instance is.
    listeners: [Option<u8>; Instance::COUNT],
}

impl Queues {
    fn of_listeners(instances: &[Instance]) -> Self {
        let mut listeners = [None; Instance::COUNT];
        for (place, instance) in instances.iter().enumerate() {
            listeners[instance.index()] = Some(place as u8);
        }
        Queues {
            lanes: instances.iter().map(|_| Default::default()).collect(),
            listeners,
        }
    }

    fn of(&mut self, instance: Instance) -> Option<&mut [Queue; LANES]> {
        let listener = self.listeners[instance.index()]?;
        Some(&mut self.lanes[usize::from(listener)])
    }

    fn push(&mut self, tick: u64, write: &Write) {
        let Some(queues) = self.of(write.instance) else {
            return;
        };
        let action = Action::Write {
            port: write.port,
            reg: write.reg as u8,
            value: write.value as u8,
        };
        for (queue, wanted) in queues.iter_mut().zip(lanes(write)) {
            if wanted {
                queue.events.push(Event { tick, action });
            }
        }
    }

    /// Keeps the memory of what has been acted on for what comes.
    fn forget_taken(&mut self) {
        for queue in self.lanes.iter_mut().flatten() {
            queue.events.drain(..queue.taken);
            queue.taken = 0;
        }
    }
}

/// Walks a song in time.
#[derive(Debug)]
pub struct Sequencer<'s> {
    song: &'s Song,
    offset: usize,
    tick: u64,
    /// Ticks left of the wait being sat out.
    wait: u64,
    ended: bool,
    streams: Vec<Stream>,
    /// Where the YM2612's data bank is read next.
    dac_at: usize,
    queues: Queues,
}

impl<'s> Sequencer<'s> {
    /// A sequencer at the start of `song` that keeps the events of `listeners`, each of which is
    /// then known by its place in that list.
    pub fn new(song: &'s Song, listeners: &[Instance]) -> Self {
        Sequencer {
            song,
            offset: song.header.data_offset,
            tick: 0,
            wait: 0,
            ended: false,
            streams: Vec::new(),
            dac_at: 0,
            queues: Queues::of_listeners(listeners),
        }
    }

    /// The queues of a listener, its own lane first.
    pub fn queues(&mut self, listener: usize) -> &mut [Queue; LANES] {
        &mut self.queues.lanes[listener]
    }

    /// Decodes all that happens before tick `until`.
    pub fn advance(&mut self, until: u64) {
        self.queues.forget_taken();
        while self.tick < until {
            if self.ended || self.wait > 0 {
                let left = until - self.tick;
                let ticks = if self.ended {
                    left
                } else {
                    left.min(self.wait)
                };
                self.wait = self.wait.saturating_sub(ticks);
                self.pass(ticks);
            } else {
                self.command();
            }
        }
    }

    fn command(&mut self) {
        let decoded = decode(self.song.bytes(), self.offset, self.song.header.version);
        // A song's commands all decode: they were walked when it was read.
        let (command, next) = decoded.unwrap_or((Command::End, self.offset));
        let at = self.offset;
        self.offset = next;
        match command {
            Command::Wait(ticks) => self.wait = u64::from(ticks),
            Command::Write(write) => self.queues.push(self.tick, &write),
            Command::DacWait(ticks) => {
                self.dac_write();
                self.wait = u64::from(ticks);
            }
            Command::Seek(offset) => self.dac_at = offset as usize,
            Command::Block(block) => self.memory(block.kind, block.second, at),
            Command::Stream(command) => self.stream(command),
            Command::End => match self.song.repeat() {
                Some(repeat) => self.offset = repeat.offset,
                None => self.ended = true,
            },
            // Copies into RAM are for chips that are not played here.
            Command::RamWrite(_) | Command::Nothing => {}
        }
    }

    fn dac_write(&mut self) {
        let byte = self
            .song
            .bank(0)
            .and_then(|bank| bank.data.get(self.dac_at));
        self.dac_at = self.dac_at.saturating_add(1);
        if let Some(&byte) = byte {
            let instance = Instance {
                chip: ChipId::Ym2612,
                second: false,
            };
            let write = Write {
                instance,
                port: 0,
                reg: 0x2A,
                value: u16::from(byte),
            };
            self.queues.push(self.tick, &write);
        }
    }

    /// Memory blocks of chips that are played go to the chip's own lane.
    fn memory(&mut self, kind: u8, second: bool, at: usize) {
        let chip = match kind {
            0x81 => ChipId::Ym2608,
            0x82 | 0x83 => ChipId::Ym2610,
            0x88 => ChipId::Y8950,
            _ => return,
        };
        if let Some(lanes) = self.queues.of(Instance { chip, second }) {
            lanes[0].events.push(Event {
                tick: self.tick,
                action: Action::Memory(at as u32),
            });
        }
    }

    fn stream(&mut self, command: StreamCommand) {
        let (song, now) = (self.song, self.tick);
        match command {
            StreamCommand::Stop { id: 0xFF } => self.streams.iter_mut().for_each(Stream::stop),
            StreamCommand::Stop { id } => self.stream_of(id).stop(),
            StreamCommand::Setup {
                id,
                chip,
                port,
                reg,
            } => self.stream_of(id).set_up(chip, port, reg),
            StreamCommand::Data {
                id,
                bank,
                step,
                base,
            } => self.stream_of(id).set_data(bank, step, base),
            StreamCommand::Frequency { id, hz } => self.stream_of(id).set_frequency(hz, now),
            StreamCommand::Start {
                id,
                offset,
                mode,
                length,
            } => self.stream_of(id).start(song, now, offset, mode, length),
            StreamCommand::StartBlock { id, block, flags } => {
                self.stream_of(id).start_block(song, now, block, flags);
            }
        }
    }

    fn stream_of(&mut self, id: u8) -> &mut Stream {
        let place = self.streams.iter().position(|stream| stream.id == id);
        let place = place.unwrap_or_else(|| {
            self.streams.push(Stream::new(id));
            self.streams.len() - 1
        });
        &mut self.streams[place]
    }

    /// Lets `ticks` go by: the streams write what falls due.
    fn pass(&mut self, ticks: u64) {
        let end = self.tick + ticks;
        while let Some(due) = self.streams.iter().filter_map(Stream::next_tick).min() {
            if due >= end {
                break;
            }
            for stream in &mut self.streams {
                if stream.next_tick() != Some(due) {
                    continue;
                }
                if let Some(write) = stream.step(self.song) {
                    self.queues.push(due, &write);
                }
            }
        }
        self.tick = end;
    }
}
