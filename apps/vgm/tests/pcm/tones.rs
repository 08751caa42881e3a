//! A note of each chip: a sine of full scale from its memory that lasts a fifth of a second.

use std::f64::consts::TAU;

/// A note at its loudest.
pub struct Tone {
    pub name: &'static str,
    /// The offsets and words of the header: the clock and other fields of the chip.
    pub header: &'static [(usize, u32)],
    /// The data blocks with their kinds and bytes.
    pub memory: fn() -> Vec<(u8, Vec<u8>)>,
    /// The commands before the first note.
    pub setup: &'static [u8],
    pub on: &'static [u8],
    pub off: &'static [u8],
    pub hz: f64,
    /// The expected level in dB, relative to one operator of the YM2151.
    pub decibels: f64,
}

/// The length of a note in ticks. The sound lasts for two fifths of it.
pub const NOTE: usize = 22_050;
pub const NOTES: usize = 8;

/// The writes for one operator of the YM2151 with an undamped sine.
#[rustfmt::skip]
const SINE: &[u8] = &[
    0x54, 0x20, 0xC7, 0x54, 0x28, 0x4A, 0x54, 0x60, 0x00, 0x54, 0x68, 0x7F, 0x54, 0x70, 0x7F,
    0x54, 0x78, 0x7F, 0x54, 0x80, 0x1F, 0x54, 0xE0, 0x0F, 0x54, 0x08, 0x08,
];
const SINE_OFF: &[u8] = &[0x54, 0x08, 0x00];

impl Tone {
    /// Creates a song with half a second of the YM2151, followed by the notes.
    pub fn song(&self) -> Vec<u8> {
        let mut song = vec![0; 0x100];
        song[..4].copy_from_slice(b"Vgm ");
        song[8..10].copy_from_slice(&[0x72, 0x01]);
        song[0x34] = 0xCC;
        song[0x18..0x1C].copy_from_slice(&((NOTE * (NOTES + 1)) as u32).to_le_bytes());
        song[0x30..0x34].copy_from_slice(&3_579_545u32.to_le_bytes());
        for (offset, value) in self.header {
            song[*offset..][..4].copy_from_slice(&value.to_le_bytes());
        }
        for (kind, data) in (self.memory)() {
            song.extend([0x67, 0x66, kind]);
            song.extend((data.len() as u32).to_le_bytes());
            song.extend(data);
        }
        let wait = [&[0x61][..], &(NOTE as u16).to_le_bytes()].concat();
        song.extend([self.setup, SINE, &wait, SINE_OFF].concat());
        for _ in 0..NOTES {
            song.extend([self.off, self.on, &wait].concat());
        }
        song.push(0x66);
        song
    }
}

/// Returns a sine of full scale with `period` samples per period.
fn sine(samples: usize, period: f64) -> impl Iterator<Item = f64> {
    (0..samples).map(move |n| (TAU * n as f64 / period).sin())
}

/// Returns a sine as signed bytes.
fn signed(samples: usize, period: f64) -> Vec<u8> {
    sine(samples, period)
        .map(|value| (value * 127.0).round() as i8 as u8)
        .collect()
}

/// Returns a sine as words with the high byte first.
fn words_be(samples: usize, period: f64) -> Vec<u8> {
    sine(samples, period)
        .flat_map(|value| ((value * 32_000.0) as i16).to_be_bytes())
        .collect()
}

/// Returns a sine as bytes around 80 (hexadecimal) without 0 and FF.
fn unsigned(samples: usize, period: f64) -> Vec<u8> {
    sine(samples, period)
        .map(|value| (128.0 + value * 126.0).round() as u8)
        .collect()
}

/// Returns a sine as a sign bit, which is set above the middle, and seven bits.
fn signs(samples: usize, period: f64) -> Vec<u8> {
    sine(samples, period)
        .map(|value| (value.abs() * 126.0).round() as u8 | if value > 0.0 { 0x80 } else { 0 })
        .collect()
}

