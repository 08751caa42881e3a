//! Random songs of one chip: ten notes per second, with most of its registers.

use super::tone::{Tone, block, pairs, tone, triples, wait};

/// A small generator of test data (PCG, 32 bits out).
pub struct Random(pub u64);

impl Random {
    fn next(&mut self) -> u32 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        let mixed = (((self.0 >> 18) ^ self.0) >> 27) as u32;
        mixed.rotate_right((self.0 >> 59) as u32)
    }

    /// Returns a number below `end`, which is 256 at most.
    fn below(&mut self, end: u32) -> u8 {
        ((u64::from(self.next()) * u64::from(end)) >> 32) as u8
    }

    fn byte(&mut self) -> u8 {
        self.below(256)
    }

    fn bytes(&mut self, count: usize, end: u32) -> Vec<u8> {
        (0..count).map(|_| self.below(end)).collect()
    }
}

/// A chip, the writes at the start, and a note.
pub struct Stream {
    pub chip: Tone,
    setup: fn(&mut Random) -> Vec<u8>,
    note: fn(&mut Random) -> Vec<u8>,
}

/// The number of ticks between notes.
const APART: usize = 4_410;

impl Stream {
    /// Creates a song with this number of notes.
    pub fn song(&self, seed: u64, notes: usize) -> Vec<u8> {
        let mut random = Random(seed);
        let mut commands = (self.setup)(&mut random);
        for _ in 0..notes {
            commands.extend((self.note)(&mut random));
            commands.extend(wait(APART));
        }
        let mut song = self.chip.song(false, &commands);
        song[0x18..0x1C].copy_from_slice(&((notes * APART) as u32).to_le_bytes());
        song
    }
}

fn stream(
    name: &'static str,
    clock: (usize, u32),
    setup: fn(&mut Random) -> Vec<u8>,
    note: fn(&mut Random) -> Vec<u8>,
) -> Stream {
    let chip = tone(name, clock, 0.0, 0.0);
    Stream { chip, setup, note }
}

/// Returns writes to consecutive registers.
fn run(command: u8, first: u8, values: &[u8]) -> Vec<u8> {
    let writes = (first..).zip(values).map(|(reg, value)| (reg, *value));
    pairs(command, &writes.collect::<Vec<_>>())
}

/// Returns writes to consecutive registers with a port, or with the high byte of an address.
fn run_of(command: u8, port: u8, first: u8, values: &[u8]) -> Vec<u8> {
    let writes = (first..)
        .zip(values)
        .map(|(reg, value)| (port, reg, *value));
    triples(command, &writes.collect::<Vec<_>>())
}

