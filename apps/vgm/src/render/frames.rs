//! A part that renders native frames: between its own writes, then resampled onto the mix.
//!
//! The writes of a chip with keys come over a [`Bus`]; other chips take them when they are due.

use super::timebase::{Timebase, lowest_terms};
use crate::chips::Rate;
use crate::chips::bus::Bus;
use crate::chips::frame_chip::FrameChip;
use crate::format::Song;
use crate::mix::Resampler;
use crate::sequence::{Action, Event, LANES, Queue};

use super::Kernels;

/// A chip, where it is in time, and its way to the output rate.
#[derive(Clone)]
pub struct FrameVoice {
    chip: FrameChip,
    /// The rate that is resampled; the chip's own may change in mid-song.
    rate: Rate,
    timebase: Timebase,
    bus: Option<Bus>,
    /// The frame at which the event at the front of the queue takes effect, if it was looked at.
    placed: Option<u64>,
    resampler: Resampler,
    /// Native frames rendered so far.
    rendered: u64,
    /// Of a native frame, while the chip's own rate is another: see [`FrameVoice::held`].
    owed: u64,
    last: [i32; 2],
    /// Of the data lane: what the block being rendered gets.
    data: Vec<(usize, u8)>,
    gain: f32,
}

impl FrameVoice {
    /// A voice at the start of a song; `gain` is the factor from a native step to full scale.
    pub fn new(
        chip: FrameChip,
        bus: Option<Bus>,
        gain: f32,
        (output_hz, kernels): (u32, &mut Kernels),
    ) -> Self {
        let rate = chip.pace();
        let (native, output) = lowest_terms(rate.frames, rate.seconds * u64::from(output_hz));
        FrameVoice {
            chip,
            rate,
            timebase: Timebase::new(rate),
            bus,
            placed: None,
            resampler: Resampler::new(kernels.get(native, output), native, output),
            rendered: 0,
            owed: 0,
            last: [0; 2],
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
            let until = self.act(song, &mut queues[self.chip.lane()]);
            let free = usize::try_from(until - self.rendered).unwrap_or(usize::MAX);
            let (block, after) = rest.split_at_mut(free.min(rest.len()));
            self.take_data(&mut queues[1], block.len());
            self.render(block);
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
            self.chip.act(song, event.action);
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
        if !self.chip.has_data_lane() {
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

    fn render(&mut self, block: &mut [[i32; 2]]) {
        if self.chip.rate() == self.rate {
            self.chip.render(&self.data, block);
        } else {
            self.held(block);
        }
        self.rendered += block.len() as u64;
        if let Some(last) = block.last() {
            self.last = *last;
        }
    }

    /// Renders while the chip's rate is not the one resampled: its frames are held, or dropped.
    fn held(&mut self, block: &mut [[i32; 2]]) {
        let own = self.chip.rate();
        let each = own.frames * self.rate.seconds;
        let whole = self.rate.frames * own.seconds;
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
