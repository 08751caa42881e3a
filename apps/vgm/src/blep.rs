//! Square waves without aliasing: converts level steps to frames at the output rate.
//!
//! A chip that plays square waves reports *when* a level changes and by how much. The time is in
//! ticks of a clock far above the output rate. If we computed every tick and filtered the result,
//! every tick would cost time. [`Blep`] instead adds one band-limited step (a BLEP) to the output
//! per change and does nothing in between.
//!
//! We store a step as its differences from frame to frame, and reading the buffer sums the
//! differences up. The kernel of the differences is a windowed sinc of 14 frames. We tabulate it at
//! 64 phases within a frame and interpolate between them.
//!
//! The step is flat within 0.1 dB up to 0.40 of the output rate, and at least 50 dB down from 0.62
//! on. A square wave itself falls by another 6 dB per octave. Therefore aliases lie above 0.38 of
//! the output rate, which is 16.8 kHz at 44.1 kHz.
//!
//! Invariants:
//!
//! - All arithmetic uses integers, and the position of a step depends on its absolute tick only.
//!   The order of the steps and the size of the blocks therefore do not change a bit of the output.
//! - Each kernel sums to exactly one. Levels return to their earlier values after any number of
//!   steps.
//!
//! Source: Stilson and Smith, "Alias-free digital synthesis of classic analog waveforms" (1996);
//! Brandt, "Hard sync without aliasing" (2001).

use std::sync::OnceLock;

use crate::chips::Rate;

/// The length of a row of the table in output frames. Two more frames than the windowed sinc has
/// are enough for all phases.
const KERNEL_FRAMES: usize = 2 * HALF_KERNEL + 2;

/// The delay of the output behind the steps in frames, which is half of the windowed sinc.
pub const LATENCY_FRAMES: usize = HALF_KERNEL;

/// The number of frames to each side of a step that the windowed sinc covers.
const HALF_KERNEL: usize = 7;

/// The number of phases within a frame at which the kernel is tabulated.
const PHASES: usize = 64;

/// The sum of a kernel, which is the output of a step of 1.
const ONE: i32 = 1 << UNIT_BITS;
const UNIT_BITS: u32 = 14;

/// The number of fraction bits of a position in frames.
const FRACTION_BITS: u32 = 56;

/// The sum of the steps on one side: left, right or mono.
///
/// ```
/// use creel_vgm::chips::Rate;
/// use creel_vgm::blep::{Blep, LATENCY_FRAMES};
///
/// // Ticks at 250 kHz, frames at 44.1 kHz.
/// let mut blep = Blep::new(Rate { frames: 250_000, seconds: 1 }, 44_100);
/// blep.step(1_000, 500);
/// let mut frames = [0; 300];
/// blep.read(&mut frames);
/// let at = 1_000 * 441 / 2_500 + LATENCY_FRAMES;
/// assert_eq!(frames[at - LATENCY_FRAMES], 0);
/// assert_eq!(frames[at + LATENCY_FRAMES + 1], 500);
/// ```
#[derive(Clone, Debug)]
pub struct Blep {
    kernels: &'static Kernels,
    /// The number of output frames per tick, with [`FRACTION_BITS`] fraction bits.
    frames_a_tick: u64,
    /// The tick from which the offsets passed to `step` count.
    tick: u64,
    /// The number of the output frame to which `deltas[0]` belongs.
    frame: u64,
    /// The differences from frame to frame, times [`ONE`].
    deltas: Vec<i32>,
    /// The sum of all differences read so far, modulo 2^32.
    sum: i32,
}

impl Blep {
    /// Creates a silent buffer for steps at the rate `ticks` and frames at the rate `output_hz`.
    ///
    /// # Panics
    ///
    /// Panics if a rate is 0, or if the output rate is at least 256 times the tick rate.
    pub fn new(ticks: Rate, output_hz: u32) -> Self {
        assert!(
            ticks.frames > 0 && ticks.seconds > 0 && output_hz > 0,
            "rates must be above 0"
        );
        let frames = (u128::from(output_hz) * u128::from(ticks.seconds)) << FRACTION_BITS;
        let frames_a_tick = frames / u128::from(ticks.frames);
        let frames_a_tick = u64::try_from(frames_a_tick)
            .expect("the output rate must be below 256 times the tick rate");
        Self {
            kernels: kernels(),
            frames_a_tick,
            tick: 0,
            frame: 0,
            deltas: Vec::new(),
            sum: 0,
        }
    }

    /// Adds a step of `delta` (-32768 to 32767), `offset` ticks after the current tick.
    pub fn step(&mut self, offset: u32, delta: i32) {
        self.step_at(self.locate(offset), delta);
    }

    /// Returns the position of a step: an index into `deltas`, a phase, and the fraction beyond the
    /// phase.
    fn locate(&self, offset: u32) -> (usize, usize, i32) {
        let place = self.fraction(self.tick + u64::from(offset));
        let start = ((place >> FRACTION_BITS) as u64 - self.frame) as usize;
        let within = (place >> (FRACTION_BITS - 16)) as usize & 0xffff;
        (start, within >> 10, (within & 0x3ff) as i32)
    }

