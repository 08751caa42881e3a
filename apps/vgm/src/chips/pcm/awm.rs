//! The voices of Yamaha's wave memory chips, which the MultiPCM and the YMF278B share; what differs
//! between those is where a register lies, and how sounds are banked.
//!
//! A sound begins with twelve bytes in a table of such:
//!
//! | byte | |
//! |---|---|
//! | 0–2 | bits 22 and 23: 8, 12 or 16 bits a sample; below: where it begins, high byte first |
//! | 3, 4 | loop, in samples |
//! | 5, 6 | the complement of its length, in samples |
//! | 7 | LFO speed in bits 3–5, vibrato in bits 0–2 |
//! | 8 | attack, decay 1 |
//! | 9 | the level at which decay 2 begins, in steps of 3 dB; decay 2 |
//! | A | how far rates follow the pitch (F not at all), release |
//! | B | tremolo |
//!
//! Levels are attenuations of 96 dB in 1024 steps, as those of the [`envelope`](super::envelope).
//!
//! Source: Yamaha YMF278B (OPL4) application manual, "Wave table synthesis".

use super::super::rom::Reader;
use super::envelope::{Envelope, SILENT, Stage, THREE_DB, Volumes, envelope_mask};
use super::sample::{Format, detuned, step};

/// Frames between two looks at the LFO.
const LFO_FRAMES: u32 = 64;

/// Speeds of the LFO in mHz.
const LFO_MHZ: [u64; 8] = [168, 2019, 3196, 4206, 5215, 5888, 6224, 7066];
/// Vibrato in thousandths of a cent.
const VIBRATO: [f64; 8] = [0.0, 3.378, 5.065, 6.750, 10.114, 20.170, 40.180, 79.307];
/// Tremolo in steps: 0, 1.8, 2.9, 3.7, 4.4, 5.9, 7.4 and 11.9 dB.
const TREMOLO: [i32; 8] = [0, 19, 31, 39, 47, 63, 79, 127];

/// A voice.
#[derive(Clone, Copy, Debug, Default)]
pub struct Voice {
    /// 0 to 1023: 1024 and this is the step in 1024ths, before the octave.
    pub number: u32,
    /// By which it plays, −8 to 7, and by which the envelope's rates follow.
    pub octave: i32,
    pub rate_octave: i32,
    /// In steps of 0.375 dB, 0 to 127; where it is now, and where it goes.
    pub level: u8,
    level_now: i32,
    /// 0 the middle, 1 to 7 less and less left, 9 to 15 more and more right, 8 nothing.
    pub pan: u8,
    /// LFO speed and vibrato, and tremolo, as in a sound's head.
    pub lfo: u8,
    pub tremolo: u8,
    /// Bytes 8 to A of a sound's head.
    pub rates: [u8; 3],
    /// Lets a release be as fast as can be.
    pub damped: bool,
    /// The envelope does not follow decay 2, but rings.
    pub rings: bool,
    format: Format,
    start: u32,
    length: u32,
    loop_at: u32,
    at: u32,
    /// In 65536ths of a sample.
    fraction: u32,
    samples: [i32; 2],
    envelope: Envelope,
    lfo_phase: u32,
}

impl Voice {
    /// Takes a sound's head from the table at `head`; `place` says where in the memory it begins.
    pub fn load(&mut self, rom: Reader<'_>, head: u32, place: impl Fn(u32) -> u32) {
        let bytes: [u8; 12] = std::array::from_fn(|byte| rom.byte(head + byte as u32));
        let word = |at: usize| u32::from(u16::from_be_bytes([bytes[at], bytes[at + 1]]));
        self.format = match bytes[0] >> 6 {
            0 => Format::Bytes,
            1 => Format::Twelve,
            _ => Format::Words,
        };
        self.start = place(u32::from(bytes[0] & 0x3F) << 16 | word(1));
        self.loop_at = word(3);
        self.length = 0x1_0000 - word(5);
        self.lfo = bytes[7];
        self.rates = [bytes[8], bytes[9], bytes[10]];
        self.tremolo = bytes[11];
    }

    /// Begins at the sound's start.
    pub fn press(&mut self, rom: Reader<'_>) {
        let at_once = self.rate(self.rates[0] >> 4) == 63;
        self.envelope.press(SILENT, at_once);
        (self.at, self.fraction) = (0, 0);
        self.lfo_phase = 0;
        self.samples = [self.sample(rom, 0), self.sample(rom, 1)];
    }

    /// Lets it fade.
    pub fn release(&mut self) {
        self.envelope.release();
    }