/// Returns the body of a ROM block whose bytes begin at `start`.
fn rom(start: u32, bytes: Vec<u8>) -> Vec<u8> {
    let size = start + bytes.len() as u32;
    [&size.to_le_bytes()[..], &start.to_le_bytes(), &bytes].concat()
}

/// Encodes a sine with the codes of OKI, using the nearest code each time. The high half of a byte
/// comes first.
fn oki(codes: usize, period: f64) -> Vec<u8> {
    const MOVES: [i32; 8] = [-1, -1, -1, -1, 2, 4, 6, 8];
    let (mut value, mut step) = (-2.0f64, 0i32);
    let codes: Vec<u8> = sine(codes, period)
        .map(|wanted| {
            let size = (16.0 * 1.1f64.powi(step)).floor();
            let of = |code: u8| {
                let part = |bit: u8, part: f64| if code & bit != 0 { part.floor() } else { 0.0 };
                let sum = part(4, size) + part(2, size / 2.0) + part(1, size / 4.0);
                let moved = sum + (size / 8.0).floor();
                if code & 8 == 0 { moved } else { -moved }
            };
            let away = |code: &u8| (value + of(*code) - wanted * 2000.0).abs();
            let code = (0..16).min_by(|a, b| away(a).total_cmp(&away(b))).unwrap();
            value = (value + of(code)).clamp(-2048.0, 2047.0);
            step = (step + MOVES[usize::from(code & 7)]).clamp(0, 48);
            code
        })
        .collect();
    let pairs = codes.chunks_exact(2);
    pairs.map(|pair| pair[0] << 4 | pair[1]).collect()
}

/// Encodes a sine with the codes of NEC in blocks of 256. A code lasts `units` units of four
/// clocks.
fn nec(codes: usize, period: f64, units: u8) -> Vec<u8> {
    const STEPS: [[i32; 8]; 16] = creel_vgm::chips::pcm::upd7759::STEPS;
    const MOVES: [i32; 8] = [-1, -1, 0, 0, 1, 2, 2, 3];
    let (mut value, mut state) = (0i32, 0i32);
    let codes: Vec<u8> = sine(codes, period)
        .map(|wanted| {
            let of = |code: u8| {
                let step = STEPS[state as usize][usize::from(code & 7)];
                if code & 8 == 0 { step } else { -step }
            };
            let away = |code: &u8| (f64::from(value + of(*code)) - wanted * 240.0).abs();
            let code = (0..16).min_by(|a, b| away(a).total_cmp(&away(b))).unwrap();
            value += of(code);
            state = (state + MOVES[usize::from(code & 7)]).clamp(0, 15);
            code
        })
        .collect();
    let mut bytes = Vec::new();
    for block in codes.chunks(256) {
        bytes.push(0x40 + units - 1);
        bytes.extend(block.chunks(2).map(|pair| pair[0] << 4 | pair[1]));
    }
    bytes.push(0);
    bytes
}