pub fn streams() -> Vec<Stream> {
    vec![
        stream(
            "NES",
            (0x84, 1_789_773),
            |_| run(0xB4, 0x15, &[15]),
            |random| match random.below(4) {
                2 => pairs(
                    0xB4,
                    &[
                        (8, random.byte()),
                        (10, random.byte()),
                        (11, random.byte() & 0xF9),
                    ],
                ),
                3 => pairs(
                    0xB4,
                    &[
                        (12, random.byte()),
                        (14, random.byte()),
                        (15, random.byte()),
                    ],
                ),
                pulse => run(0xB4, 4 * pulse, &random.bytes(4, 256)),
            },
        ),
        stream(
            "FDS",
            (0x84, 1_789_773 | 1 << 31),
            |random| {
                let mut setup = pairs(0xB4, &[(0x3F, 2), (0x29, 0x80)]);
                setup.extend(run(0xB4, 0x40, &random.bytes(64, 64)));
                setup.extend(pairs(0xB4, &[(0x29, 0), (0x2A, 0xE8), (0x27, 0x80)]));
                let table = random.bytes(32, 8);
                setup.extend(table.iter().flat_map(|step| [0xB4, 0x28, *step]));
                setup
            },
            |random| {
                let volume = 0x80 | (10 + random.below(30));
                let note = [
                    (0x20, volume),
                    (0x22, random.byte()),
                    (0x23, random.below(6)),
                ];
                let bend = [
                    (0x24, 0x80 | random.below(16)),
                    (0x26, random.byte()),
                    (0x27, 0),
                ];
                pairs(0xB4, &[note, bend].concat())
            },
        ),
        stream(
            "GameBoy",
            (0x80, 4_194_304),
            |random| {
                let setup = pairs(
                    0xB3,
                    &[(0x16, 0x80), (0x14, 0x77), (0x15, 0xFF), (10, 0x80)],
                );
                [setup, run(0xB3, 0x20, &random.bytes(16, 256))].concat()
            },
            |random| {
                let channel = random.below(4);
                let mut values = random.bytes(4, 256);
                values[3] |= 0x80;
                // With shifts of 14 and more, the noise does not change, so we use smaller ones.
                values[2] &= if channel == 3 { 0x9F } else { 0xFF };
                run(0xB3, 5 * channel + 1, &values)
            },
        ),
        stream(
            "K051649",
            (0x9C, 1_789_772),
            |random| run_of(0xD2, 0, 0, &random.bytes(128, 256)),
            |random| {
                let channel = random.below(5);
                let period = [
                    (1, 2 * channel, random.byte()),
                    (1, 2 * channel + 1, random.below(5)),
                ];
                let rest = [
                    (2, channel, random.below(16)),
                    (3, 0, random.below(32) | random.below(32)),
                ];
                triples(0xD2, &[period, rest].concat())
            },
        ),
        stream(
            "HuC6280",
            (0xA4, 3_579_545),
            |random| {
                let mut setup = pairs(0xB9, &[(1, 0xFF), (9, 0x80)]);
                for channel in 0..6 {
                    setup.extend(pairs(0xB9, &[(0, channel), (4, 0x40), (4, 0)]));
                    setup.extend(
                        random
                            .bytes(32, 32)
                            .iter()
                            .flat_map(|sample| [0xB9, 6, *sample]),
                    );
                }
                setup
            },
            |random| {
                let channel = random.below(6);
                let noise = if random.below(3) == 0 {
                    random.byte()
                } else {
                    0
                };
                let pitch = [
                    (0, channel),
                    (7, noise),
                    (2, random.byte()),
                    (3, random.below(5)),
                ];
                // We use only volumes for which both players have the same level.
                pairs(0xB9, &[&pitch[..], &[(5, 0xFF), (4, 0x9F)]].concat())
            },
        ),
        stream(
            "WonderSwan",
            (0xC0, 3_072_000),
            |random| {
                let setup = pairs(0xBC, &[(0x0F, 2), (0x11, 0x0F)]);
                [setup, run_of(0xC6, 0, 0x80, &random.bytes(64, 256))].concat()
            },
            |random| {
                let channel = random.below(4);
                let pitch = [
                    (2 * channel, random.byte()),
                    (2 * channel + 1, random.below(8)),
                ];
                let noise = (0x0E, 0x18 | random.below(8));
                let control = random.below(16) | random.below(16) | random.below(2) << 7;
                pairs(
                    0xBC,
                    &[
                        &pitch[..],
                        &[(8 + channel, random.byte()), noise, (0x10, control)],
                    ]
                    .concat(),
                )
            },
        ),
        stream(
            "VSU",
            (0xC4, 5_000_000),
            |random| {
                let waves = run_of(0xC7, 0, 0, &random.bytes(160, 64));
                [waves, run_of(0xC7, 0, 0xA0, &random.bytes(32, 256))].concat()
            },
            |random| {
                let channel = random.below(6);
                let mut values = random.bytes(5, 256);
                values[4] &= 0x33;
                let wave = random.below(5);
                let mut note = run_of(0xC7, 1, 16 * channel + 1, &values);
                note.extend(triples(
                    0xC7,
                    &[(1, 16 * channel + 6, wave), (1, 16 * channel, 0x80)],
                ));
                note
            },
        ),
        stream(
            "SAA1099",
            (0xC8, 8_000_000),
            |_| run(0xBD, 0x1C, &[1]),
            |random| {
                let channel = random.below(6);
                let tone = [(channel, random.byte()), (8 + channel, random.byte())];
                let octave = (0x10 + channel / 2, random.byte() & 0x77);
                let envelope = (0x18 + random.below(2), random.byte() & !0x20);
                pairs(
                    0xBD,
                    &[
                        &tone[..],
                        &[
                            octave,
                            (0x14, random.below(64) | random.below(64)),
                            envelope,
                        ],
                    ]
                    .concat(),
                )
            },
        ),
        stream(
            "Pokey",
            (0xB0, 1_789_790),
            |_| run(0xBB, 0x0F, &[3]),
            |random| {
                // We use only the long noise, because the pitch of a short one depends on its
                // start.
                let channel = random.below(4);
                let kind = if random.below(3) == 0 { 0x80 } else { 0xA0 };
                let control = random.below(4) << 5 | random.below(2);
                pairs(
                    0xBB,
                    &[
                        (8, control),
                        (2 * channel, random.byte()),
                        (2 * channel + 1, kind | random.below(16)),
                    ],
                )
            },
        ),
        stream(
            "Mikey",
            (0xE4, 16_000_000),
            |_| pairs(0x40, &[(0x50, 0), (0x44, 0xFF)]),
            |random| {
                let channel = random.below(4);
                let base = 0x20 + 8 * channel;
                let mut note = run(0x40, base, &random.bytes(2, 256));
                let control = 0x18 | random.below(5) | random.below(2) << 7;
                let rest = [
                    (base + 4, random.byte()),
                    (base + 3, random.byte()),
                    (base + 5, control),
                ];
                note.extend(pairs(
                    0x40,
                    &[&[(0x40 + channel, random.byte())], &rest[..]].concat(),
                ));
                note
            },
        ),
        stream(
            "YMZ280B",
            (0x68, 16_934_400),
            |random| {
                let samples: Vec<u8> = (0..0x1_0000u32)
                    .map(|at| {
                        let hill = 60.0 * (f64::from(at) / 9.0).sin();
                        (128 + hill as i32) as u8 ^ random.below(4)
                    })
                    .collect();
                let rom = block(0x86, &[0x1_0000, 0], &samples);
                [rom, pairs(0x5D, &[(0xFF, 0x80)])].concat()
            },
            |random| {
                let (voice, format) = (random.below(8), 1 + random.below(3));
                let start = random.below(0x40);
                let from = start + random.below(0x10);
                let marks = [start, from, from + 4, from + 12];
                let base = 4 * voice;
                let mut note = pairs(0x5D, &[(base + 1, 0)]);
                for (which, high) in (0..).zip(marks) {
                    note.extend(pairs(
                        0x5D,
                        &[
                            (0x20 + base + which, 0),
                            (0x40 + base + which, high),
                            (0x60 + base + which, 0),
                        ],
                    ));
                }
                let control = 0x80 | format << 5 | random.below(2) << 4 | random.below(2);
                let rest = [
                    (base, random.byte()),
                    (base + 2, random.byte()),
                    (base + 3, random.below(16)),
                ];
                note.extend(pairs(0x5D, &rest));
                note.extend(pairs(0x5D, &[(base + 1, control)]));
                note
            },
        ),
        Stream {
            chip: Tone {
                flag: (0xD4, 2),
                ..tone("ES5503", (0xCC, 7_159_090), 0.0, 0.0)
            },
            setup: |random| {
                let samples: Vec<u8> = random
                    .bytes(0x1_0000, 255)
                    .iter()
                    .map(|byte| byte + 1)
                    .collect();
                [
                    block(0xE1, &[0], &samples),
                    triples(0xD5, &[(0, 0xE1, 0x3E)]),
                ]
                .concat()
            },
            note: |random| {
                let index = random.below(32);
                let values = [
                    (0xA0, 1),
                    (0, random.byte()),
                    (0x20, random.below(4)),
                    (0x40, random.byte()),
                ];
                let rest = [
                    (0x80, random.byte()),
                    (0xC0, random.below(64)),
                    (0xA0, random.below(16) << 4),
                ];
                let writes = [&values[..], &rest].concat();
                let writes: Vec<_> = writes
                    .iter()
                    .map(|(reg, value)| (0, reg + index, *value))
                    .collect();
                triples(0xD5, &writes)
            },
        },
        stream(
            "K007232",
            (0xE8, 3_579_545),
            |random| block(0x94, &[0x8000, 0], &random.bytes(0x8000, 128)),
            |random| {
                let voice = random.below(2);
                let base = 6 * voice;
                let pitch = [
                    (13, 3),
                    (base, random.byte()),
                    (base + 1, 12 + random.below(4)),
                ];
                let start = [
                    (base + 2, random.byte()),
                    (base + 3, random.below(0x60)),
                    (base + 4, 0),
                ];
                let volumes = [
                    (0x10 + 2 * voice, random.byte()),
                    (0x11 + 2 * voice, random.byte()),
                ];
                pairs(
                    0x41,
                    &[&pitch[..], &start, &volumes, &[(base + 5, 0)]].concat(),
                )
            },
        ),
        Stream {
            chip: Tone {
                flag: (0xD7, 0b110),
                ..tone("MSM5205", (0xF0, 384_000), 0.0, 0.0)
            },
            setup: |_| vec![0x32, 0x01, 0x32, 0x00],
            note: |random| {
                // Codes for half a note, 8,000 per second. The value rises and falls again.
                let mut note = vec![0x32, 0x01, 0x32, 0x00];
                let mut code = 0;
                for at in 0..400u32 {
                    code = if at % 2 == 0 {
                        random.below(8)
                    } else {
                        code ^ 8
                    };
                    note.extend([0x32, 0x10 | code]);
                    let ticks = (at + 1) * 441 / 80 - at * 441 / 80;
                    note.push(0x6F + ticks as u8);
                }
                note
            },
        },
    ]
}
