//! A part made of square waves: its edges are placed at the output rate directly.
//!
//! Voices for themselves are sums and differences of several chips, of levels, whole numbers: see
//! [`Heard`].

use super::timebase::{Finder, Timebase};
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
    fn new(chip: SquareChip, id: ChipId, voices: u64, live: bool) -> Self {
        let silencer = if live {
            Some(Silencer::live(id, voices))
        } else {
            Silencer::new(id, voices)
        };
        Player { chip, silencer }
    }

    fn act(&mut self, song: &Song, action: Action) {
        let silencer = &mut self.silencer;
        self.chip.act(song, action.silenced(silencer.as_mut()));
    }
}

/// What is heard of a chip: the sum of its players, less of those whose sound is taken off.
#[derive(Clone)]
pub struct Chips {
    added: Vec<Player>,
    taken_off: Vec<Player>,
}

impl Chips {
    /// A chip at the start of a song, of which something is heard.
    pub fn new(chip: &SquareChip, (id, heard): (ChipId, Heard)) -> Self {
        let player = |voices: &u64| Player::new(chip.clone(), id, *voices, heard.live);
        Chips {
            added: heard.added.iter().map(player).collect(),
            taken_off: heard.taken_off.iter().map(player).collect(),
        }
    }

    /// Does what an event asks for, between two ticks.
    pub fn act(&mut self, song: &Song, action: Action) {
        let all = self.added.iter_mut().chain(&mut self.taken_off);
        all.for_each(|player| player.act(song, action));
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
    /// What else is added, or taken off: 1 or -1.
    others: Vec<(i32, Line)>,
    /// Scratch memory.
    other: Vec<[i32; 2]>,
    timebase: Timebase,
    finder: Finder,
    /// Which of the chip's lanes it listens to.
    lane: usize,
    /// Frames that the edges lie behind and that are still to be dropped.
    behind: usize,
    gain: f32,
}

impl SquareVoice {
    /// A voice at the start of a song; `gain` is the factor from a level's step to full scale.
    pub fn new(chips: Chips, lane: usize, gain: f32, output_hz: u32) -> Self {
        let added = chips.added.into_iter().map(|player| (1, player));
        let taken_off = chips.taken_off.into_iter().map(|player| (-1, player));
        let lines = added.chain(taken_off);
        let mut lines = lines.map(|(sign, player)| (sign, Line::new(player, output_hz)));
        let (_, line) = lines.next().expect("something is heard");
        let timebase = Timebase::new(line.player.chip.rate());
        SquareVoice {
            timebase,
            finder: Finder::new(timebase),
            others: lines.collect(),
            line,
            other: Vec::new(),
            lane,
            behind: DELAY,
            gain,
        }
    }

    /// Lets only these of the chip's voices be heard from now on, a bit each; see
    /// [`Selection::live`](crate::chips::selection::Selection::live).
    pub fn hear(&mut self, song: &Song, voices: u64) {
        let player = &mut self.line.player;
        let silencer = player.silencer.iter_mut();
        for (port, reg, value) in silencer.flat_map(|silencer| silencer.hear(voices)) {
            player.chip.act(song, Action::Write { port, reg, value });
        }
    }

    /// Lets the song go by faster by this factor from now on, in thousandths.
    pub fn set_tempo(&mut self, tempo: u32) {
        let now = self.line.edges.both().tick();
        self.timebase = self.timebase.at_tempo(now, tempo);
        self.finder = Finder::new(self.timebase);
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
            self.lines().for_each(|line| line.run(ticks));
        }
        levels.resize(self.behind + mix.len(), [0; 2]);
        self.line.read(self.behind, levels);
        for (sign, line) in &mut self.others {
            self.other.resize(levels.len(), [0; 2]);
            line.read(self.behind, &mut self.other);
            let sides = levels.as_flattened_mut().iter_mut();
            for (side, other) in sides.zip(self.other.as_flattened()) {
                *side += *sign * other;
            }
        }
        for (frame, level) in mix.iter_mut().zip(&levels[self.behind..]) {
            frame[0] += level[0] as f32 * self.gain;
            frame[1] += level[1] as f32 * self.gain;
        }
        self.behind = 0;
    }

    fn lines(&mut self) -> impl Iterator<Item = &mut Line> {
        let others = self.others.iter_mut().map(|(_, line)| line);
        std::iter::once(&mut self.line).chain(others)
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
            let tick = self.finder.frame_of(event.tick);
            if tick > now {
                until = tick;
                break;
            }
            self.lines()
                .for_each(|line| line.player.act(song, event.action));
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
