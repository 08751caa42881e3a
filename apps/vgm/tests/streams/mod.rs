//! Random register streams, which the hash tests and the oracle share.
#![allow(dead_code, reason = "each test uses the chips it compares")]

mod random;

use creel_vgm::chips::bus::Bus;
pub use random::Random;

/// A step of a stream.
#[derive(Clone, Copy, Debug)]
pub enum Step {
    /// Writes a value: port, register, value.
    Write(u8, u8, u8),
    /// Renders this number of native frames.
    Run(usize),
}

/// A group of registers that are written in the same way.
pub struct Group {
    /// How often the group is written, relative to the other groups.
    pub weight: u32,
    pub port: u8,
    pub first: u8,
    pub last: u8,
}

const fn group(weight: u32, port: u8, first: u8, last: u8) -> Group {
    Group {
        weight,
        port,
        first,
        last,
    }
}

pub const YM2151: &[Group] = &[
    group(30, 0, 0x08, 0x08),
    group(40, 0, 0x20, 0x3f),
    group(80, 0, 0x40, 0xff),
    group(4, 0, 0x0f, 0x0f),
    group(8, 0, 0x18, 0x1b),
    group(4, 0, 0x10, 0x14),
    group(1, 0, 0x01, 0x01),
    group(4, 0, 0x00, 0xff),
];

/// The registers of the YM2151, mainly of operator 4 of channel 8, which plays noise. With these,
/// the noise also fades away.
pub const YM2151_NOISE: &[Group] = &[
    group(4, 0, 0x0f, 0x0f),
    group(16, 0, 0x08, 0x08),
    group(1, 0, 0x27, 0x27),
    group(1, 0, 0x9f, 0x9f),
    group(1, 0, 0xbf, 0xbf),
    group(1, 0, 0xdf, 0xdf),
    group(1, 0, 0xff, 0xff),
];

pub const YM2612: &[Group] = &[
    group(30, 0, 0x28, 0x28),
    group(80, 0, 0x30, 0x9f),
    group(40, 0, 0xa0, 0xbf),
    group(60, 1, 0x30, 0x9f),
    group(30, 1, 0xa0, 0xbf),
    group(6, 0, 0x22, 0x22),
    group(6, 0, 0x24, 0x27),
    group(4, 0, 0x2a, 0x2c),
    group(3, 0, 0x00, 0xff),
    group(3, 1, 0x00, 0xff),
];

pub const YM2610: &[Group] = &[
    group(30, 0, 0x28, 0x28),
    group(70, 0, 0x30, 0x9f),
    group(30, 0, 0xa0, 0xbf),
    group(60, 1, 0x30, 0x9f),
    group(30, 1, 0xa0, 0xbf),
    group(6, 0, 0x22, 0x22),
    group(6, 0, 0x24, 0x27),
    group(20, 0, 0x10, 0x1b),
    group(10, 1, 0x00, 0x01),
    group(10, 1, 0x08, 0x0d),
    group(20, 1, 0x10, 0x2f),
    group(3, 0, 0x00, 0xff),
    group(3, 1, 0x00, 0xff),
];

/// The registers of the YM2608 without its SSG. We leave out the prescaler, which would change the
/// length of frames.
pub const YM2608: &[Group] = &[
    group(30, 0, 0x28, 0x28),
    group(70, 0, 0x30, 0x9f),
    group(30, 0, 0xa0, 0xbf),
    group(60, 1, 0x30, 0x9f),
    group(30, 1, 0xa0, 0xbf),
    group(6, 0, 0x22, 0x22),
    group(6, 0, 0x24, 0x27),
    group(3, 0, 0x29, 0x29),
    group(10, 0, 0x10, 0x11),
    group(10, 0, 0x18, 0x1d),
    group(40, 1, 0x00, 0x0f),
    group(3, 0, 0x30, 0xff),
    group(3, 1, 0x00, 0xff),
];

/// The FM registers of the YM2203. We leave out the prescaler, which would change the length of
/// frames.
pub const YM2203: &[Group] = &[
    group(30, 0, 0x28, 0x28),
    group(80, 0, 0x30, 0x9f),
    group(40, 0, 0xa0, 0xbf),
    group(6, 0, 0x24, 0x27),
    group(3, 0, 0x10, 0x2c),
    group(3, 0, 0x30, 0xff),
];

/// The registers of keys, envelopes, the SSG-EG, frequencies and algorithms. We leave out the
/// others, so that the SSG-EG is audible for a long time.
pub const SSG_EG: &[Group] = &[
    group(40, 0, 0x28, 0x28),
    group(30, 0, 0x50, 0x9f),
    group(30, 0, 0x90, 0x9f),
    group(10, 0, 0xa0, 0xbf),
];

/// Returns the contents of a memory.
pub fn memory(bytes: usize, seed: u64) -> Vec<u8> {
    let mut random = Random(seed);
    (0..bytes).map(|_| random.next() as u8).collect()
}

impl Random {
    /// Returns a random byte. Half of the bytes have more zeros or more ones, so that levels are
    /// audible and rates are fast.
    fn byte(&mut self) -> u8 {
        let (a, b) = (self.next() as u8, self.next() as u8);
        match self.below(4) {
            0 => a & b,
            1 => a | b,
            _ => a,
        }
    }

    fn pause(&mut self) -> usize {
        let bound = [1, 4, 40, 400, 4000, 400, 40, 12000][self.below(8) as usize];
        1 + self.below(bound) as usize
    }

    fn write(&mut self, groups: &[Group]) -> Step {
        let mut pick = self.below(groups.iter().map(|g| g.weight).sum());
        for g in groups {
            if pick < g.weight {
                let reg = g.first + self.below(u32::from(g.last - g.first) + 1) as u8;
                return Step::Write(g.port, reg, self.byte());
            }
            pick -= g.weight;
        }
        unreachable!("the weights sum up")
    }
}

/// Creates a stream of at least `frames` frames, with many writes at the start and then a few at a
/// time.
pub fn stream(groups: &[Group], seed: u64, frames: usize) -> Vec<Step> {
    let mut random = Random(seed);
    let mut steps: Vec<Step> = (0..400).map(|_| random.write(groups)).collect();
    let mut done = 0;
    while done < frames {
        let pause = random.pause();
        steps.push(Step::Run(pause));
        done += pause;
        let writes = [1, 1, 2, 5, 20, 60][random.below(6) as usize];
        steps.extend((0..writes).map(|_| random.write(groups)));
    }
    steps
}

/// Returns the same writes over a bus.
pub fn paced(mut bus: Bus, steps: Vec<Step>) -> Vec<Step> {
    let (mut due, mut frames) = (0, 0);
    let mut paced = Vec::new();
    let mut run_to = |frame: u64, paced: &mut Vec<Step>| {
        if frame > frames {
            paced.push(Step::Run((frame - frames) as usize));
            frames = frame;
        }
    };
    for step in steps {
        match step {
            Step::Run(count) => due += count as u64,
            Step::Write(port, reg, value) => {
                run_to(bus.write_frame(due, (port, reg, value)), &mut paced);
                paced.push(step);
            }
        }
    }
    run_to(due, &mut paced);
    paced
}
