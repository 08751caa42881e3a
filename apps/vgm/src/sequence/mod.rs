//! The sequencer: walks the commands of a song in time and passes timed writes to each part of a
//! chip.
//!
//! The sequencer decodes a window of commands shortly before they are rendered, into one queue per
//! lane of a chip. Memory is therefore bounded by the window and not by the song. A loop is a jump
//! back, and streams are expanded while they play. Each part of a chip renders in blocks between
//! the events of its own lanes. Writes to another part or to another chip therefore never split its
//! blocks.
//!
//! Invariant: the ticks within a queue never decrease, and the events do not depend on where the
//! windows end.

mod stream;

use crate::chips::registry;
use crate::chips::voices::VoiceMuter;
use crate::format::{
    ChipId, Command, Header, Instance, PWM_BYTES, Song, StreamCommand, Write, decode,
    frequent_wait, frequent_write, misplaced, pwm_write,
};
pub use stream::OF_CHANNEL;
use stream::Stream;

/// A timed action of a chip.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Event {
    /// The time, in ticks of the song.
    pub tick: u64,
    /// The action.
    pub action: Action,
}

/// An action that a command or a stream of the song causes on a chip.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    /// Write a register.
    Write {
        /// The chip's port, 0 or 1 for most chips.
        port: u8,
        /// The register, or an address if the chip has a window onto its memory.
        reg: u16,
        /// The value, which is a byte for most chips.
        value: u16,
    },
    /// Load the memory block whose command is at this offset of the song, in bytes.
    Memory(u32),
}

impl Action {
    /// Returns the action without its effect on muted voices.
    pub fn masked(self, muter: Option<&mut VoiceMuter>) -> Action {
        match (self, muter) {
            (Action::Write { port, reg, value }, Some(muter)) => Action::Write {
                port,
                reg,
                value: muter.filter(port, reg, value),
            },
            _ => self,
        }
    }
}

/// The events of one lane of a chip that its renderer has not taken yet.
#[derive(Debug, Clone, Default)]
pub struct Queue {
    events: Vec<Event>,
    taken: usize,
}

impl Queue {
    /// Returns the events that have not been taken, in order of time.
    pub fn pending(&self) -> &[Event] {
        &self.events[self.taken..]
    }

    /// Removes `count` events from the front of the queue.
    pub fn take(&mut self, count: usize) {
        self.taken += count;
    }

    /// Removes all pending events and passes their actions to `act`.
    pub fn take_all(&mut self, mut act: impl FnMut(Action)) {
        for event in self.pending() {
            act(event.action);
        }
        self.taken = self.events.len();
    }
}

/// The number of lanes of a chip: its main lane, and one for events that must not split the blocks
/// of the main lane.
pub const LANES: usize = 2;

/// Returns for each lane of the chip whether a write goes to it, as a pair (main, second).
///
/// The second lane depends on the chip:
///
/// - On an OPN chip, it is the SSG, which renders separately from the FM.
/// - On a YM2612, it is the DAC data, which changes every few samples.
/// - On an OPL4, it is the wave half.
#[inline(always)]
fn lanes(write: &Write) -> [bool; LANES] {
    let (chip, reg) = (write.instance.chip, write.reg);
    match chip {
        ChipId::Ym2203 | ChipId::Ym2608 if write.port == 0 && matches!(reg, 0x2D..=0x2F) => {
            // The prescaler of an OPN chip sets the clock of both halves, the FM and the SSG.
            [true, true]
        }
        ChipId::Ym2203 | ChipId::Ym2608 | ChipId::Ym2610 if write.port == 0 && reg < 0x10 => {
            [false, true]
        }
        ChipId::Ym2612 if write.port == 0 && reg == 0x2A => [false, true],
        // The level of the FM half of an OPL4, and its wave half.
        ChipId::Ymf278b if write.port == 2 && reg == 0xF8 => [true, false],
        ChipId::Ymf278b if write.port == 2 => [false, true],
        _ => [true, false],
    }
}

/// A part of a chip that receives the events of some of the chip's lanes.
#[derive(Debug, Clone)]
struct Subscriber {
    instance: Instance,
    subscribed: [bool; LANES],
    queues: [Queue; LANES],
}

