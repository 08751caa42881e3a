//! The voices of Yamaha's wave memory chips, the MultiPCM and the YMF278B.
//!
//! The chips differ only in the layout of their registers and in the banking of sounds.
//!
//! A sound has a header of twelve bytes in a table of headers:
//!
//! | byte | |
//! |---|---|
//! | 0–2 | bits 22 and 23: 8, 12 or 16 bits per sample; below: its start address, high byte first |
//! | 3, 4 | loop, in samples |
//! | 5, 6 | the complement of its length, in samples |
//! | 7 | LFO speed in bits 3–5, vibrato in bits 0–2 |
//! | 8 | attack, decay 1 |
//! | 9 | the level at which decay 2 begins, in steps of 3 dB; decay 2 |
//! | A | key scaling of rates (F is none), release |
//! | B | tremolo |
//!
//! Levels are attenuations of 96 dB in 1024 steps, like those of the [`envelope`](super::envelope).
//!
//! Source: Yamaha YMF278B (OPL4) application manual, "Wave table synthesis"; the rates of a damped
//! voice as in ymfm (BSD-3-Clause, Aaron Giles).

use super::super::rom::Reader;
use super::envelope::{Envelope, SILENT, Stage, THREE_DB, Volumes, envelope_mask};
use super::sample::{Format, detuned, step};

/// The attenuation from which a voice rings, which is 18 dB.
const RINGS_FROM: i32 = 6 * THREE_DB;

/// The number of frames between two updates of the LFO.
const LFO_FRAMES: u32 = 64;

/// The speeds of the LFO in mHz.
const LFO_MHZ: [u64; 8] = [168, 2019, 3196, 4206, 5215, 5888, 6224, 7066];
/// The depths of the vibrato in thousandths of a cent.
const VIBRATO: [f64; 8] = [0.0, 3.378, 5.065, 6.750, 10.114, 20.170, 40.180, 79.307];
/// The depths of the tremolo in steps: 0, 1.8, 2.9, 3.7, 4.4, 5.9, 7.4 and 11.9 dB.
const TREMOLO: [i32; 8] = [0, 19, 31, 39, 47, 63, 79, 127];

/// A voice.
#[derive(Clone, Copy, Debug, Default)]
pub struct Voice {
    /// The pitch within an octave, 0 to 1023. The step is 1024 plus this number, in 1024ths, before
    /// the octave.
    pub number: u32,
    /// The octave of the pitch, −8 to 7. `rate_octave` is the octave for key scaling of rates.
    pub octave: i32,
    pub rate_octave: i32,
    /// The level in steps of 0.375 dB, 0 to 127. `level_now` moves towards it.
    pub level: u8,
    level_now: i32,
    /// The panning: 0 is the middle, 1 to 7 attenuate the left side more and more, 9 to 15
    /// attenuate the right side less and less, and 8 is silence.
    pub pan: u8,
    /// The LFO speed and the vibrato, as in the header of a sound.
    pub lfo: u8,
    /// The tremolo, as in the header of a sound.
    pub tremolo: u8,
    /// Bytes 8 to A of a sound's header.
    pub rates: [u8; 3],
    /// Whether the voice falls at high fixed rates, even while its key is pressed.
    pub damped: bool,
    /// Whether the voice falls at a slow fixed rate below −18 dB.
    pub rings: bool,
    format: Format,
    start: u32,
    length: u32,
    loop_at: u32,
    at: u32,
    /// The fraction of the position, in 65536ths of a sample.
    fraction: u32,
    samples: [i32; 2],
    envelope: Envelope,
    lfo_phase: u32,
}

impl Voice {
    /// Loads the header of a sound at address `head`.
    ///
    /// `place` converts the start address in the header to an address in the memory.
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

    /// Starts at the beginning of the sound.
    pub fn press(&mut self, rom: Reader<'_>) {
        let at_once = self.rate(self.rates[0] >> 4) == 63;
        self.envelope.press(SILENT, at_once);
        (self.at, self.fraction) = (0, 0);
        self.lfo_phase = 0;
        self.samples = [self.sample(rom, 0), self.sample(rom, 1)];
    }

    /// Enters the release.
    pub fn release(&mut self) {
        self.envelope.release();
    }

    /// Returns whether the voice is audible.
    pub fn is_audible(&self) -> bool {
        self.envelope.is_audible()
    }

    /// Sets the level immediately.
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

    /// Returns a rate with key scaling.
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

    /// Returns the rate of the current stage.
    fn stage_rate(&self) -> u32 {
        match self.envelope.stage {
            Stage::Attack => self.rate(self.rates[0] >> 4),
            Stage::Off => 0,
            _ if self.rings && self.envelope.attenuation >= RINGS_FROM => 5,
            Stage::Decay1 if self.damped => 48,
            Stage::Decay1 => self.rate(self.rates[0] & 15),
            Stage::Decay2 | Stage::Release if self.damped => 63,
            Stage::Decay2 => self.rate(self.rates[1] & 15),
            Stage::Release => self.rate(self.rates[2] & 15),
        }
    }