pub const TONES: &[Tone] = &[
    Tone {
        name: "OKIM6295",
        header: &[(0x98, 1_056_000 | 1 << 31)],
        memory: || {
            let mut memory = vec![0; 8];
            memory.extend([0, 0, 0x10, 0, 3, 0x2F, 0, 0]);
            memory.extend(oki(1600, 20.0));
            vec![(0x8B, rom(0, memory))]
        },
        setup: &[],
        on: &[0xB8, 0, 0x81, 0xB8, 0, 0x10],
        off: &[0xB8, 0, 0x08],
        hz: 400.0,
        decibels: 11.8,
    },
    Tone {
        name: "SegaPCM",
        header: &[(0x38, 4_000_000), (0x3C, 0x70_000C)],
        memory: || vec![(0x80, rom(0, unsigned(6144, 62.5)))],
        #[rustfmt::skip]
        setup: &[
            0xC0, 0x02, 0, 0x7F, 0xC0, 0x03, 0, 0x7F, 0xC0, 0x06, 0, 23, 0xC0, 0x07, 0, 0xE0,
        ],
        on: &[0xC0, 0x84, 0, 0, 0xC0, 0x85, 0, 0, 0xC0, 0x86, 0, 0x02],
        off: &[0xC0, 0x86, 0, 0x03],
        hz: 437.5,
        decibels: 9.4,
    },
    Tone {
        name: "RF5C68",
        header: &[(0x40, 12_500_000)],
        memory: || {
            let sound = [signs(6144, 64.0), vec![0xFF; 16]].concat();
            // The window has 4 KiB, but a block may be longer.
            vec![(0xC0, [&[0, 0][..], &sound].concat())]
        },
        #[rustfmt::skip]
        setup: &[
            0xB0, 7, 0xC0, 0xB0, 0, 0xFF, 0xB0, 1, 0xFF, 0xB0, 2, 0x00, 0xB0, 3, 0x08,
            0xB0, 4, 0x00, 0xB0, 5, 0x18, 0xB0, 6, 0x00,
        ],
        on: &[0xB0, 8, 0xFE],
        off: &[0xB0, 8, 0xFF],
        hz: 12_500_000.0 / 384.0 / 64.0,
        decibels: 2.1,
    },
    Tone {
        name: "RF5C164",
        header: &[(0x6C, 12_500_000)],
        memory: || {
            let sound = [signs(6144, 64.0), vec![0xFF; 16]].concat();
            vec![(0xC1, [&[0, 0][..], &sound].concat())]
        },
        #[rustfmt::skip]
        setup: &[
            0xB1, 7, 0xC0, 0xB1, 0, 0xFF, 0xB1, 1, 0xFF, 0xB1, 2, 0x00, 0xB1, 3, 0x08,
            0xB1, 4, 0x00, 0xB1, 5, 0x18, 0xB1, 6, 0x00,
        ],
        on: &[0xB1, 8, 0xFE],
        off: &[0xB1, 8, 0xFF],
        hz: 12_500_000.0 / 384.0 / 64.0,
        decibels: -0.7,
    },
    Tone {
        name: "K053260",
        header: &[(0xAC, 3_579_545)],
        memory: || vec![(0x8E, rom(0x100, signed(4096, 40.0)))],
        // A sample has 200 clocks.
        #[rustfmt::skip]
        setup: &[
            0xBA, 0x2F, 2, 0xBA, 0x08, 0x38, 0xBA, 0x09, 0x0F, 0xBA, 0x0A, 0xF0, 0xBA, 0x0B, 0x0D,
            0xBA, 0x0C, 0x00, 0xBA, 0x0D, 0x01, 0xBA, 0x0F, 0x7F, 0xBA, 0x2C, 0x04,
        ],
        on: &[0xBA, 0x28, 1],
        off: &[0xBA, 0x28, 0],
        hz: 3_579_545.0 / 200.0 / 40.0,
        decibels: 8.9,
    },
    Tone {
        name: "K054539",
        header: &[(0xA0, 18_432_000), (0x94, 0x100)],
        memory: || vec![(0x8C, rom(0, [signed(4800, 60.0), vec![0x80; 4]].concat()))],
        #[rustfmt::skip]
        setup: &[
            0xD3, 2, 0x2F, 0x01, 0xD3, 0, 0x00, 0x00, 0xD3, 0, 0x01, 0x80, 0xD3, 0, 0x02, 0x00,
            0xD3, 0, 0x03, 0x00, 0xD3, 0, 0x04, 0xFF, 0xD3, 0, 0x05, 0x18, 0xD3, 0, 0x0C, 0x00,
        ],
        #[rustfmt::skip]
        on: &[
            0xD3, 0, 0x0C, 0, 0xD3, 0, 0x0D, 0, 0xD3, 0, 0x0E, 0, 0xD3, 2, 0x14, 1,
        ],
        off: &[0xD3, 2, 0x15, 1],
        hz: 400.0,
        decibels: -3.1,
    },
    Tone {
        name: "QSound",
        header: &[(0xB4, 60_000_000)],
        memory: || {
            let sound = [signed(4800, 48.0), vec![0; 16]].concat();
            vec![(0x8F, rom(0x10000, sound))]
        },
        // The bank of voice 0 is in the registers of voice 15.
        #[rustfmt::skip]
        setup: &[
            0xC4, 0x80, 0x01, 0x78, 0xC4, 0x10, 0x00, 0x02, 0xC4, 0x12, 0xC8, 0x05,
            0xC4, 0x00, 0x01, 0x04, 0xC4, 0x01, 0x20, 0x80,
        ],
        on: &[0xC4, 0, 0, 3, 0xC4, 0, 0, 1, 0xC4, 0x20, 0, 6],
        off: &[0xC4, 0, 0, 6],
        hz: 60_000_000.0 / 2496.0 / 48.0,
        decibels: 3.0,
    },
    Tone {
        name: "C352",
        header: &[(0xDC, 24_192_000), (0xD4, 72 << 16)],
        memory: || vec![(0x92, rom(0, signed(4200, 50.0)))],
        #[rustfmt::skip]
        setup: &[
            0xE1, 0, 0, 0xFF, 0xFF, 0xE1, 0, 2, 0x40, 0x00, 0xE1, 0, 4, 0, 0,
            0xE1, 0, 5, 0, 0, 0xE1, 0, 6, 0x10, 0x68,
        ],
        on: &[0xE1, 0, 3, 0x40, 0, 0xE1, 2, 2, 0, 0],
        off: &[0xE1, 0, 3, 0x20, 0, 0xE1, 2, 2, 0, 0],
        hz: 24_192_000.0 / 288.0 / 4.0 / 50.0,
        decibels: -0.1,
    },
    Tone {
        name: "C140",
        header: &[(0xA8, 21_390)],
        memory: || vec![(0x8D, rom(0, signed(4300, 50.0)))],
        #[rustfmt::skip]
        setup: &[
            0xD4, 0, 0, 0xFF, 0xD4, 0, 1, 0xFF, 0xD4, 0, 2, 0x80, 0xD4, 0, 8, 0x10, 0xD4, 0, 9, 0xC0,
        ],
        on: &[0xD4, 0, 5, 0x80],
        off: &[0xD4, 0, 5, 0],
        hz: 12_288_000.0 / 576.0 / 50.0,
        decibels: 2.4,
    },
    Tone {
        name: "C219",
        header: &[(0xA8, 21_390), (0x94, 0x2_0000)],
        memory: || {
            let mut sound = signed(4300, 50.0);
            sound.chunks_exact_mut(2).for_each(|pair| pair.swap(0, 1));
            vec![(0x8D, rom(0, sound))]
        },
        #[rustfmt::skip]
        setup: &[
            0xD4, 0, 0, 0xFF, 0xD4, 0, 1, 0xFF, 0xD4, 0, 2, 0x80, 0xD4, 0, 8, 0x08, 0xD4, 0, 9, 0x60,
        ],
        on: &[0xD4, 0, 5, 0x80],
        off: &[0xD4, 0, 5, 0],
        hz: 21_390.0 / 50.0,
        decibels: 2.4,
    },
    Tone {
        name: "uPD7759",
        header: &[(0x8C, 640_000)],
        memory: || {
            let mut memory = vec![
                0, 0x5A, 0xA5, 0x69, 0x55, 0, 8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
            ];
            memory.extend(nec(1536, 16.0, 25));
            vec![(0x8A, rom(0, memory))]
        },
        setup: &[0xB6, 0, 1, 0xB6, 1, 0],
        on: &[0xB6, 0, 1, 0xB6, 2, 0, 0xB6, 1, 0, 0xB6, 1, 1],
        off: &[0xB6, 0, 0],
        // After 256 codes, the chip reads the two bytes at the start of the next block, which takes
        // 18 units.
        hz: 640_000.0 / 4.0 / (25.0 + 18.0 / 256.0) / 16.0,
        decibels: 12.4,
    },
    Tone {
        name: "GA20",
        header: &[(0xE0, 3_579_545)],
        memory: || vec![(0x93, rom(0, unsigned(3600, 40.0)))],
        // A sample has 50 ticks.
        #[rustfmt::skip]
        setup: &[
            0xBF, 0, 0, 0xBF, 1, 0, 0xBF, 2, 0xE0, 0xBF, 3, 0, 0xBF, 4, 0xCE, 0xBF, 5, 0xFF,
        ],
        on: &[0xBF, 6, 2],
        off: &[0xBF, 6, 0],
        hz: 3_579_545.0 / 4.0 / 50.0 / 40.0,
        decibels: 7.5,
    },
    Tone {
        name: "X1-010",
        header: &[(0xD8, 16_000_000)],
        memory: || vec![(0x91, rom(0, signed(0x2000, 50.0)))],
        #[rustfmt::skip]
        setup: &[
            0xC8, 0, 1, 0xFF, 0xC8, 0, 2, 0x10, 0xC8, 0, 3, 0, 0xC8, 0, 4, 0, 0xC8, 0, 5, 0xFE,
        ],
        on: &[0xC8, 0, 0, 1],
        off: &[0xC8, 0, 0, 0],
        hz: 16_000_000.0 / 512.0 / 50.0,
        decibels: -6.1,
    },
    Tone {
        name: "PWM",
        header: &[(0x70, 23_011_361)],
        memory: || {
            let widths = sine(4410, 50.0).map(|value| (512.0 + value * 500.0).round() as u16);
            vec![(3, widths.flat_map(u16::to_le_bytes).collect())]
        },
        #[rustfmt::skip]
        setup: &[
            0xB2, 0x14, 0x01, 0x90, 0, 17, 0, 4, 0x91, 0, 3, 1, 0, 0x92, 0, 0x22, 0x56, 0, 0,
        ],
        on: &[0x95, 0, 0, 0, 0],
        off: &[0x94, 0],
        hz: 441.0,
        decibels: 10.7,
    },
    Tone {
        name: "MultiPCM",
        header: &[(0x88, 8_053_975)],
        memory: || {
            // Sound 1 begins at 0x100. The loop is in the silence after its 8,800 samples.
            let mut memory = vec![0; 12];
            memory.extend([0, 1, 0, 0x22, 0xC8, 0xDD, 0x2B, 0, 0xF0, 0x00, 0xFF, 0]);
            memory.resize(0x100, 0);
            memory.extend(signed(8800, 100.0));
            memory.resize(0x100 + 8960, 0);
            vec![(0x89, rom(0, memory))]
        },
        #[rustfmt::skip]
        setup: &[
            0xB5, 1, 0, 0xB5, 2, 0, 0xB5, 0, 0, 0xB5, 2, 1, 0xB5, 0, 1, 0xB5, 2, 2, 0xB5, 0, 0,
            0xB5, 2, 3, 0xB5, 0, 0x10, 0xB5, 2, 5, 0xB5, 0, 1, 0xB5, 2, 4,
        ],
        on: &[0xB5, 0, 0x80],
        off: &[0xB5, 0, 0],
        hz: 8_053_975.0 / 180.0 / 100.0,
        decibels: -0.1,
    },
    Tone {
        name: "YMF278B",
        header: &[(0x60, 33_868_800)],
        memory: || {
            let mut memory = vec![0; 12];
            memory.extend([0, 1, 0, 0x22, 0xC8, 0xDD, 0x2B, 0, 0xF0, 0x00, 0xFF, 0]);
            memory.resize(0x100, 0);
            memory.extend(signed(8800, 100.0));
            memory.resize(0x100 + 8960, 0);
            vec![(0x84, rom(0, memory))]
        },
        #[rustfmt::skip]
        setup: &[
            0xD0, 1, 5, 3, 0xD0, 2, 0xF9, 0, 0xD0, 2, 2, 0, 0xD0, 2, 0x20, 0, 0xD0, 2, 0x38, 0x10,
            0xD0, 2, 8, 1, 0xD0, 2, 0x50, 1,
        ],
        on: &[0xD0, 2, 0x68, 0x80],
        off: &[0xD0, 2, 0x68, 0],
        hz: 441.0,
        decibels: -3.1,
    },
    Tone {
        name: "YMF271",
        header: &[(0x64, 16_934_400)],
        memory: || vec![(0x85, rom(0, [signed(8820, 100.0), vec![0; 100]].concat()))],
        // Group 0 plays samples, slot 1 at their own rate. The loop is in the silence after them.
        #[rustfmt::skip]
        setup: &[
            0xD1, 6, 0x00, 3, 0xD1, 0, 0x30, 1, 0xD1, 0, 0x50, 31, 0xD1, 0, 0x80, 0x0F,
            0xD1, 0, 0xB0, 7, 0xD1, 0, 0xA0, 0, 0xD1, 0, 0x90, 0, 0xD1, 0, 0xD0, 0,
            0xD1, 4, 0x30, 0xC4, 0xD1, 4, 0x40, 0x22, 0xD1, 4, 0x60, 0x92, 0xD1, 4, 0x70, 0x22,
        ],
        on: &[0xD1, 0, 0x00, 1],
        off: &[0xD1, 0, 0x00, 0],
        hz: 441.0,
        decibels: 0.0,
    },
    Tone {
        name: "YMF271 FM",
        header: &[(0x64, 16_934_400)],
        memory: Vec::new,
        // Group 0 has four parallel operators, of which only the fourth is audible.
        #[rustfmt::skip]
        setup: &[
            0xD1, 6, 0x00, 0, 0xD1, 0, 0xC0, 15, 0xD1, 0, 0xD0, 0,
            0xD1, 0, 0x40, 0x7F, 0xD1, 1, 0x40, 0x7F, 0xD1, 2, 0x40, 0x7F, 0xD1, 3, 0x40, 0,
            0xD1, 3, 0x30, 1, 0xD1, 3, 0x50, 31, 0xD1, 3, 0x80, 0x0F,
            0xD1, 0, 0xA0, 0x45, 0xD1, 0, 0x90, 0x1F,
        ],
        on: &[0xD1, 0, 0x00, 1],
        off: &[0xD1, 0, 0x00, 0],
        hz: 1311.0 * 44_100.0 / 131_072.0,
        decibels: 0.0,
    },
    Tone {
        name: "ICS2115",
        header: &[(0xFC, 33_868_800)],
        memory: || vec![(0x96, rom(0, [signed(8820, 100.0), vec![0; 16]].concat()))],
        // 24 oscillators. The first plays 8-bit samples, with one sample per frame.
        #[rustfmt::skip]
        setup: &[
            0x44, 1, 0x0E, 0x44, 3, 23, 0x44, 1, 0x4F, 0x44, 2, 0,
            0x44, 1, 1, 0x44, 2, 0, 0x44, 3, 4, 0x44, 1, 2, 0x44, 2, 0, 0x44, 3, 0,
            0x44, 1, 3, 0x44, 3, 0, 0x44, 1, 4, 0x44, 2, 0x27, 0x44, 3, 2,
            0x44, 1, 5, 0x44, 2, 0, 0x44, 3, 0x40, 0x44, 1, 9, 0x44, 2, 0xF0, 0x44, 3, 0xFF,
            0x44, 1, 0x0C, 0x44, 3, 0x7F, 0x44, 1, 0x0D, 0x44, 3, 1, 0x44, 1, 0x11, 0x44, 3, 0,
        ],
        #[rustfmt::skip]
        on: &[
            0x44, 1, 0x0A, 0x44, 2, 0, 0x44, 3, 0, 0x44, 1, 0x0B, 0x44, 2, 0, 0x44, 3, 0,
            0x44, 1, 0, 0x44, 3, 4, 0x44, 1, 0x10, 0x44, 3, 0,
        ],
        off: &[0x44, 1, 0x10, 0x44, 3, 0x0F],
        hz: 441.0,
        decibels: -0.1,
    },
    Tone {
        name: "ES5506",
        header: &[(0xD0, 16_000_000 | 1 << 31), (0xD4, 0x200)],
        memory: || vec![(0x90, rom(0, words_be(6250, 62.5)))],
        // The writes set the step, the volumes, K1 and K2 on page 00, and then the start and the
        // end on page 20.
        #[rustfmt::skip]
        setup: &[
            0xBE, 0x3C, 0, 0xBE, 0x3D, 0, 0xBE, 0x3E, 0, 0xBE, 0x3F, 0,
            0xBE, 0x04, 0, 0xBE, 0x05, 0, 0xBE, 0x06, 8, 0xBE, 0x07, 0,
            0xBE, 0x0A, 0xFF, 0xBE, 0x0B, 0xF0, 0xBE, 0x12, 0xFF, 0xBE, 0x13, 0xF0,
            0xBE, 0x1E, 0xFF, 0xBE, 0x1F, 0xF0, 0xBE, 0x26, 0xFF, 0xBE, 0x27, 0xF0,
            0xBE, 0x2F, 31,
            0xBE, 0x3F, 0x20, 0xBE, 0x07, 0,
            0xBE, 0x08, 0, 0xBE, 0x09, 0xC3, 0xBE, 0x0A, 0, 0xBE, 0x0B, 0,
        ],
        #[rustfmt::skip]
        on: &[
            0xBE, 0x0C, 0, 0xBE, 0x0D, 0, 0xBE, 0x0E, 0, 0xBE, 0x0F, 0, 0xBE, 0x02, 3, 0xBE, 0x03, 0,
        ],
        off: &[0xBE, 0x02, 3, 0xBE, 0x03, 3],
        hz: 500.0,
        decibels: -6.2,
    },
    Tone {
        name: "ES5505",
        header: &[(0xD0, 16_000_000), (0xD4, 0x200)],
        memory: || vec![(0x90, rom(0, words_be(6250, 62.5)))],
        #[rustfmt::skip]
        setup: &[
            0xD6, 15, 0, 0, 0xD6, 13, 0, 31, 0xD6, 1, 4, 0, 0xD6, 2, 0, 0, 0xD6, 3, 0, 0,
            0xD6, 4, 0, 0x30, 0xD6, 5, 0xC0, 0, 0xD6, 6, 0xFF, 0xF0, 0xD6, 7, 0xFF, 0xF0,
            0xD6, 8, 0xFF, 0, 0xD6, 9, 0xFF, 0,
        ],
        on: &[0xD6, 10, 0, 0, 0xD6, 11, 0, 0, 0xD6, 0, 0x0C, 0],
        off: &[0xD6, 0, 0x0C, 3],
        hz: 500.0,
        decibels: -6.5,
    },
    Tone {
        name: "SCSP",
        header: &[(0xB8, 22_579_200)],
        memory: || {
            let sound = words_be(8820, 100.0);
            vec![(0xE0, [&[0, 0, 0, 0][..], &sound].concat())]
        },
        #[rustfmt::skip]
        setup: &[
            0xC5, 4, 1, 15, 0xC5, 0, 1, 0, 0xC5, 0, 2, 0, 0xC5, 0, 3, 0, 0xC5, 0, 6, 0x22, 0xC5, 0, 7, 0x74,
            0xC5, 0, 8, 0, 0xC5, 0, 9, 31, 0xC5, 0, 0x0A, 0x3C, 0xC5, 0, 0x0B, 31,
            0xC5, 0, 0x0D, 0, 0xC5, 0, 0x10, 0, 0xC5, 0, 0x11, 0, 0xC5, 0, 0x16, 0xE0,
        ],
        on: &[0xC5, 0, 0, 0x18],
        off: &[0xC5, 0, 0, 0x10],
        hz: 441.0,
        decibels: -6.2,
    },
];
