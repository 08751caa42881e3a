//! A part that renders native frames. It renders blocks between its own writes, and resamples them
//! onto the mix.
//!
//! A chip with keys receives its writes over a [`Bus`]. Other chips receive them when they are due.
//!
//! If only some voices are unmuted, we add and subtract the native frames of several copies of the
//! chip, which are integers (see [`VoiceSum`]). A whole chip needs only one copy.

use std::ops::Range;

use super::timebase::{FrameCursor, Timebase, lowest_terms};
use crate::chips::Rate;
use crate::chips::bus::Bus;
use crate::chips::frame_chip::FrameChip;
use crate::chips::selection::VoiceSum;
use crate::chips::streamed_writes::StreamedWrite;
use crate::chips::voices::VoiceMuter;
use crate::format::{ChipId, Song};
use crate::mix::Resampler;
use crate::sequence::{Action, Event, LANES, Queue};

use super::Kernels;

/// A copy of a chip with some voices unmuted.
#[derive(Clone)]
struct VoicePlayer {
    chip: FrameChip,
    muter: Option<VoiceMuter>,
    /// The elapsed part of a native frame, while the chip's own rate differs from the resampled
    /// rate. See [`VoicePlayer::render_held_rate`].
    rate_remainder: u64,
    last: [i32; 2],
}

impl VoicePlayer {
    fn new(mut chip: FrameChip, id: ChipId, voices: u64, live: bool) -> Self {
        let muter = match (chip.set_voice_mask(voices), live) {
            (true, _) => None,
            (_, true) => Some(VoiceMuter::adjustable(id, voices)),
            _ => VoiceMuter::new(id, voices),
        };
        VoicePlayer {
            chip,
            muter,
            rate_remainder: 0,
            last: [0; 2],
        }
    }

    fn apply(&mut self, song: &Song, action: Action) {
        let muter = &mut self.muter;
        self.chip.apply(song, action.masked(muter.as_mut()));
    }

    fn set_voice_mask(&mut self, song: &Song, voices: u64) {
        if let Some(muter) = &mut self.muter {
            for (port, reg, value) in muter.set_voice_mask(voices) {
                self.chip.apply(song, Action::Write { port, reg, value });
            }
        } else {
            self.chip.set_voice_mask(voices);
        }
    }

    fn render(&mut self, rate: Rate, data: &[(usize, u8)], block: &mut [[i32; 2]]) {
        if self.chip.rate() == rate {
            self.chip.render(data, block);
        } else {
            self.render_held_rate(rate, block);
        }
        if let Some(last) = block.last() {
            self.last = *last;
        }
    }

    fn render_streamed(&mut self, writes: &[StreamedWrite], block: &mut [[i32; 2]]) {
        self.chip.render_streamed(writes, block);
        if let Some(last) = block.last() {
            self.last = *last;
        }
    }

    /// Renders while the chip's rate differs from the resampled rate. It repeats or drops frames.
    fn render_held_rate(&mut self, rate: Rate, block: &mut [[i32; 2]]) {
        let own = self.chip.rate();
        let each = own.frames * rate.seconds;
        let whole = rate.frames * own.seconds;
        for frame in block {
            self.rate_remainder += each;
            while self.rate_remainder >= whole {
                self.rate_remainder -= whole;
                self.chip.render(&[], std::slice::from_mut(&mut self.last));
            }
            *frame = self.last;
        }
    }
}

/// The sound of a chip: the sum of some copies of it, minus the sum of others.
#[derive(Clone)]
pub struct ChipSum {
    /// The copies that are added, at least one.
    added: Vec<VoicePlayer>,
    subtracted: Vec<VoicePlayer>,
}

impl ChipSum {
    /// Creates the sum for a chip at the start of a song. At least one voice must be unmuted.
    pub fn new(chip: &FrameChip, (id, heard): (ChipId, VoiceSum)) -> Self {
        let player = |voices: &u64| VoicePlayer::new(chip.clone(), id, *voices, heard.adjustable);
        ChipSum {
            added: heard.added.iter().map(player).collect(),
            subtracted: heard.subtracted.iter().map(player).collect(),
        }
    }

    /// Returns the first copy, for properties that all copies share.
    fn chip(&self) -> &FrameChip {
        &self.added[0].chip
    }

