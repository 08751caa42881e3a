//! What chips with sounds in a memory have in common: how a sample lies there, how far a frame moves
//! by a pitch, and how a place goes on at the ends of a sound.

/// How a sample lies in the memory.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Format {
    /// 8 bits.
    #[default]
    Bytes,
    /// 12 bits: two samples in three bytes, the low bits of both in the middle one.
    Twelve,
    /// 16 bits, high byte first.
    Words,
}

impl Format {
    /// A sample as 16 bits, the one `at` places behind the address `start`, of the bytes of a memory.
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

/// How far a frame moves, in 65536ths of a sample: by a number of 1024ths above 1 and an octave, of
/// which 0 leaves it so.
pub fn step(number: u32, octave: i32) -> u32 {
    let step = (1024 + number) << 6;
    match octave {
        octave if octave >= 0 => step << octave,
        octave => step >> -octave,
    }
}

/// A step that is bent by some cents.
pub fn detuned(step: u64, cents: f64) -> u64 {
    (step as f64 * (cents / 1200.0).exp2()) as u64
}

/// Where a place goes on that has come to an end of its sound.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum LoopMode {
    /// Nowhere: it stands.
    Stop,
    /// As far behind the other end as it went beyond this one.
    #[default]
    Forward,
    /// As far before this end as it went beyond it, the other way round.
    PingPong,
}

impl LoopMode {
    /// By the bits that chips have for it: whether a sound loops, and to and fro.
    #[inline]
    pub fn of(loops: bool, to_and_fro: bool) -> LoopMode {
        match (loops, to_and_fro) {
            (false, _) => LoopMode::Stop,
            (true, false) => LoopMode::Forward,
            (true, true) => LoopMode::PingPong,
        }
    }

    /// The place that is `over` beyond an end of a sound from `start` to `end`, which it came to
    /// `backwards`; one that stands is left at that end.
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