    #[inline]
    fn step_at(&mut self, (start, phase, between): (usize, usize, i32), delta: i32) {
        let later = (delta * between) >> 10;
        let (now, later) = ((delta - later) as i16, later as i16);
        let rows = (&self.kernels[phase], &self.kernels[phase + 1]);
        if self.deltas.len() < start + KERNEL_FRAMES {
            self.reserve(start);
        }
        let window = self.deltas[start..]
            .first_chunk_mut::<KERNEL_FRAMES>()
            .expect("the buffer was enlarged above");
        // We copy the window because then the compiler knows that the slices do not overlap, and
        // vectorises the loop.
        let mut sums = *window;
        for ((sum, a), b) in sums.iter_mut().zip(rows.0).zip(rows.1) {
            let both = i32::from(*a) * i32::from(now) + i32::from(*b) * i32::from(later);
            *sum = sum.wrapping_add(both);
        }
        *window = sums;
    }

    /// Advances the current tick by `ticks`.
    pub fn advance(&mut self, ticks: u32) {
        self.tick += u64::from(ticks);
    }

    /// Returns the tick from which offsets count. The first tick is 0.
    pub fn tick(&self) -> u64 {
        self.tick
    }

    /// Returns the frame that [`read`](Self::read) writes next. The first frame is 0.
    pub fn frame(&self) -> u64 {
        self.frame
    }

    /// Returns the longest half period of an inaudible square wave, in ticks.
    ///
    /// A wave with this half period has a frequency of at least 0.6 of the output rate. All
    /// frequencies of a shorter wave lie above that, except for its mean.
    pub fn inaudible_half_period(&self) -> u32 {
        // The frequency is ticks per second / (2 h). It is at least 0.6 of the output rate if h is
        // at most ticks per frame / 1.2.
        let ticks_a_frame = (1u128 << FRACTION_BITS) / u128::from(self.frames_a_tick);
        (ticks_a_frame * 5 / 6) as u32
    }

    /// Returns the first tick that is not before output frame `frame`.
    pub fn tick_of_frame(&self, frame: u64) -> u64 {
        let place = u128::from(frame) << FRACTION_BITS;
        place.div_ceil(u128::from(self.frames_a_tick)) as u64
    }

    /// Writes the next frames, which are [`LATENCY_FRAMES`] frames behind the steps.
    ///
    /// You must have added all steps before the first tick of the frame that follows the last one
    /// written here. You may have added later steps as well.
    pub fn read(&mut self, out: &mut [i32]) {
        if self.deltas.len() < out.len() {
            self.reserve(out.len());
        }
        for (frame, difference) in out.iter_mut().zip(&self.deltas) {
            self.sum = self.sum.wrapping_add(*difference);
            *frame = (self.sum + ONE / 2) >> UNIT_BITS;
        }
        let rest = self.deltas.len() - out.len();
        self.deltas.copy_within(out.len().., 0);
        self.deltas[rest..].fill(0);
        self.frame += out.len() as u64;
    }

    /// Creates a silent buffer at the same tick and frame.
    fn silent_at_same_time(&self) -> Self {
        Self {
            deltas: Vec::new(),
            sum: 0,
            ..*self
        }
    }

    fn fraction(&self, tick: u64) -> u128 {
        u128::from(tick) * u128::from(self.frames_a_tick)
    }

    /// Enlarges the buffer for a step `start` frames after the current frame.
    #[cold]
    fn reserve(&mut self, start: usize) {
        self.deltas
            .resize((start + KERNEL_FRAMES).next_power_of_two(), 0);
    }
}

/// The sides on which a channel is audible.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Sides {
    /// Neither side.
    None,
    /// Left only.
    Left,
    /// Right only.
    Right,
    /// Both sides.
    #[default]
    Both,
}

impl Sides {
    /// Returns the sides that are switched on.
    pub fn of(left: bool, right: bool) -> Self {
        match (left, right) {
            (false, false) => Self::None,
            (true, false) => Self::Left,
            (false, true) => Self::Right,
            (true, true) => Self::Both,
        }
    }

    /// Returns 1 for each of left and right that is on, and 0 otherwise.
    pub fn gains(self) -> [i32; 2] {
        match self {
            Self::None => [0, 0],
            Self::Left => [1, 0],
            Self::Right => [0, 1],
            Self::Both => [1, 1],
        }
    }
}

/// A stereo pair of [`Blep`].
///
/// Steps for [`Sides::Both`] are stored once. A separate side costs nothing until its first step.
#[derive(Clone, Debug)]
pub struct StereoBlep {
    both: Blep,
    left: Option<Box<Blep>>,
    right: Option<Box<Blep>>,
    block: Vec<i32>,
}

