//! A part that renders native frames: between its own writes, then resampled onto the mix.
//!
//! The writes of a chip with keys come over a [`Bus`]; other chips take them when they are due.
//!
//! One voice for itself is the difference of two chips, of native frames, whole numbers: see
//! [`Heard`]. Where a whole chip is heard there is one.

use super::timebase::{Timebase, lowest_terms};
use crate::chips::Rate;
use crate::chips::bus::Bus;
use crate::chips::frame_chip::FrameChip;
use crate::chips::selection::Heard;
use crate::chips::voices::Silencer;
use crate::format::{ChipId, Song};
use crate::mix::Resampler;
use crate::sequence::{Action, Event, LANES, Queue};

use super::Kernels;

/// A chip of which some voices are heard.
#[derive(Clone)]
struct Player {
    chip: FrameChip,
    silencer: Option<Silencer>,
    /// Of a native frame, while the chip's own rate is another: see [`Player::held`].
    owed: u64,
    last: [i32; 2],
}

impl Player {
    fn new(mut chip: FrameChip, id: ChipId, voices: u64) -> Self {
        let silencer = if chip.hear(voices) {
            None
        } else {
            Silencer::new(id, voices)
        };
        Player {
            chip,
            silencer,
            owed: 0,
            last: [0; 2],
        }
    }

    fn act(&mut self, song: &Song, action: Action) {
        let silencer = &mut self.silencer;
        self.chip.act(song, action.silenced(silencer.as_mut()));
    }

    fn render(&mut self, rate: Rate, data: &[(usize, u8)], block: &mut [[i32; 2]]) {
        if self.chip.rate() == rate {
            self.chip.render(data, block);
        } else {
            self.held(rate, block);
        }
        if let Some(last) = block.last() {
            self.last = *last;
        }
    }

    /// Renders while the chip's rate is not the one resampled: its frames are held, or dropped.
    fn held(&mut self, rate: Rate, block: &mut [[i32; 2]]) {
        let own = self.chip.rate();
        let each = own.frames * rate.seconds;
        let whole = rate.frames * own.seconds;
        for frame in block {
            self.owed += each;
            while self.owed >= whole {
                self.owed -= whole;
                self.chip.render(&[], std::slice::from_mut(&mut self.last));
            }
            *frame = self.last;
        }
    }
}

/// What is heard of a chip, and what of that is taken off again.
#[derive(Clone)]
pub struct Chips {
    heard: Player,
    before: Option<Box<Player>>,
}

impl Chips {
    /// A chip at the start of a song.
    pub fn new(chip: FrameChip, (id, heard): (ChipId, Heard)) -> Self {
        let before = heard.before;
        let before = before.map(|voices| Box::new(Player::new(chip.clone(), id, voices)));
        Chips {
            heard: Player::new(chip, id, heard.voices),
            before,
        }
    }

    fn all(&mut self) -> impl Iterator<Item = &mut Player> {
        [Some(&mut self.heard), self.before.as_deref_mut()]
            .into_iter()
            .flatten()
    }

    /// See [`FrameChip::foresee`].
    pub fn foresee(&mut self, events: &[Event]) {
        self.all().for_each(|player| player.chip.foresee(events));
    }

    /// Does what an event asks for, between two native frames.
    pub fn act(&mut self, song: &Song, action: Action) {
        self.all().for_each(|player| player.act(song, action));
    }

    /// Overwrites `block`; `other` is scratch memory.
    fn render(
        &mut self,
        rate: Rate,
        data: &[(usize, u8)],
        (block, other): (&mut [[i32; 2]], &mut Vec<[i32; 2]>),
    ) {
        self.heard.render(rate, data, block);
        if let Some(before) = &mut self.before {
            other.resize(block.len(), [0; 2]);
            before.render(rate, data, other);
            let converted = |value: i32| value.clamp(-0x8000, 0x7FFF);
            let sides = block.as_flattened_mut().iter_mut();
            for (side, before) in sides.zip(other.as_flattened()) {
                *side = converted(*side) - converted(*before);
            }
        }
    }
}

