//! A part made of square waves: its edges are placed at the output rate directly.

use super::timebase::Timebase;
use crate::chips::square_chip::SquareChip;
use crate::edges::{DELAY, StereoEdges};
use crate::format::Song;
use crate::sequence::{LANES, Queue};

/// How slowly the mean follows: over 2^11 frames, which leaves all above 4 Hz at 44.1 kHz.
///
/// The pins of these chips swing between 0 and a level; a capacitor takes the mean away.
const MEAN_BITS: u32 = 11;

/// A chip of square waves, where it is in time, and the sum of its edges.
#[derive(Clone)]
pub struct SquareVoice {
    chip: SquareChip,
    timebase: Timebase,
    edges: StereoEdges,
    /// Which of the chip's lanes it listens to.
    lane: usize,
    /// Frames that the edges lie behind and that are still to be dropped.
    behind: usize,
    /// The running mean of the levels, times 2^[`MEAN_BITS`].
    mean: [i32; 2],
    low_pass: Option<LowPass>,
    gain: f32,
}

impl SquareVoice {
    /// A voice at the start of a song; `gain` is the factor from a level's step to full scale.
    pub fn new(chip: SquareChip, lane: usize, gain: f32, output_hz: u32) -> Self {
        let mut edges = StereoEdges::new(chip.rate(), output_hz);
        let mut chip = chip;
        chip.average_periods_up_to(edges.both().inaudible_half_period());
        let low_pass = chip.low_pass_hz();
        SquareVoice {
            low_pass: low_pass.map(|hz| LowPass::new(hz, output_hz)),
            timebase: Timebase::new(chip.rate()),
            edges,
            chip,
            lane,
            behind: DELAY,
            mean: [0; 2],
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
        while self.edges.both().tick() < end {
            let until = self.act(song, &mut queues[self.lane]).min(end);
            // A chip's clock is bounded, so a block's ticks are far below 2^32.
            let ticks = (until - self.edges.both().tick()) as u32;
            self.chip.edges(ticks, &mut self.edges);
            self.edges.advance(ticks);
        }
        levels.resize(self.behind + mix.len(), [0; 2]);
        self.edges.read(levels);
        if let Some(low_pass) = &mut self.low_pass {
            low_pass.apply(levels);
        }
        let mut mean = self.mean;
        for (frame, level) in mix.iter_mut().zip(&levels[self.behind..]) {
            for side in 0..2 {
                let swing = level[side] - (mean[side] >> MEAN_BITS);
                mean[side] += swing;
                frame[side] += swing as f32 * self.gain;
            }
        }
        self.mean = mean;
        self.behind = 0;
    }

    /// The tick of the chip before which all edges of the next `frames` frames lie.
    fn end(&mut self, frames: usize) -> u64 {
        let frames = (self.behind + frames) as u64;
        let edges = self.edges.both();
        edges.tick_of_frame(edges.frame() + frames)
    }

    /// Acts on all that is due now; returns the tick of the chip at which the next event is.
    fn act(&mut self, song: &Song, queue: &mut Queue) -> u64 {
        let now = self.edges.both().tick();
        let mut taken = 0;
        let mut until = u64::MAX;
        for event in queue.pending() {
            let tick = self.timebase.frame_of(event.tick);
            if tick > now {
                until = tick;
                break;
            }
            self.chip.act(song, event.action);
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
