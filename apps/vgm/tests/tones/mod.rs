//! One tone of each chip without FM, as commands of a song.

use creel_vgm::format::Song;
use creel_vgm::render::{Buffers, Player, Settings};

/// The number of ticks per second.
pub const SECOND: usize = 44_100;

/// A tone of one chip.
pub struct Tone {
    pub name: &'static str,
    /// The offset of its clock in the header, and the clock.
    pub clock: (usize, u32),
    /// The offset and the value of a byte of the header.
    pub flag: (usize, u8),
    /// The commands before the first note.
    pub setup: Vec<u8>,
    /// The commands that start a note at its loudest, and those that end it.
    pub on: Vec<u8>,
    pub off: Vec<u8>,
    /// The pitch according to the documentation.
    pub hz: f64,
    /// The expected level in dB, relative to a sine of the YM2151.
    pub decibels: f64,
}

/// Returns writes with a command of two operands: register and value.
pub fn pairs(command: u8, writes: &[(u8, u8)]) -> Vec<u8> {
    let bytes = writes.iter().map(|(reg, value)| [command, *reg, *value]);
    bytes.collect::<Vec<_>>().concat()
}

/// Returns writes with a command of three operands: port, register and value.
pub fn triples(command: u8, writes: &[(u8, u8, u8)]) -> Vec<u8> {
    let bytes = writes.iter();
    let bytes = bytes.map(|(port, reg, value)| [command, *port, *reg, *value]);
    bytes.collect::<Vec<_>>().concat()
}

/// Returns a data block with these words before its bytes.
pub fn block(kind: u8, words: &[u32], data: &[u8]) -> Vec<u8> {
    let length = (4 * words.len() + data.len()) as u32;
    let mut block = vec![0x67, 0x66, kind];
    block.extend(length.to_le_bytes());
    block.extend(words.iter().flat_map(|word| word.to_le_bytes()));
    block.extend(data);
    block
}

/// Returns a memory of 0x100 bytes that begins with these bytes.
pub fn rom(kind: u8, data: &[u8]) -> Vec<u8> {
    block(kind, &[0x100, 0], data)
}

/// Returns 32 samples of a square wave.
fn square(high: u8, low: u8) -> [u8; 32] {
    std::array::from_fn(|place| if place < 16 { high } else { low })
}

pub fn tone(name: &'static str, clock: (usize, u32), hz: f64, decibels: f64) -> Tone {
    Tone {
        name,
        clock,
        flag: (0xD7, 0),
        setup: Vec::new(),
        on: Vec::new(),
        off: Vec::new(),
        hz,
        decibels,
    }
}

const NES: (usize, u32) = (0x84, 1_789_773);
const NES_HZ: f64 = 1_789_773.0;
const GAME_BOY: (usize, u32) = (0x80, 4_194_304);

fn nes() -> [Tone; 3] {
    let pulse = Tone {
        setup: pairs(0xB4, &[(0x15, 1), (0, 0xBF), (1, 0x08), (2, 0xFD)]),
        on: pairs(0xB4, &[(0, 0xBF), (3, 0)]),
        off: pairs(0xB4, &[(0, 0xB0)]),
        ..tone("NES pulse", NES, NES_HZ / 16.0 / 254.0, -7.5)
    };
    let triangle = Tone {
        setup: pairs(0xB4, &[(0x15, 4), (8, 0xFF), (10, 126)]),
        on: pairs(0xB4, &[(0x15, 4), (11, 0)]),
        off: pairs(0xB4, &[(0x15, 0)]),
        ..tone("NES triangle", NES, NES_HZ / 32.0 / 127.0, -7.4)
    };
    let mut fds = Tone {
        setup: pairs(0xB4, &[(0x3F, 2), (0x29, 0x80)]),
        off: pairs(0xB4, &[(0x20, 0x80)]),
        ..tone("NES FDS", NES, 1031.0 * NES_HZ / 65536.0 / 64.0, -0.5)
    };
    fds.clock.1 |= 1 << 31;
    for place in 0..64 {
        let sample = if place < 32 { 63 } else { 0 };
        fds.setup.extend(pairs(0xB4, &[(0x40 + place, sample)]));
    }
    fds.setup
        .extend(pairs(0xB4, &[(0x29, 0), (0x22, 0x07), (0x23, 0x44)]));
    fds.on = pairs(0xB4, &[(0x20, 0xA0), (0x23, 0x44)]);
    [pulse, triangle, fds]
}