/// All subscribers. The subscribers of one chip are adjacent.
#[derive(Debug, Clone)]
struct Subscribers {
    all: Vec<Subscriber>,
    /// The range of each chip's subscribers in `all`, indexed by instance.
    of: [(u8, u8); Instance::COUNT],
}

impl Subscribers {
    fn new(all: Vec<Subscriber>, header: &Header) -> Self {
        let mut of = [(0, 0); Instance::COUNT];
        for (place, subscriber) in (0u8..).zip(&all) {
            let range = &mut of[subscriber.instance.index()];
            if range.0 == range.1 {
                range.0 = place;
            }
            range.1 = place + 1;
        }
        for chip in ChipId::all() {
            let second = Instance { chip, second: true };
            let receiver = header.receiver(second);
            if receiver != second {
                of[second.index()] = of[receiver.index()];
            }
        }
        Subscribers { all, of }
    }

    #[inline]
    fn of(&mut self, instance: Instance) -> &mut [Subscriber] {
        let (first, end) = self.of[instance.index()];
        &mut self.all[usize::from(first)..usize::from(end)]
    }

    // We construct the event in the place where it is stored, here and in `write`. Otherwise the
    // compiler writes it to memory in parts and reads it back as a whole, which stalls the store
    // buffer.
    #[inline(always)]
    fn push(&mut self, instance: Instance, lanes: [bool; LANES], event: impl Fn() -> Event) {
        for subscriber in self.of(instance) {
            for (lane, queue) in subscriber.queues.iter_mut().enumerate() {
                if lanes[lane] && subscriber.subscribed[lane] {
                    queue.events.push(event());
                }
            }
        }
    }

    #[inline(always)]
    fn write(&mut self, tick: u64, write: &Write) {
        let Write {
            instance,
            port,
            reg,
            value,
        } = *write;
        let event = || Event {
            tick,
            action: Action::Write { port, reg, value },
        };
        let lanes = lanes(write);
        if instance.chip == ChipId::Ym2612 && lanes[1] {
            self.push_data(instance, event());
        } else {
            self.push(instance, lanes, event);
        }
    }

    /// Adds a write to the PWM, which has only the main lane.
    #[inline(always)]
    fn write_pwm(&mut self, tick: u64, reg: u16, value: u16) {
        let pwm = Instance {
            chip: ChipId::Pwm,
            second: false,
        };
        for subscriber in self.of(pwm).iter_mut().filter(|it| it.subscribed[0]) {
            let action = Action::Write {
                port: 0,
                reg,
                value,
            };
            subscriber.queues[0].events.push(Event { tick, action });
        }
    }

    /// Adds DAC data. If the queue ends with data of the same tick, we replace it, because only the
    /// last value of a tick counts.
    fn push_data(&mut self, instance: Instance, event: Event) {
        for subscriber in self.of(instance).iter_mut().filter(|it| it.subscribed[1]) {
            let queue = &mut subscriber.queues[1];
            match queue.events[queue.taken..].last_mut() {
                Some(last) if last.tick == event.tick => *last = event,
                _ => queue.events.push(event),
            }
        }
    }

    /// Removes the taken events, so that new events can use their memory.
    fn compact(&mut self) {
        for queue in self
            .all
            .iter_mut()
            .flat_map(|subscriber| &mut subscriber.queues)
        {
            queue.events.drain(..queue.taken);
            queue.taken = 0;
        }
    }
}

/// Walks the commands of a song in time.
#[derive(Debug, Clone)]
pub struct Sequencer<'s> {
    song: &'s Song,
    offset: usize,
    tick: u64,
    /// The remaining ticks of the current wait.
    wait: u64,
    ended: bool,
    streams: Vec<Stream>,
    /// The read position in the YM2612's data bank, in bytes.
    dac_at: usize,
    subscribers: Subscribers,
}

