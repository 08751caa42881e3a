//! A part made of square waves: its edges are placed at the output rate directly.
//!
//! One voice for itself is the difference of two chips, of levels, whole numbers: see [`Heard`].

use super::timebase::Timebase;
use crate::chips::selection::Heard;
use crate::chips::square_chip::SquareChip;
use crate::chips::voices::Silencer;
use crate::edges::{DELAY, StereoEdges};
use crate::format::{ChipId, Song};
use crate::sequence::{Action, LANES, Queue};

/// How slowly the mean follows: over 2^11 frames, which leaves all above 4 Hz at 44.1 kHz.
///
/// The pins of these chips swing between 0 and a level; a capacitor takes the mean away.
const MEAN_BITS: u32 = 11;

/// A chip of which some voices are heard.
#[derive(Clone)]
struct Player {
    chip: SquareChip,
    silencer: Option<Silencer>,
}

impl Player {
    fn new(chip: SquareChip, id: ChipId, voices: u64) -> Self {
        let silencer = Silencer::new(id, voices);
        Player { chip, silencer }
    }

    fn act(&mut self, song: &Song, action: Action) {
        let silencer = &mut self.silencer;
        self.chip.act(song, action.silenced(silencer.as_mut()));
    }
}

/// What is heard of a chip, and what of that is taken off again.
#[derive(Clone)]
pub struct Chips {
    heard: Player,
    before: Option<Player>,
}

impl Chips {
    /// A chip at the start of a song.
    pub fn new(chip: SquareChip, (id, heard): (ChipId, Heard)) -> Self {
        let before = heard.before;
        Chips {
            before: before.map(|voices| Player::new(chip.clone(), id, voices)),
            heard: Player::new(chip, id, heard.voices),
        }
    }

    /// Does what an event asks for, between two ticks.
    pub fn act(&mut self, song: &Song, action: Action) {
        self.heard.act(song, action);
        if let Some(before) = &mut self.before {
            before.act(song, action);
        }
    }
}

/// A chip and the sum of its edges.
#[derive(Clone)]
struct Line {
    player: Player,
    edges: StereoEdges,
    /// The running mean of the levels, times 2^[`MEAN_BITS`].
    mean: [i32; 2],
    low_pass: Option<LowPass>,
}

impl Line {
    fn new(mut player: Player, output_hz: u32) -> Self {
        let chip = &mut player.chip;
        let mut edges = StereoEdges::new(chip.rate(), output_hz);
        chip.average_periods_up_to(edges.both().inaudible_half_period());
        let low_pass = chip.low_pass_hz();
        Line {
            low_pass: low_pass.map(|hz| LowPass::new(hz, output_hz)),
            edges,
            player,
            mean: [0; 2],
        }
    }

    fn run(&mut self, ticks: u32) {
        self.player.chip.edges(ticks, &mut self.edges);
        self.edges.advance(ticks);
    }

    /// Overwrites `levels` with the next frames', around their mean from frame `from` on.
    fn read(&mut self, from: usize, levels: &mut [[i32; 2]]) {
        self.edges.read(levels);
        if let Some(low_pass) = &mut self.low_pass {
            low_pass.apply(levels);
        }
        let mut mean = self.mean;
        for level in &mut levels[from..] {
            for side in 0..2 {
                level[side] -= mean[side] >> MEAN_BITS;
                mean[side] += level[side];
            }
        }
        self.mean = mean;
    }
}

/// A chip of square waves, where it is in time, and the sum of its edges.
#[derive(Clone)]
pub struct SquareVoice {
    line: Line,
    /// What is taken off again.
    before: Option<Box<Line>>,
    /// Scratch memory.
    other: Vec<[i32; 2]>,
    timebase: Timebase,
    /// Which of the chip's lanes it listens to.
    lane: usize,
    /// Frames that the edges lie behind and that are still to be dropped.
    behind: usize,
    gain: f32,
}