    /// Whether there is anything to hear.
    pub fn is_audible(&self) -> bool {
        self.envelope.is_audible()
    }

    /// Sets the level at once.
    pub fn jump_to_level(&mut self) {
        self.level_now = i32::from(self.level) << 2;
    }

    fn sample(&self, rom: Reader<'_>, at: u32) -> i32 {
        let at = if at >= self.length {
            self.loop_at.wrapping_add(at - self.length)
        } else {
            at
        };
        self.format.sample(|at| rom.byte(at), self.start, at)
    }

    /// A rate with what the pitch adds.
    fn rate(&self, rate: u8) -> u32 {
        let follows = self.rates[2] >> 4;
        let added = match follows {
            15 => 0,
            _ => 2 * (self.rate_octave + i32::from(follows)) + (self.number >> 9) as i32,
        };
        match rate {
            0 => 0,
            15 => 63,
            _ => (4 * i32::from(rate) + added).clamp(0, 63) as u32,
        }
    }

    /// The rate of the stage it is in.
    fn stage_rate(&self) -> u32 {
        match self.envelope.stage {
            Stage::Attack => self.rate(self.rates[0] >> 4),
            Stage::Decay1 => self.rate(self.rates[0] & 15),
            Stage::Decay2 if self.rings => 5,
            Stage::Decay2 => self.rate(self.rates[1] & 15),
            Stage::Release if self.damped => 56,
            Stage::Release => self.rate(self.rates[2] & 15),
            Stage::Off => 0,
        }
    }

    /// A step of the envelope at frame `clock`.
    fn advance_envelope(&mut self, clock: u32) {
        let sustained = match i32::from(self.rates[1] >> 4) {
            15 => 31,
            level => level,
        } * THREE_DB;
        self.envelope.advance(self.stage_rate(), clock, sustained);
    }

    /// A triangle from −1 up to 1 and back, `ahead` of where the LFO is by a part of a turn.
    fn lfo_at(&self, ahead: f64) -> f64 {
        let turn = f64::from(self.lfo_phase) / 4_294_967_296.0 + ahead;
        4.0 * (turn - (turn + 0.5).floor()).abs() - 1.0
    }

    /// Steps a frame in 65536ths of a sample.
    fn step(&self) -> u32 {
        let step = step(self.number, self.octave);
        let vibrato = VIBRATO[usize::from(self.lfo & 7)];
        if vibrato == 0.0 {
            return step;
        }
        detuned(u64::from(step), self.lfo_at(0.25) * vibrato) as u32
    }

    /// Adds frames from frame `clock` on; frames are made at `rate_hz`.
    pub fn add(
        &mut self,
        rom: Reader<'_>,
        volumes: &Volumes,
        (clock, rate_hz): (u32, u64),
        out: &mut [[i32; 2]],
    ) {
        let [left, right] = pan(self.pan);
        let lfo = LFO_MHZ[usize::from(self.lfo >> 3 & 7)] << 32;
        let lfo = (lfo / (rate_hz * 1000)) as u32;
        let (mut now, mut rest) = (clock, out);
        while !rest.is_empty() {
            // The LFO makes 7 turns a second at most, so it goes by leaps, always at the same frames.
            if now % LFO_FRAMES == 0 {
                self.lfo_phase = self.lfo_phase.wrapping_add(lfo.wrapping_mul(LFO_FRAMES));
            }
            let frames = (LFO_FRAMES - now % LFO_FRAMES) as usize;
            let (block, after) = rest.split_at_mut(frames.min(rest.len()));
            let step = self.step();
            let tremolo = TREMOLO[usize::from(self.tremolo & 7)];
            let tremolo = (f64::from(tremolo) * (1.0 + self.lfo_at(0.0)) / 2.0) as i32;
            let aim = i32::from(self.level) << 2;
            let mut left_over = block;
            while !left_over.is_empty() {
                self.advance_envelope(now);
                if !self.is_audible() {
                    return;
                }
                self.move_level(now);
                let total = self.envelope.attenuation + self.level_now + tremolo;
                let sides = [left, right].map(|less| volumes.of(total + less));
                let mask = envelope_mask(self.stage_rate());
                // So long the volume stays.
                let calm = match self.level_now == aim {
                    true => (mask - (now & mask)).saturating_add(1) as usize,
                    false => 1,
                };
                let (run, after) = left_over.split_at_mut(calm.min(left_over.len()));
                self.add_run(rom, (step, sides), run);
                now = now.wrapping_add(run.len() as u32);
                left_over = after;
            }
            rest = after;
        }
    }