    fn all(&mut self) -> impl Iterator<Item = &mut VoicePlayer> {
        self.added.iter_mut().chain(&mut self.subtracted)
    }

    /// Returns the only copy, if it can receive its writes together with a block.
    fn streamed_player(&mut self, rate: Rate) -> Option<&mut VoicePlayer> {
        match (&mut self.added[..], self.subtracted.is_empty()) {
            ([only], true) if only.muter.is_none() && only.chip.rate() == rate => Some(only),
            _ => None,
        }
    }

    /// Calls [`FrameChip::apply_initial_writes`] for all copies.
    pub fn apply_initial_writes(&mut self, events: &[Event]) {
        self.all()
            .for_each(|player| player.chip.apply_initial_writes(events));
    }

    /// Applies an event between two native frames.
    pub fn apply(&mut self, song: &Song, action: Action) {
        self.all().for_each(|player| player.apply(song, action));
    }

    /// Overwrites `block` with the next frames. `other` is scratch memory.
    fn render(
        &mut self,
        rate: Rate,
        data: &[(usize, u8)],
        (block, other): (&mut [[i32; 2]], &mut Vec<[i32; 2]>),
    ) {
        let (first, more) = self
            .added
            .split_first_mut()
            .expect("at least one voice is unmuted");
        first.render(rate, data, block);
        if more.is_empty() && self.subtracted.is_empty() {
            return;
        }
        let converted = |value: i32| value.clamp(-0x8000, 0x7FFF);
        for side in block.as_flattened_mut() {
            *side = converted(*side);
        }
        other.resize(block.len(), [0; 2]);
        let more = more.iter_mut().map(|player| (1, player));
        let less = self.subtracted.iter_mut().map(|player| (-1, player));
        for (sign, player) in more.chain(less) {
            player.render(rate, data, other);
            let sides = block.as_flattened_mut().iter_mut();
            for (side, other) in sides.zip(other.as_flattened()) {
                *side += sign * converted(*other);
            }
        }
    }
}

/// A chip, its position in time, and its resampler.
#[derive(Clone)]
pub struct FrameVoice {
    chips: ChipSum,
    /// The rate that we resample. The chip's own rate may change during the song.
    rate: Rate,
    timebase: Timebase,
    /// The cursors of the chip's own lane and of its data lane.
    frame_cursors: [FrameCursor; LANES],
    bus: Option<Bus>,
    /// The registers whose writes the chip receives together with a block.
    streamed_registers: Range<u16>,
    /// These writes for the current block.
    streamed: Vec<StreamedWrite>,
    /// The frame at which the first event of the queue takes effect, if we have computed it.
    next_event_frame: Option<u64>,
    resampler: Resampler,
    /// The number of native frames rendered so far.
    rendered: u64,
    /// Scratch memory.
    scratch: Vec<[i32; 2]>,
    /// The data of the data lane for the current block.
    data: Vec<(usize, u8)>,
    gain: f32,
}

impl FrameVoice {
    /// Creates a part at the start of a song. `gain` is the factor from a native step to full
    /// scale.
    pub fn new(
        chips: ChipSum,
        bus: Option<Bus>,
        gain: f32,
        (output_hz, kernels): (u32, &mut Kernels),
    ) -> Self {
        let rate = chips.chip().max_rate();
        let (native, output) = lowest_terms(rate.frames, rate.seconds * u64::from(output_hz));
        let registers = match &bus {
            Some(_) => 0..0,
            None => chips.chip().streamed_registers(),
        };
        FrameVoice {
            chips,
            rate,
            timebase: Timebase::new(rate),
            frame_cursors: [FrameCursor::new(Timebase::new(rate)); LANES],
            streamed_registers: registers,
            streamed: Vec::new(),
            bus,
            next_event_frame: None,
            resampler: Resampler::new(kernels.get(native, output), native, output),
            rendered: 0,
            scratch: Vec::new(),
            data: Vec::new(),
            gain: gain / crate::mix::ONE as f32,
        }
    }

    /// Sets the unmuted voices of the chip from now on, one bit per voice. See
    /// [`Selection::live`](crate::chips::selection::Selection::live).
    pub fn set_voice_mask(&mut self, song: &Song, voices: u64) {
        self.chips.added[0].set_voice_mask(song, voices);
    }