fn game_boy() -> [Tone; 2] {
    let base = [(0x16, 0x80), (0x14, 0x77), (0x15, 0xFF)];
    let hz = 131_072.0 / 298.0;
    let pulse = Tone {
        setup: pairs(0xB3, &[&base[..], &[(1, 0x80), (3, 0xD6)]].concat()),
        on: pairs(0xB3, &[(2, 0xF0), (4, 0x86)]),
        off: pairs(0xB3, &[(2, 0)]),
        ..tone("GameBoy pulse", GAME_BOY, hz, -0.1)
    };
    let wave = square(0xFF, 0).map(|sample| (0, sample));
    let mut wave: Vec<_> = wave.into_iter().step_by(2).collect();
    for (place, write) in wave.iter_mut().enumerate() {
        write.0 = 0x20 + place as u8;
    }
    let wave = Tone {
        setup: pairs(
            0xB3,
            &[&base[..], &wave, &[(12, 0x20), (13, 0x6B)]].concat(),
        ),
        on: pairs(0xB3, &[(10, 0x80), (14, 0x87)]),
        off: pairs(0xB3, &[(10, 0)]),
        ..tone("GameBoy wave", GAME_BOY, 65_536.0 / 149.0, -0.1)
    };
    [pulse, wave]
}

fn waves() -> [Tone; 4] {
    let scc_wave: Vec<_> = square(127, 0x80).into_iter().enumerate().collect();
    let scc_wave: Vec<_> = scc_wave
        .iter()
        .map(|(at, byte)| (0, *at as u8, *byte))
        .collect();
    let scc = Tone {
        setup: triples(0xD2, &[&scc_wave[..], &[(1, 0, 253), (1, 1, 0)]].concat()),
        on: triples(0xD2, &[(2, 0, 15), (3, 0, 1)]),
        off: triples(0xD2, &[(3, 0, 0)]),
        ..tone(
            "K051649",
            (0x9C, 1_789_772),
            1_789_772.0 / 16.0 / 254.0,
            -3.6,
        )
    };
    let samples = square(31, 0).map(|sample| (6, sample));
    let first = [(0, 0), (1, 0xFF), (4, 0x40), (4, 0)];
    let rest = [(2, 0xFE), (3, 0), (5, 0xFF)];
    let huc6280 = Tone {
        setup: pairs(0xB9, &[&first[..], &samples, &rest].concat()),
        on: pairs(0xB9, &[(4, 0x9F)]),
        off: pairs(0xB9, &[(4, 0)]),
        ..tone(
            "HuC6280",
            (0xA4, 3_579_545),
            3_579_545.0 / 32.0 / 254.0,
            -3.3,
        )
    };
    let mut wonderswan = Tone {
        setup: pairs(0xBC, &[(0x0F, 2), (0, 0x26), (1, 7), (0x11, 0x0F)]),
        on: pairs(0xBC, &[(8, 0xFF), (0x10, 1)]),
        off: pairs(0xBC, &[(0x10, 0)]),
        ..tone(
            "WonderSwan",
            (0xC0, 3_072_000),
            3_072_000.0 / 32.0 / 218.0,
            -4.1,
        )
    };
    for (place, byte) in (0x80..).zip(square(0xFF, 0).into_iter().step_by(2)) {
        wonderswan.setup.extend([0xC6, 0, place, byte]);
    }
    let vsu_wave = square(63, 0).into_iter().zip(0u8..);
    let vsu_wave: Vec<_> = vsu_wave.map(|(sample, at)| (0, at, sample)).collect();
    let vsu_rest = [
        (1, 1, 0xFF),
        (1, 2, 0x9D),
        (1, 3, 6),
        (1, 4, 0xF0),
        (1, 5, 0),
        (1, 6, 0),
    ];
    let vsu = Tone {
        setup: triples(0xC7, &[&vsu_wave[..], &vsu_rest].concat()),
        on: triples(0xC7, &[(1, 4, 0xF0), (1, 0, 0x80)]),
        off: triples(0xC7, &[(1, 0, 0)]),
        ..tone("VSU", (0xC4, 5_000_000), 5_000_000.0 / 32.0 / 355.0, 2.0)
    };
    [scc, huc6280, wonderswan, vsu]
}

