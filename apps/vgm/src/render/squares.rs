//! A part that consists of square waves. We render its steps, which are the changes of its level,
//! at the output rate directly, with [`blep`](crate::blep).
//!
//! If only some voices are unmuted, we add and subtract the levels of several copies of the chip,
//! which are integers (see [`VoiceSum`]).

use super::timebase::{FrameCursor, Timebase};
use crate::blep::{LATENCY_FRAMES, StereoBlep};
use crate::chips::selection::VoiceSum;
use crate::chips::square_chip::SquareChip;
use crate::chips::voices::VoiceMuter;
use crate::format::{ChipId, Song};
use crate::sequence::{Action, LANES, Queue};

/// The time constant of the running mean: 2^11 frames, which is a corner frequency of 3.4 Hz at
/// 44.1 kHz.
///
/// The outputs of these chips swing between 0 and a level. On the board, a capacitor removes the
/// mean.
const MEAN_BITS: u32 = 11;

/// A copy of a chip with some voices unmuted.
#[derive(Clone)]
struct VoicePlayer {
    chip: SquareChip,
    muter: Option<VoiceMuter>,
}

impl VoicePlayer {
    fn new(chip: SquareChip, id: ChipId, voices: u64, live: bool) -> Self {
        let muter = if live {
            Some(VoiceMuter::adjustable(id, voices))
        } else {
            VoiceMuter::new(id, voices)
        };
        VoicePlayer { chip, muter }
    }

    fn apply(&mut self, song: &Song, action: Action) {
        let muter = &mut self.muter;
        self.chip.apply(song, action.masked(muter.as_mut()));
    }
}

/// The sound of a chip: the sum of some copies of it, minus the sum of others.
#[derive(Clone)]
pub struct ChipSum {
    added: Vec<VoicePlayer>,
    subtracted: Vec<VoicePlayer>,
}

impl ChipSum {
    /// Creates the sum for a chip at the start of a song. At least one voice must be unmuted.
    pub fn new(chip: &SquareChip, (id, heard): (ChipId, VoiceSum)) -> Self {
        let player = |voices: &u64| VoicePlayer::new(chip.clone(), id, *voices, heard.adjustable);
        ChipSum {
            added: heard.added.iter().map(player).collect(),
            subtracted: heard.subtracted.iter().map(player).collect(),
        }
    }

    /// Applies an event between two ticks.
    pub fn apply(&mut self, song: &Song, action: Action) {
        let all = self.added.iter_mut().chain(&mut self.subtracted);
        all.for_each(|player| player.apply(song, action));
    }
}

/// A copy of a chip and the renderer of its steps.
#[derive(Clone)]
struct BlepLine {
    player: VoicePlayer,
    blep: StereoBlep,
    /// The running mean of the levels, times 2^[`MEAN_BITS`].
    mean: [i32; 2],
    low_pass: Option<LowPass>,
}

impl BlepLine {
    fn new(mut player: VoicePlayer, output_hz: u32) -> Self {
        let chip = &mut player.chip;
        let mut blep = StereoBlep::new(chip.rate(), output_hz);
        chip.set_inaudible_period(blep.both().inaudible_half_period());
        let low_pass = chip.low_pass_hz();
        BlepLine {
            low_pass: low_pass.map(|hz| LowPass::new(hz, output_hz)),
            blep,
            player,
            mean: [0; 2],
        }
    }

    fn run(&mut self, ticks: u32) {
        self.player.chip.run(ticks, &mut self.blep);
        self.blep.advance(ticks);
    }

