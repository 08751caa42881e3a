//! The common parts of chips with samples in a memory: sample formats, steps per pitch, and loops.

/// The format of a sample in the memory.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Format {
    /// A sample has 8 bits.
    #[default]
    Bytes,
    /// A sample has 12 bits. Two samples are in three bytes, and the low bits of both are in the
    /// middle byte.
    Twelve,
    /// A sample has 16 bits, high byte first.
    Words,
}

impl Format {
    /// Returns the sample at position `at` after the address `start` as 16 bits. `byte` reads the
    /// memory.
    #[inline]
    pub fn sample(self, byte: impl Fn(u32) -> u8, start: u32, at: u32) -> i32 {
        let pair = match self {
            Format::Bytes => [byte(start.wrapping_add(at)), 0],
            Format::Twelve => {
                let three = start.wrapping_add((at / 2).wrapping_mul(3));
                let low = byte(three.wrapping_add(1));
                match at & 1 {
                    0 => [byte(three), low & 0xF0],
                    _ => [byte(three.wrapping_add(2)), low << 4],
                }
            }
            Format::Words => {
                let two = start.wrapping_add(at.wrapping_mul(2));
                [byte(two), byte(two.wrapping_add(1))]
            }
        };
        i32::from(i16::from_be_bytes(pair))
    }
}

/// Returns the step per frame in 65536ths of a sample.
///
/// The step is 1 plus `number` 1024ths. At octave 0 it is unchanged.
pub fn step(number: u32, octave: i32) -> u32 {
    let step = (1024 + number) << 6;
    match octave {
        octave if octave >= 0 => step << octave,
        octave => step >> -octave,
    }
}

/// Returns a step that is detuned by `cents`.
pub fn detuned(step: u64, cents: f64) -> u64 {
    (step as f64 * libm::exp2(cents / 1200.0)) as u64
}

/// The behaviour of a position at the end of its sound.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum LoopMode {
    /// The position stays at the end.
    Stop,
    /// The position wraps around to the other end and keeps its excess.
    #[default]
    Forward,
    /// The position turns around and keeps its excess.
    PingPong,
}

impl LoopMode {
    /// Returns the mode for the loop bits of a chip: whether a sound loops, and whether it does so
    /// in both directions.
    #[inline]
    pub fn of(loops: bool, ping_pong: bool) -> LoopMode {
        match (loops, ping_pong) {
            (false, _) => LoopMode::Stop,
            (true, false) => LoopMode::Forward,
            (true, true) => LoopMode::PingPong,
        }
    }

    /// Returns the new position for one that is `over` beyond an end of a sound from `start` to
    /// `end`.
    ///
    /// `backwards` is the direction in which it reached the end. A position that stops stays at
    /// this end.
    #[inline]
    pub fn place(self, [start, end]: [i64; 2], over: i64, backwards: bool) -> i64 {
        match (self, backwards) {
            (LoopMode::Stop, false) => end,
            (LoopMode::Stop, true) => start,
            (LoopMode::Forward, false) | (LoopMode::PingPong, true) => start + over,
            (LoopMode::Forward, true) | (LoopMode::PingPong, false) => end - over,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_decode_in_every_format() {
        let memory = [0x12, 0x34, 0x56, 0x80, 0x00];
        let byte = |at: u32| memory[at as usize];
        let read = |format: Format, at| format.sample(byte, 0, at);
        assert_eq!(read(Format::Bytes, 3), -0x8000);
        assert_eq!([0, 1].map(|at| read(Format::Twelve, at)), [0x1230, 0x5640]);
        assert_eq!(read(Format::Words, 1), 0x5680);
        assert_eq!(Format::Words.sample(byte, 3, 0), -0x8000);
    }

    #[test]
    fn pitch_converts_to_phase_step() {
        assert_eq!(
            [step(0, 0), step(0, -3), step(512, 1)],
            [0x1_0000, 0x2000, 0x3_0000]
        );
        assert_eq!(detuned(0x1_0000, 1200.0), 0x2_0000);
    }

    #[test]
    fn loop_modes_stop_wrap_and_reverse() {
        let place = |turn: LoopMode, backwards| turn.place([100, 200], 7, backwards);
        assert_eq!(
            [false, true].map(|back| place(LoopMode::Stop, back)),
            [200, 100]
        );
        assert_eq!(
            [false, true].map(|back| place(LoopMode::Forward, back)),
            [107, 193]
        );
        assert_eq!(
            [false, true].map(|back| place(LoopMode::PingPong, back)),
            [193, 107]
        );
        assert_eq!(LoopMode::of(false, true), LoopMode::Stop);
    }
}