impl SquareVoice {
    /// A voice at the start of a song; `gain` is the factor from a level's step to full scale.
    pub fn new(chips: Chips, lane: usize, gain: f32, output_hz: u32) -> Self {
        let before = chips.before;
        SquareVoice {
            timebase: Timebase::new(chips.heard.chip.rate()),
            line: Line::new(chips.heard, output_hz),
            before: before.map(|player| Box::new(Line::new(player, output_hz))),
            other: Vec::new(),
            lane,
            behind: DELAY,
            gain,
        }
    }

    /// The first tick whose events the next `frames` output frames do not need.
    pub fn tick_needed(&mut self, frames: usize) -> u64 {
        self.timebase.tick_from(self.end(frames))
    }

    /// Adds the next frames to the mix, acting on the events as they fall due.
    pub fn mix(
        &mut self,
        song: &Song,
        queues: &mut [Queue; LANES],
        levels: &mut Vec<[i32; 2]>,
        mix: &mut [[f32; 2]],
    ) {
        let end = self.end(mix.len());
        while self.line.edges.both().tick() < end {
            let until = self.act(song, &mut queues[self.lane]).min(end);
            // A chip's clock is bounded, so a block's ticks are far below 2^32.
            let ticks = (until - self.line.edges.both().tick()) as u32;
            self.line.run(ticks);
            if let Some(before) = &mut self.before {
                before.run(ticks);
            }
        }
        levels.resize(self.behind + mix.len(), [0; 2]);
        self.line.read(self.behind, levels);
        if let Some(before) = &mut self.before {
            self.other.resize(levels.len(), [0; 2]);
            before.read(self.behind, &mut self.other);
            let sides = levels.as_flattened_mut().iter_mut();
            for (side, before) in sides.zip(self.other.as_flattened()) {
                *side -= before;
            }
        }
        for (frame, level) in mix.iter_mut().zip(&levels[self.behind..]) {
            frame[0] += level[0] as f32 * self.gain;
            frame[1] += level[1] as f32 * self.gain;
        }
        self.behind = 0;
    }

    /// The tick of the chip before which all edges of the next `frames` frames lie.
    fn end(&mut self, frames: usize) -> u64 {
        let frames = (self.behind + frames) as u64;
        let edges = self.line.edges.both();
        edges.tick_of_frame(edges.frame() + frames)
    }

    /// Acts on all that is due now; returns the tick of the chip at which the next event is.
    fn act(&mut self, song: &Song, queue: &mut Queue) -> u64 {
        let now = self.line.edges.both().tick();
        let mut taken = 0;
        let mut until = u64::MAX;
        for event in queue.pending() {
            let tick = self.timebase.frame_of(event.tick);
            if tick > now {
                until = tick;
                break;
            }
            self.line.player.act(song, event.action);
            if let Some(before) = &mut self.before {
                before.player.act(song, event.action);
            }
            taken += 1;
        }
        queue.take(taken);
        until
    }
}

/// A capacitor and a resistor: 6 dB an octave.
#[derive(Clone)]
struct LowPass {
    /// How much of the way the level goes in a frame, in 65,536ths.
    pace: i64,
    /// In 65,536ths of a step.
    levels: [i64; 2],
}

impl LowPass {
    fn new(hz: u32, output_hz: u32) -> Self {
        let turn = std::f64::consts::TAU * f64::from(hz) / f64::from(output_hz);
        LowPass {
            pace: (65_536.0 * (1.0 - (-turn).exp())).round() as i64,
            levels: [0; 2],
        }
    }

    fn apply(&mut self, frames: &mut [[i32; 2]]) {
        for frame in frames {
            for (level, side) in self.levels.iter_mut().zip(frame) {
                *level += (((i64::from(*side) << 16) - *level) * self.pace) >> 16;
                *side = (*level >> 16) as i32;
            }
        }
    }
}