impl StereoBlep {
    /// Creates a silent buffer, as [`Blep::new`] does.
    ///
    /// # Panics
    ///
    /// Panics under the conditions of [`Blep::new`].
    pub fn new(ticks: Rate, output_hz: u32) -> Self {
        Self {
            both: Blep::new(ticks, output_hz),
            left: None,
            right: None,
            block: Vec::new(),
        }
    }

    /// Returns the part that both sides share. Use it for its clock, and for mono chips.
    pub fn both(&mut self) -> &mut Blep {
        &mut self.both
    }

    /// Adds a step of `delta` on `sides`, `offset` ticks after the current tick.
    pub fn step(&mut self, offset: u32, sides: Sides, delta: i32) {
        let side = match sides {
            Sides::None => return,
            Sides::Both => return self.both.step(offset, delta),
            Sides::Left => &mut self.left,
            Sides::Right => &mut self.right,
        };
        side.get_or_insert_with(|| Box::new(self.both.silent_at_same_time()))
            .step(offset, delta);
    }

    /// Adds a step on each side whose delta is not 0.
    pub fn step_sides(&mut self, offset: u32, deltas: [i32; 2]) {
        let place = self.both.locate(offset);
        for (side, delta) in [&mut self.left, &mut self.right].into_iter().zip(deltas) {
            if delta != 0 {
                side.get_or_insert_with(|| Box::new(self.both.silent_at_same_time()))
                    .step_at(place, delta);
            }
        }
    }

    /// Advances the current tick by `ticks`.
    pub fn advance(&mut self, ticks: u32) {
        self.both.advance(ticks);
        for side in [&mut self.left, &mut self.right].into_iter().flatten() {
            side.advance(ticks);
        }
    }

    /// Writes the next stereo frames, as [`Blep::read`] does.
    pub fn read(&mut self, out: &mut [[i32; 2]]) {
        self.block.resize(out.len(), 0);
        self.both.read(&mut self.block);
        for (frame, &both) in out.iter_mut().zip(&self.block) {
            *frame = [both; 2];
        }
        for (index, side) in [&mut self.left, &mut self.right].into_iter().enumerate() {
            let Some(side) = side else { continue };
            side.read(&mut self.block);
            for (frame, &own) in out.iter_mut().zip(&self.block) {
                frame[index] += own;
            }
        }
    }
}

/// The differences of a step, for each 64th of a frame by which it can follow a frame.
type Kernels = [[i16; KERNEL_FRAMES]; PHASES + 1];

fn kernels() -> &'static Kernels {
    static KERNELS: OnceLock<Kernels> = OnceLock::new();
    KERNELS.get_or_init(|| {
        let steps = smooth_step();
        std::array::from_fn(|phase| kernel_row(&steps, phase))
    })
}

/// Returns the kernel of a step `phase` 64ths of a frame after a frame. The kernel sums to exactly
/// [`ONE`].
fn kernel_row(steps: &[f64], phase: usize) -> [i16; KERNEL_FRAMES] {
    let level = |frames: usize| {
        let at = (frames * PHASES).saturating_sub(phase).min(steps.len() - 1);
        (steps[at] * f64::from(ONE)).round() as i32
    };
    // We use differences of rounded levels, so that rounding errors do not add up.
    std::array::from_fn(|tap| (level(tap) - if tap == 0 { 0 } else { level(tap - 1) }) as i16)
}

/// Returns a step from 0 to 1 that is limited to about half the frame rate.
///
/// The step extends from [`HALF_KERNEL`] frames before its middle to the same number after it, with
/// one value per 64th of a frame. It is the integral of a windowed sinc, by Simpson's rule.
fn smooth_step() -> Vec<f64> {
    let places = 2 * HALF_KERNEL * PHASES;
    let impulse = |half: usize| {
        let x = half as f64 / (2 * PHASES) as f64 - HALF_KERNEL as f64;
        sinc(x) * kaiser(x / HALF_KERNEL as f64)
    };
    let mut sum = 0.0;
    let mut step = vec![0.0];
    for place in 0..places {
        let at = 2 * place;
        sum += impulse(at) + 4.0 * impulse(at + 1) + impulse(at + 2);
        step.push(sum);
    }
    step.iter().map(|level| level / sum).collect()
}

fn sinc(x: f64) -> f64 {
    let angle = std::f64::consts::PI * x;
    if angle.abs() < 1e-9 {
        1.0
    } else {
        libm::sin(angle) / angle
    }
}

/// Returns Kaiser's window for 50 dB, which is 0 outside -1 to 1.
fn kaiser(x: f64) -> f64 {
    const BETA: f64 = 4.55;
    let inside = 1.0 - x * x;
    if inside <= 0.0 {
        0.0
    } else {
        bessel_i0(BETA * inside.sqrt()) / bessel_i0(BETA)
    }
}

/// Returns the modified Bessel function of order 0, computed from its power series.
fn bessel_i0(x: f64) -> f64 {
    let mut term = 1.0;
    let mut sum = 1.0;
    for n in 1..40 {
        let factor = x / 2.0 / f64::from(n);
        term *= factor * factor;
        sum += term;
    }
    sum
}