/// A chip, where it is in time, and its way to the output rate.
#[derive(Clone)]
pub struct FrameVoice {
    chips: Chips,
    /// The rate that is resampled; the chip's own may change in mid-song.
    rate: Rate,
    timebase: Timebase,
    bus: Option<Bus>,
    /// The frame at which the event at the front of the queue takes effect, if it was looked at.
    placed: Option<u64>,
    resampler: Resampler,
    /// Native frames rendered so far.
    rendered: u64,
    /// Scratch memory.
    other: Vec<[i32; 2]>,
    /// Of the data lane: what the block being rendered gets.
    data: Vec<(usize, u8)>,
    gain: f32,
}

impl FrameVoice {
    /// A voice at the start of a song; `gain` is the factor from a native step to full scale.
    pub fn new(
        chips: Chips,
        bus: Option<Bus>,
        gain: f32,
        (output_hz, kernels): (u32, &mut Kernels),
    ) -> Self {
        let rate = chips.heard.chip.pace();
        let (native, output) = lowest_terms(rate.frames, rate.seconds * u64::from(output_hz));
        FrameVoice {
            chips,
            rate,
            timebase: Timebase::new(rate),
            bus,
            placed: None,
            resampler: Resampler::new(kernels.get(native, output), native, output),
            rendered: 0,
            other: Vec::new(),
            data: Vec::new(),
            gain: gain / crate::mix::ONE as f32,
        }
    }

    /// The first tick whose events the next `frames` output frames do not need.
    pub fn tick_needed(&self, frames: usize) -> u64 {
        let end = self.rendered + self.resampler.wanted(frames) as u64;
        self.timebase.tick_from(end)
    }

    /// Adds the next frames to the mix, acting on the events as they fall due.
    pub fn mix(
        &mut self,
        song: &Song,
        queues: &mut [Queue; LANES],
        native: &mut Vec<[i32; 2]>,
        mix: &mut [[f32; 2]],
    ) {
        let wanted = self.resampler.wanted(mix.len());
        native.resize(wanted, [0; 2]);
        let mut rest = &mut native[..];
        while !rest.is_empty() {
            let until = self.act(song, &mut queues[self.chips.heard.chip.lane()]);
            let free = usize::try_from(until - self.rendered).unwrap_or(usize::MAX);
            let (block, after) = rest.split_at_mut(free.min(rest.len()));
            self.take_data(&mut queues[1], block.len());
            let scratch = (&mut *block, &mut self.other);
            self.chips.render(self.rate, &self.data, scratch);
            self.rendered += block.len() as u64;
            rest = after;
        }
        self.resampler.push(native);
        self.resampler.mix(self.gain, mix);
    }

    /// Acts on all that is due before the next native frame; returns the frame of what comes next.
    fn act(&mut self, song: &Song, queue: &mut Queue) -> u64 {
        let mut taken = 0;
        let mut until = u64::MAX;
        for event in queue.pending() {
            let frame = match self.placed.take() {
                Some(frame) => frame,
                None => self.place(event),
            };
            if frame > self.rendered {
                self.placed = Some(frame);
                until = frame;
                break;
            }
            self.chips.act(song, event.action);
            taken += 1;
        }
        queue.take(taken);
        until
    }

    /// The native frame before which an event takes effect, asked for once an event.
    fn place(&mut self, event: &Event) -> u64 {
        let due = self.timebase.frame_of(event.tick);
        match (&mut self.bus, event.action) {
            (Some(bus), Action::Write { port, reg, value }) => {
                bus.carry(due, (port, reg as u8, value as u8))
            }
            _ => due,
        }
    }

    /// Takes what the data lane, if the chip has one, holds for the next `frames` native frames.
    fn take_data(&mut self, queue: &mut Queue, frames: usize) {
        self.data.clear();
        if !self.chips.heard.chip.has_data_lane() {
            return;
        }
        let (timebase, rendered) = (self.timebase, self.rendered);
        let place = |tick| timebase.frame_of(tick).saturating_sub(rendered) as usize;
        let due = queue
            .pending()
            .iter()
            .take_while(|event| place(event.tick) < frames);
        self.data.extend(due.filter_map(|event| match event.action {
            Action::Write { value, .. } => Some((place(event.tick), value as u8)),
            Action::Memory(_) => None,
        }));
        queue.take(self.data.len());
    }
}