    /// Overwrites `levels` with the levels of the next frames. From frame `from` on, it subtracts
    /// the running mean.
    fn read(&mut self, from: usize, levels: &mut [[i32; 2]]) {
        self.blep.read(levels);
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

/// A chip of square waves, its position in time, and the sum of its steps.
#[derive(Clone)]
pub struct SquareVoice {
    line: BlepLine,
    /// Further copies of the chip. The factor is 1 to add a copy, and -1 to subtract it.
    terms: Vec<(i32, BlepLine)>,
    /// Memory for the levels of one copy of the chip, which we reuse.
    scratch: Vec<[i32; 2]>,
    timebase: Timebase,
    frame_cursor: FrameCursor,
    /// The lane (a queue of the chip's writes) from which this part of the chip receives its
    /// events.
    lane: usize,
    /// The number of frames to drop at the start, because the steps have this latency.
    latency_frames: usize,
    gain: f32,
}

impl SquareVoice {
    /// Creates a part at the start of a song. `gain` is the factor from a step of the level to full
    /// scale.
    pub fn new(chips: ChipSum, lane: usize, gain: f32, output_hz: u32) -> Self {
        let added = chips.added.into_iter().map(|player| (1, player));
        let taken_off = chips.subtracted.into_iter().map(|player| (-1, player));
        let lines = added.chain(taken_off);
        let mut lines = lines.map(|(sign, player)| (sign, BlepLine::new(player, output_hz)));
        let (_, line) = lines.next().expect("at least one voice is unmuted");
        let timebase = Timebase::new(line.player.chip.rate());
        SquareVoice {
            timebase,
            frame_cursor: FrameCursor::new(timebase),
            terms: lines.collect(),
            line,
            scratch: Vec::new(),
            lane,
            latency_frames: LATENCY_FRAMES,
            gain,
        }
    }

    /// Sets the unmuted voices of the chip from now on, one bit per voice. See
    /// [`Selection::live`](crate::chips::selection::Selection::live).
    pub fn set_voice_mask(&mut self, song: &Song, voices: u64) {
        let player = &mut self.line.player;
        let muter = player.muter.iter_mut();
        for (port, reg, value) in muter.flat_map(|muter| muter.set_voice_mask(voices)) {
            player.chip.apply(song, Action::Write { port, reg, value });
        }
    }

    /// Sets the tempo from now on, in thousandths.
    pub fn set_tempo(&mut self, tempo: u32) {
        let now = self.line.blep.both().tick();
        self.timebase = self.timebase.at_tempo(now, tempo);
        self.frame_cursor = FrameCursor::new(self.timebase);
    }

    /// Returns the first tick whose events the next `frames` output frames do not need.
    pub fn tick_needed(&mut self, frames: usize) -> u64 {
        self.timebase.tick_from(self.end(frames))
    }

    /// Adds the next frames to the mix, and applies the events that are due.
    pub fn mix(
        &mut self,
        song: &Song,
        queues: &mut [Queue; LANES],
        levels: &mut Vec<[i32; 2]>,
        mix: &mut [[f32; 2]],
    ) {
        let end = self.end(mix.len());
        while self.line.blep.both().tick() < end {
            let until = self.apply_due(song, &mut queues[self.lane]).min(end);
            // The clock of a chip is limited, so a block has far fewer than 2^32 ticks.
            let ticks = (until - self.line.blep.both().tick()) as u32;
            self.lines().for_each(|line| line.run(ticks));
        }
        levels.resize(self.latency_frames + mix.len(), [0; 2]);
        self.line.read(self.latency_frames, levels);
        for (sign, line) in &mut self.terms {
            self.scratch.resize(levels.len(), [0; 2]);
            line.read(self.latency_frames, &mut self.scratch);
            let sides = levels.as_flattened_mut().iter_mut();
            for (side, other) in sides.zip(self.scratch.as_flattened()) {
                *side += *sign * other;
            }
        }
        for (frame, level) in mix.iter_mut().zip(&levels[self.latency_frames..]) {
            frame[0] += level[0] as f32 * self.gain;
            frame[1] += level[1] as f32 * self.gain;
        }
        self.latency_frames = 0;
    }

    fn lines(&mut self) -> impl Iterator<Item = &mut BlepLine> {
        let others = self.terms.iter_mut().map(|(_, line)| line);
        std::iter::once(&mut self.line).chain(others)
    }

    /// Returns the tick of the chip before which all steps of the next `frames` frames are.
    fn end(&mut self, frames: usize) -> u64 {
        let frames = (self.latency_frames + frames) as u64;
        let blep = self.line.blep.both();
        blep.tick_of_frame(blep.frame() + frames)
    }

    /// Applies all events that are due now. Returns the tick of the chip at the next event, or
    /// `u64::MAX` if there is none.
    fn apply_due(&mut self, song: &Song, queue: &mut Queue) -> u64 {
        let now = self.line.blep.both().tick();
        let mut taken = 0;
        let mut until = u64::MAX;
        for event in queue.pending() {
            let tick = self.frame_cursor.frame_of(event.tick);
            if tick > now {
                until = tick;
                break;
            }
            self.lines()
                .for_each(|line| line.player.apply(song, event.action));
            taken += 1;
        }
        queue.take(taken);
        until
    }
}

/// A low-pass filter of 6 dB per octave, such as a resistor and a capacitor.
#[derive(Clone)]
struct LowPass {
    /// The fraction of the difference by which the level moves per frame, in 65,536ths.
    coefficient: i64,
    /// The levels in 65,536ths of a step.
    levels: [i64; 2],
}

impl LowPass {
    fn new(hz: u32, output_hz: u32) -> Self {
        let turn = std::f64::consts::TAU * f64::from(hz) / f64::from(output_hz);
        LowPass {
            coefficient: (65_536.0 * (1.0 - libm::exp(-turn))).round() as i64,
            levels: [0; 2],
        }
    }

    fn apply(&mut self, frames: &mut [[i32; 2]]) {
        for frame in frames {
            for (level, side) in self.levels.iter_mut().zip(frame) {
                *level += (((i64::from(*side) << 16) - *level) * self.coefficient) >> 16;
                *side = (*level >> 16) as i32;
            }
        }
    }
}