fn squares() -> [Tone; 3] {
    let saa1099 = Tone {
        setup: pairs(0xBD, &[(8, 0xE3), (0x10, 3), (0x1C, 1), (0x14, 1)]),
        on: pairs(0xBD, &[(0, 0xFF)]),
        off: pairs(0xBD, &[(0, 0)]),
        ..tone("SAA1099", (0xC8, 8_000_000), 125_000.0 / 284.0, -7.1)
    };
    let pokey = Tone {
        setup: pairs(0xBB, &[(8, 0), (0, 72)]),
        on: pairs(0xBB, &[(1, 0xAF)]),
        off: pairs(0xBB, &[(1, 0xA0)]),
        ..tone(
            "Pokey",
            (0xB0, 1_789_790),
            1_789_790.0 / 28.0 / 73.0 / 2.0,
            -0.4,
        )
    };
    // Bit 0 of the register is fed back inverted, which gives a square wave.
    let mikey = Tone {
        setup: pairs(0x40, &[(0x50, 0), (0x44, 0), (0x21, 1), (0x24, 141)]),
        on: pairs(0x40, &[(0x20, 0x7F), (0x25, 0x1B)]),
        off: pairs(0x40, &[(0x20, 0)]),
        ..tone("Mikey", (0xE4, 16_000_000), 1e6 / 8.0 / 142.0 / 2.0, 2.3)
    };
    [saa1099, pokey, mikey]
}

fn samples() -> [Tone; 4] {
    let mut sample = square(0x7F, 0).to_vec();
    sample.push(0x80);
    let mut k007232 = Tone {
        setup: rom(0x94, &sample),
        on: pairs(0x41, &[(5, 0)]),
        off: pairs(0x41, &[(0x0D, 0)]),
        ..tone(
            "K007232",
            (0xE8, 3_579_545),
            3_579_545.0 / 4.0 / 64.0 / 32.0,
            8.9,
        )
    };
    let pitch = [
        (0, 0xC0),
        (1, 0x0F),
        (2, 0),
        (3, 0),
        (4, 0),
        (0x10, 255),
        (0x11, 255),
    ];
    k007232.setup.extend(pairs(0x41, &pitch));
    k007232.on = pairs(0x41, &[(0x0D, 1), (5, 0)]);
    let mut ymz280b = Tone {
        setup: rom(0x86, &square(0x7F, 0x80)),
        on: pairs(0x5D, &[(1, 0xD0)]),
        off: pairs(0x5D, &[(1, 0x50)]),
        ..tone(
            "YMZ280B",
            (0x68, 16_934_400),
            44_100.0 * 82.0 / 256.0 / 32.0,
            10.3,
        )
    };
    let marks = [
        (0x62, 32),
        (0x63, 32),
        (0xFF, 0x80),
        (0, 81),
        (2, 0xFF),
        (3, 8),
    ];
    ymz280b.setup.extend(pairs(0x5D, &marks));
    let table: Vec<u8> = (0..256)
        .map(|at| if at < 128 { 0xFF } else { 0x01 })
        .collect();
    let mut es5503 = Tone {
        flag: (0xD4, 1),
        setup: block(0xE1, &[0], &table),
        on: triples(0xD5, &[(0, 0xA0, 0)]),
        off: triples(0xD5, &[(0, 0xA0, 1)]),
        ..tone(
            "ES5503",
            (0xCC, 7_159_090),
            2191.0 / 131_072.0 * 7_159_090.0 / 272.0,
            -0.2,
        )
    };
    let registers = [
        (0, 0xE1, 0x3E),
        (0, 0, 0x8F),
        (0, 0x20, 8),
        (0, 0x40, 0xFF),
        (0, 0x80, 0),
        (0, 0xC0, 0),
    ];
    es5503.setup.extend(triples(0xD5, &registers));
    // Nine codes up and nine codes down, with 8,000 codes per second, for half a second.
    let mut msm5205 = Tone {
        flag: (0xD7, 0b110),
        setup: vec![0x32, 0x01],
        off: vec![0x32, 0x01],
        ..tone("MSM5205", (0xF0, 384_000), 8_000.0 / 18.0, 1.5)
    };
    msm5205.on.extend([0x32, 0x00]);
    let mut tick = 0;
    for code in 0..4_000u32 {
        // The step size grows first, and then stays about the same.
        let value = if code < 3 {
            7
        } else {
            [4, 3, 3][code as usize % 3]
        };
        let down = if code / 9 % 2 == 0 { 0 } else { 8 };
        msm5205.on.extend([0x32, 0x10 | value | down]);
        let next = (code + 1) * 44_100 / 8_000;
        msm5205.on.push(0x70 + (next - tick - 1) as u8);
        tick = next;
    }
    [k007232, ymz280b, es5503, msm5205]
}