    /// Sets the tempo from now on, in thousandths.
    pub fn set_tempo(&mut self, tempo: u32) {
        self.timebase = self.timebase.at_tempo(self.rendered, tempo);
        self.frame_cursors = [FrameCursor::new(self.timebase); LANES];
    }

    /// Returns the first tick whose events the next `frames` output frames do not need.
    pub fn tick_needed(&self, frames: usize) -> u64 {
        let end = self.rendered + self.resampler.wanted(frames) as u64;
        self.timebase.tick_from(end)
    }

    /// Adds the next frames to the mix, and applies the events that are due.
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
            let queue = &mut queues[self.chips.chip().lane()];
            let until = self.apply_due(song, queue, rest.len());
            let free = usize::try_from(until - self.rendered).unwrap_or(usize::MAX);
            let (block, after) = rest.split_at_mut(free.min(rest.len()));
            self.take_data(&mut queues[1], block.len());
            match self
                .chips
                .streamed_player(self.rate)
                .filter(|_| !self.streamed.is_empty())
            {
                Some(player) => player.render_streamed(&self.streamed, block),
                None => {
                    let scratch = (&mut *block, &mut self.scratch);
                    self.chips.render(self.rate, &self.data, scratch);
                }
            }
            self.rendered += block.len() as u64;
            rest = after;
        }
        self.resampler.push(native);
        self.resampler.mix(self.gain, mix);
    }

    /// Applies all events that are due before the next native frame, and collects the writes that
    /// the chip can receive together with the next `room` frames. Returns the frame of the next
    /// event.
    fn apply_due(&mut self, song: &Song, queue: &mut Queue, room: usize) -> u64 {
        self.streamed.clear();
        let mut end = self.streamed_until(room);
        let mut taken = 0;
        let mut until = u64::MAX;
        for event in queue.pending() {
            let frame = match self.next_event_frame.take() {
                Some(frame) => frame,
                None => self.event_frame(event),
            };
            if frame < end
                && let Action::Write { reg, value, .. } = event.action
                && self.streamed_registers.contains(&reg)
            {
                let place = frame.saturating_sub(self.rendered) as u32;
                self.streamed.push(StreamedWrite {
                    frame: place,
                    reg,
                    value,
                });
            } else if frame > self.rendered || !self.streamed.is_empty() {
                self.next_event_frame = Some(frame);
                until = frame.max(self.rendered);
                break;
            } else {
                self.chips.apply(song, event.action);
                // The event may have changed the chip's rate.
                end = self.streamed_until(room);
            }
            taken += 1;
        }
        queue.take(taken);
        until
    }

    /// Returns the frame up to which the chip can receive writes together with the next `room`
    /// frames, or 0 if it cannot receive any.
    fn streamed_until(&mut self, room: usize) -> u64 {
        match !self.streamed_registers.is_empty() && self.chips.streamed_player(self.rate).is_some()
        {
            true => self.rendered + room as u64,
            false => 0,
        }
    }

    /// Returns the native frame before which an event takes effect. Call it only once per event,
    /// because it reserves a slot on the bus.
    fn event_frame(&mut self, event: &Event) -> u64 {
        let due = self.frame_cursors[0].frame_of(event.tick);
        match (&mut self.bus, event.action) {
            (Some(bus), Action::Write { port, reg, value }) => {
                bus.write_frame(due, (port, reg as u8, value as u8))
            }
            _ => due,
        }
    }

    /// Collects the data of the data lane, if the chip has one, for the next `frames` native
    /// frames.
    fn take_data(&mut self, queue: &mut Queue, frames: usize) {
        self.data.clear();
        if !self.chips.chip().has_data_lane() {
            return;
        }
        let finder = &mut self.frame_cursors[1];
        let end = self.rendered + frames as u64;
        for event in queue.pending() {
            let frame = finder.frame_of(event.tick);
            if frame >= end {
                break;
            }
            if let Action::Write { value, .. } = event.action {
                let place = frame.saturating_sub(self.rendered) as usize;
                self.data.push((place, value as u8));
            }
        }
        queue.take(self.data.len());
    }
}