impl<'s> Sequencer<'s> {
    /// Creates a sequencer at the start of `song` for these subscribers.
    ///
    /// A subscriber consists of a chip and whether it receives each of the chip's lanes. Later
    /// calls identify a subscriber by its index in `subscribers`. The subscribers of one chip must
    /// be adjacent.
    pub fn new(
        song: &'s Song,
        subscribers: impl Iterator<Item = (Instance, [bool; LANES])>,
    ) -> Self {
        let subscriber = |(instance, subscribed)| Subscriber {
            instance,
            subscribed,
            queues: Default::default(),
        };
        Sequencer {
            song,
            offset: song.header.data_offset,
            tick: 0,
            wait: 0,
            ended: false,
            streams: Vec::new(),
            dac_at: 0,
            subscribers: Subscribers::new(subscribers.map(subscriber).collect(), &song.header),
        }
    }

    /// Returns the queues of a subscriber, main lane first.
    pub fn queues(&mut self, subscriber: usize) -> &mut [Queue; LANES] {
        &mut self.subscribers.all[subscriber].queues
    }

    /// Decodes all commands before tick `until`.
    pub fn advance(&mut self, until: u64) {
        self.subscribers.compact();
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
            } else if !self.decode_frequent(until) {
                self.command();
            }
        }
    }

    /// Executes the most frequent commands without decoding them: writes and waits of 1 to 16
    /// ticks.
    ///
    /// Returns false when it reaches a different command.
    fn decode_frequent(&mut self, until: u64) -> bool {
        let bytes = self.song.bytes();
        let (mut offset, mut tick) = (self.offset, self.tick);
        loop {
            if let Some((reg, value)) = pwm_write(bytes, offset) {
                self.subscribers.write_pwm(tick, reg, value);
                offset += PWM_BYTES;
                continue;
            }
            if let Some((write, length)) = frequent_write(bytes, offset) {
                self.subscribers.write(tick, &write);
                offset += length;
                continue;
            }
            let wait = frequent_wait(bytes, offset);
            // A stream may write during a wait, and the wait may extend beyond `until`. `advance`
            // handles both.
            let passes = |ticks: &u64| self.streams.is_empty() && tick + ticks < until;
            let Some(ticks) = wait.filter(passes) else {
                (self.offset, self.tick) = (offset, tick);
                if let Some(ticks) = wait {
                    (self.offset, self.wait) = (offset + 1, ticks);
                }
                return wait.is_some();
            };
            tick += ticks;
            offset += 1;
        }
    }

    fn command(&mut self) {
        let decoded = decode(self.song.bytes(), self.offset, self.song.header.version);
        // All commands decode, because we checked them when we read the song.
        let (command, next) = decoded.unwrap_or((Command::End, self.offset));
        let at = self.offset;
        self.offset = next;
        match command {
            Command::Wait(ticks) => self.wait = u64::from(ticks),
            Command::Write(write) => self.subscribers.write(self.tick, &write),
            Command::DacWait(ticks) => {
                self.dac_write();
                self.wait = u64::from(ticks);
            }
            Command::Seek(offset) => self.dac_at = offset as usize,
            Command::Block(block) => {
                if misplaced(self.song.bytes(), &block).is_none() {
                    self.memory(block.kind, block.second, at);
                }
            }
            Command::Stream(command) => self.stream(command),
            Command::End => match self.song.repeat() {
                Some(repeat) => self.offset = repeat.offset,
                None => self.ended = true,
            },
            Command::RamWrite(write) => self.memory(write.kind, write.second, at),
            Command::Nothing => {}
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
            self.subscribers.write(self.tick, &write);
        }
    }

    /// Sends a memory block to the lane that owns the chip's memory, which is the main lane except
    /// for an OPL4.
    fn memory(&mut self, kind: u8, second: bool, at: usize) {
        let Some(chip) = registry::of_block(kind) else {
            return;
        };
        let event = Event {
            tick: self.tick,
            action: Action::Memory(at as u32),
        };
        let instance = Instance { chip, second };
        let lanes = [chip != ChipId::Ymf278b, chip == ChipId::Ymf278b];
        self.subscribers.push(instance, lanes, || event);
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

    /// Advances time by `ticks`. The streams make the writes that become due.
    fn pass(&mut self, ticks: u64) {
        let end = self.tick + ticks;
        let mut due = self.streams.iter().map(Stream::next_tick).min();
        while let Some(now) = due.filter(|due| *due < end) {
            let mut next = u64::MAX;
            for stream in &mut self.streams {
                if stream.next_tick() == now {
                    for write in stream.step(self.song).iter().flatten() {
                        self.subscribers.write(now, write);
                    }
                }
                next = next.min(stream.next_tick());
            }
            due = Some(next);
        }
        self.tick = end;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns a song of a YM2612 at version 1.60 with these commands.
    fn song(commands: &[u8]) -> Song {
        let mut bytes = vec![0; 0x40];
        bytes[..4].copy_from_slice(b"Vgm ");
        bytes[8..10].copy_from_slice(&[0x60, 0x01]);
        bytes[0x34] = 0x0C;
        bytes[0x2C..0x30].copy_from_slice(&7_670_454u32.to_le_bytes());
        bytes.extend(commands);
        Song::parse(bytes).unwrap()
    }

    const OPN2: Instance = Instance {
        chip: ChipId::Ym2612,
        second: false,
    };

    /// Returns ticks and values of the data lane, decoded in windows of `window` ticks.
    fn data(song: &Song, window: u64, end: u64) -> Vec<(u64, u8)> {
        let mut sequencer = Sequencer::new(song, [(OPN2, [true, true])].into_iter());
        let mut received = Vec::new();
        for start in (0..end).step_by(window as usize) {
            sequencer.advance((start + window).min(end));
            let queue = &mut sequencer.queues(0)[1];
            for event in queue.pending() {
                if let Action::Write { value, .. } = event.action {
                    received.push((event.tick, value as u8));
                }
            }
            queue.take_all(|_| {});
        }
        received
    }

    const BANK: [u8; 11] = [0x67, 0x66, 0, 4, 0, 0, 0, 10, 11, 12, 13];
    /// Stream 0 to the DAC, with every byte of bank 0.
    const STREAM: [u8; 10] = [0x90, 0, 2, 0, 0x2A, 0x91, 0, 0, 1, 0];

    #[test]
    fn stream_frequency_is_independent_of_window_size() {
        let mut commands = [&BANK[..], &STREAM].concat();
        commands.extend([0x92, 0, 0x10, 0x27, 0, 0]); // 10,000 per second
        commands.extend([0x93, 0, 1, 0, 0, 0, 1, 3, 0, 0, 0]); // 3 from byte 1
        commands.extend([0x61, 100, 0, 0x66]);
        let song = song(&commands);
        let expected = [(0, 11), (4, 12), (8, 13)];
        for window in [1, 3, 100] {
            assert_eq!(data(&song, window, 100), expected);
        }
    }

    #[test]
    fn stream_loops_reverses_and_stops() {
        let mut commands = [&BANK[..], &STREAM].concat();
        commands.extend([0x92, 0, 0x44, 0xAC, 0, 0]); // one write per tick
        commands.extend([0x95, 0, 0, 0, 0x11]); // block 0, backwards, repeated
        commands.extend([0x75, 0x94, 0, 0x7F, 0x66]);
        let song = song(&commands);
        let values: Vec<u8> = data(&song, 7, 20).iter().map(|write| write.1).collect();
        assert_eq!(values, [13, 12, 11, 10, 13, 12]);
    }

    #[test]
    fn dac_writes_continue_after_seek() {
        let commands = [&BANK[..], &[0xE0, 2, 0, 0, 0, 0x83, 0x82, 0x81, 0x66]].concat();
        assert_eq!(data(&song(&commands), 2, 10), [(0, 12), (3, 13)]);
    }

    #[test]
    fn events_without_subscriber_are_not_stored() {
        let commands = [&BANK[..], &[0x80, 0x52, 0x28, 0, 0x70, 0x66]].concat();
        let song = song(&commands);
        let mut sequencer = Sequencer::new(&song, [(OPN2, [true, false])].into_iter());
        sequencer.advance(10);
        let queues = sequencer.queues(0);
        assert_eq!(
            (queues[0].pending().len(), queues[1].pending().len()),
            (1, 0)
        );
    }
}