/// Returns all tones.
pub fn tones() -> Vec<Tone> {
    let mut all = Vec::new();
    all.extend(nes());
    all.extend(game_boy());
    all.extend(waves());
    all.extend(squares());
    all.extend(samples());
    all
}

impl Tone {
    /// Creates a song of version 1.71 with these commands and with this chip in its header. With
    /// `opm`, the header also has a YM2151.
    pub fn song(&self, opm: bool, commands: &[u8]) -> Vec<u8> {
        let mut song = vec![0; 0x100];
        song[..4].copy_from_slice(b"Vgm ");
        song[8..10].copy_from_slice(&[0x71, 0x01]);
        song[0x34] = 0xCC;
        song[self.clock.0..][..4].copy_from_slice(&self.clock.1.to_le_bytes());
        if opm {
            song[0x30..0x34].copy_from_slice(&3_579_545u32.to_le_bytes());
        }
        if self.flag.1 != 0 {
            song[self.flag.0] = self.flag.1;
        }
        song.extend(commands);
        song.push(0x66);
        song
    }
}

/// Returns the commands that wait for this number of ticks.
pub fn wait(ticks: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut left = ticks;
    while left > 0 {
        let some = left.min(0xFFFF) as u16;
        bytes.push(0x61);
        bytes.extend(some.to_le_bytes());
        left -= usize::from(some);
    }
    bytes
}

/// Renders the frames of a song.
pub fn play(song: Vec<u8>) -> Vec<[f32; 2]> {
    let song = Song::parse(song).unwrap();
    let (settings, mut buffers) = (Settings::default(), Buffers::default());
    let mut player = Player::new(&song, &settings, &mut buffers).unwrap();
    let mut frames = vec![[0.0f32; 2]; player.frames() as usize];
    assert_eq!(player.fill(&mut buffers, &mut frames), frames.len());
    frames
}

/// Returns the strongest frequency within a semitone of `hz` on the left side, and its share of the
/// whole power without the mean.
pub fn pitch(frames: &[[f32; 2]], hz: f64) -> (f64, f64) {
    let mean = frames.iter().map(|frame| f64::from(frame[0])).sum::<f64>() / frames.len() as f64;
    let window = |at: usize| {
        let phase = std::f64::consts::TAU * at as f64 / frames.len() as f64;
        0.5 - 0.5 * phase.cos()
    };
    let samples = frames.iter().enumerate();
    let samples = samples.map(|(at, frame)| (f64::from(frame[0]) - mean) * window(at));
    let samples: Vec<f64> = samples.collect();
    let power = |hz: f64| {
        let turn = std::f64::consts::TAU * hz / SECOND as f64;
        let (mut re, mut im) = (0.0, 0.0);
        for (at, sample) in samples.iter().enumerate() {
            let (sin, cos) = (turn * at as f64).sin_cos();
            re += sample * cos;
            im += sample * sin;
        }
        re * re + im * im
    };
    // The deviation in cents.
    let tried = (-100..=100).map(|cents: i32| hz * (f64::from(cents) / 1200.0).exp2());
    let best = tried
        .map(|hz| (hz, power(hz)))
        .max_by(|a, b| a.1.total_cmp(&b.1));
    let (found, most) = best.expect("there is at least one candidate");
    let all: f64 = samples.iter().map(|sample| sample * sample).sum();
    // The window spreads the power of a sine, so one line has two thirds of it.
    (found, most / (all * samples.len() as f64 / 3.0))
}