    /// Adds frames of one volume.
    fn add_run(&mut self, rom: Reader<'_>, (step, sides): (u32, [i32; 2]), run: &mut [[i32; 2]]) {
        let mut fraction = self.fraction;
        for frame in run {
            let [first, second] = self.samples;
            let value = first + (((second - first) * (fraction >> 1) as i32) >> 15);
            frame[0] += (value * sides[0]) >> 15;
            frame[1] += (value * sides[1]) >> 15;
            fraction += step;
            if fraction >= 0x1_0000 {
                self.at += fraction >> 16;
                fraction &= 0xFFFF;
                self.wrap();
                self.samples = [self.sample(rom, self.at), self.sample(rom, self.at + 1)];
            }
        }
        self.fraction = fraction;
    }

    fn wrap(&mut self) {
        if self.at >= self.length {
            let round = self.length.saturating_sub(self.loop_at).max(1);
            self.at = self.loop_at + (self.at - self.length) % round;
        }
    }

    /// The level goes down by 0.375 dB in 27 frames, and up in half as many.
    fn move_level(&mut self, clock: u32) {
        let aim = i32::from(self.level) << 2;
        if self.level_now < aim && clock.is_multiple_of(7) {
            self.level_now += 1;
        } else if self.level_now > aim && clock % 7 < 2 {
            self.level_now -= 1;
        }
    }
}

/// All voices of a chip, and what is written to them alike.
#[derive(Clone, Debug)]
pub struct Voices<const N: usize> {
    all: [Voice; N],
    /// The number of each one's sound, nine bits.
    sounds: [u32; N],
    keys: [bool; N],
    volumes: Volumes,
    clock: u32,
}

impl<const N: usize> Voices<N> {
    /// Voices that play nothing.
    pub fn new() -> Self {
        Self {
            all: [Voice::default(); N],
            sounds: [0; N],
            keys: [false; N],
            volumes: Volumes::new(),
            clock: 0,
        }
    }

    /// A voice, for what is written to one chip's only.
    pub fn voice(&mut self, number: usize) -> &mut Voice {
        &mut self.all[number]
    }

    /// Takes the low eight bits of a sound's number; then its head is at `head` of the number, and
    /// begins where `place` says. A voice whose key is pressed begins anew.
    pub fn choose(
        &mut self,
        number: usize,
        value: u8,
        rom: Reader<'_>,
        (head, place): (impl Fn(u32) -> u32, impl Fn(u32) -> u32),
    ) {
        let sound = self.sounds[number] & 0x100 | u32::from(value);
        self.sounds[number] = sound;
        self.all[number].load(rom, head(sound), place);
        if self.keys[number] {
            self.all[number].press(rom);
        }
    }

    /// Takes the high bit of a sound's number, the lowest of a byte.
    pub fn choose_high(&mut self, number: usize, value: u8) {
        self.sounds[number] = self.sounds[number] & 0xFF | u32::from(value & 1) << 8;
    }

    /// Takes a level in the high seven bits; bit 0 lets it be there at once.
    pub fn set_level(&mut self, number: usize, value: u8) {
        self.all[number].level = value >> 1;
        if value & 1 != 0 {
            self.all[number].jump_to_level();
        }
    }

    /// Whether a voice's key is pressed.
    pub fn key(&self, number: usize) -> bool {
        self.keys[number]
    }

    /// Presses a key, also one that is, or lets it go.
    pub fn set_key(&mut self, number: usize, key: bool, rom: Reader<'_>) {
        if key {
            self.all[number].press(rom);
        } else {
            self.all[number].release();
        }
        self.keys[number] = key;
    }

    /// Overwrites `out` with the next frames, made at `rate_hz`: 16 bits a voice, not limited.
    pub fn render(&mut self, rom: Reader<'_>, rate_hz: u64, out: &mut [[i32; 2]]) {
        out.fill([0; 2]);
        let at = (self.clock, rate_hz);
        for voice in self.all.iter_mut().filter(|voice| voice.is_audible()) {
            voice.add(rom, &self.volumes, at, out);
        }
        self.clock = self.clock.wrapping_add(out.len() as u32);
    }
}

/// Attenuations left and right, in steps.
fn pan(pan: u8) -> [i32; 2] {
    match i32::from(pan & 15) {
        7 => [SILENT, 0],
        8 => [SILENT, SILENT],
        9 => [0, SILENT],
        places @ 0..7 => [places * THREE_DB, 0],
        places => [0, (16 - places) * THREE_DB],
    }
}
