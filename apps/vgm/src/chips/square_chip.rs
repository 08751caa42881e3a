//! Any chip, or part of one, that is made of square waves.

use super::Rate;
use super::ay8910::Ay8910;
use super::fm::opn::Prescaler;
use super::sn76489::Sn76489;
use super::ssg::Ssg;
use crate::edges::{Sides, StereoEdges};
use crate::sequence::Action;

/// One chip of square waves, whichever it is.
pub enum SquareChip {
    /// The AY-3-8910 and its kin.
    Ay8910(Box<Ay8910>),
    /// The SN76489 and its kin.
    Sn76489(Box<Sn76489>),
    /// The SSG of an OPN chip.
    Ssg(Box<Ssg>, SsgClock),
}

/// What makes an SSG tick.
#[derive(Debug, Clone, Copy)]
pub struct SsgClock {
    /// The whole chip's clock.
    pub clock_hz: u32,
    /// Clocks a tick at a prescaler of 1.
    pub divider: u64,
    /// The chip's prescaler; that of the YM2610 is fixed.
    pub prescaler: Prescaler,
}

impl SquareChip {
    /// The ticks a second that its edges are placed in.
    pub fn rate(&self) -> Rate {
        match self {
            SquareChip::Ay8910(chip) => chip.rate(),
            SquareChip::Sn76489(chip) => chip.rate(),
            SquareChip::Ssg(_, clock) => Rate {
                frames: u64::from(clock.clock_hz),
                seconds: clock.divider * u64::from(clock.prescaler.ssg()),
            },
        }
    }

    /// Lets tones of at most this half period, in ticks, show nothing but their mean.
    pub fn average_periods_up_to(&mut self, period: u32) {
        match self {
            SquareChip::Ay8910(chip) => chip.average_periods_up_to(period),
            SquareChip::Sn76489(chip) => chip.average_periods_up_to(period),
            SquareChip::Ssg(chip, _) => chip.average_periods_up_to(period),
        }
    }

    /// Does what an event asks for, between two ticks.
    pub fn act(&mut self, action: Action) {
        let Action::Write { port, reg, value } = action else {
            return;
        };
        let (reg, value) = (reg as u8, value as u8);
        match self {
            SquareChip::Ay8910(chip) if port == 1 => chip.set_stereo(value),
            SquareChip::Ay8910(chip) => chip.write(port, reg, value),
            SquareChip::Sn76489(chip) => chip.write(port, reg, value),
            SquareChip::Ssg(chip, clock) => {
                clock.prescaler.select(port, reg);
                chip.write(reg, value);
            }
        }
    }

    /// Runs `ticks` ticks and places their edges.
    pub fn edges(&mut self, ticks: u32, edges: &mut StereoEdges) {
        match self {
            SquareChip::Ay8910(chip) => chip.edges(ticks, |tick, sides, delta| {
                edges.step(tick, sides, delta);
            }),
            SquareChip::Sn76489(chip) => chip.edges(ticks, |tick, sides, delta| {
                edges.step(tick, sides, delta);
            }),
            SquareChip::Ssg(chip, _) => chip.edges(ticks, |tick, _, delta| {
                edges.step(tick, Sides::Both, delta);
            }),
        }
    }
}