    /// Advances the envelope at frame `clock`.
    fn advance_envelope(&mut self, clock: u32) {
        let sustained = match i32::from(self.rates[1] >> 4) {
            _ if self.damped => 4,
            15 => 31,
            level => level,
        } * THREE_DB;
        self.envelope.settle(sustained);
        self.envelope.advance(self.stage_rate(), clock, sustained);
    }

    /// Returns a triangle from −1 up to 1 and back, `ahead` of the LFO by a part of its period.
    fn lfo_at(&self, ahead: f64) -> f64 {
        let turn = f64::from(self.lfo_phase) / 4_294_967_296.0 + ahead;
        4.0 * (turn - (turn + 0.5).floor()).abs() - 1.0
    }

    /// Returns the step per frame, in 65536ths of a sample.
    fn step(&self) -> u32 {
        let step = step(self.number, self.octave);
        let vibrato = VIBRATO[usize::from(self.lfo & 7)];
        if vibrato == 0.0 {
            return step;
        }
        detuned(u64::from(step), self.lfo_at(0.25) * vibrato) as u32
    }

    /// Adds frames from frame `clock` on. `rate_hz` is the frame rate.
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
            // The LFO has at most 7 periods per second. Therefore we update it rarely, and always
            // at the same frames.
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
                // The volume is constant for this number of frames.
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

    /// Adds frames of constant volume.
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

    /// Moves the level: down by 0.375 dB in 28 frames, and up in half the time.
    fn move_level(&mut self, clock: u32) {
        let aim = i32::from(self.level) << 2;
        if self.level_now < aim && clock.is_multiple_of(7) {
            self.level_now += 1;
        } else if self.level_now > aim && clock % 7 < 2 {
            self.level_now -= 1;
        }
    }
}

/// All voices of a chip, and the writes that both chips have in common.
#[derive(Clone, Debug)]
pub struct Voices<const N: usize> {
    all: [Voice; N],
    /// The number of each voice's sound, nine bits.
    sounds: [u32; N],
    keys: [bool; N],
    volumes: Volumes,
    clock: u32,
}

impl<const N: usize> Voices<N> {
    /// Creates voices that are silent.
    pub fn new() -> Self {
        Self {
            all: [Voice::default(); N],
            sounds: [0; N],
            keys: [false; N],
            volumes: Volumes::new(),
            clock: 0,
        }
    }

    /// Returns a voice, for writes that only one of the chips has.
    pub fn voice(&mut self, number: usize) -> &mut Voice {
        &mut self.all[number]
    }

    /// Sets the low eight bits of a sound's number and loads the sound.
    ///
    /// `head` returns the address of the header for the number, and `place` converts the start
    /// address. A voice with a pressed key restarts.
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

    /// Sets the high bit of a sound's number, which is the lowest bit of `value`.
    pub fn choose_high(&mut self, number: usize, value: u8) {
        self.sounds[number] = self.sounds[number] & 0xFF | u32::from(value & 1) << 8;
    }

    /// Sets the level from the high seven bits of `value`. If bit 0 is set, it takes effect
    /// immediately.
    pub fn set_level(&mut self, number: usize, value: u8) {
        self.all[number].level = value >> 1;
        if value & 1 != 0 {
            self.all[number].jump_to_level();
        }
    }

    /// Returns whether the key of a voice is pressed.
    pub fn key(&self, number: usize) -> bool {
        self.keys[number]
    }

    /// Presses a key, even if it is already pressed, or releases it.
    pub fn set_key(&mut self, number: usize, key: bool, rom: Reader<'_>) {
        if key {
            self.all[number].press(rom);
        } else {
            self.all[number].release();
        }
        self.keys[number] = key;
    }

    /// Overwrites `out` with the next frames at the rate `rate_hz`. A voice has 16 bits, and the
    /// sum is not limited.
    pub fn render(&mut self, rom: Reader<'_>, rate_hz: u64, out: &mut [[i32; 2]]) {
        out.fill([0; 2]);
        let at = (self.clock, rate_hz);
        for voice in self.all.iter_mut().filter(|voice| voice.is_audible()) {
            voice.add(rom, &self.volumes, at, out);
        }
        self.clock = self.clock.wrapping_add(out.len() as u32);
    }
}

/// Returns the attenuations left and right, in steps.
fn pan(pan: u8) -> [i32; 2] {
    match i32::from(pan & 15) {
        7 => [SILENT, 0],
        8 => [SILENT, SILENT],
        9 => [0, SILENT],
        places @ 0..7 => [places * THREE_DB, 0],
        places => [0, (16 - places) * THREE_DB],
    }
}
