//! The eight waveforms of the OPL3. The OPL2 has the first four, and the OPLL the first two.
//!
//! | | |
//! |---|---|
//! | 0 | sine |
//! | 1 | its positive half, then silence |
//! | 2 | both halves positive |
//! | 3 | only the rising quarters of wave 2 |
//! | 4 | a whole sine in the first half, then silence |
//! | 5 | wave 4, both halves positive |
//! | 6 | square |
//! | 7 | a straight line in the logarithm |
//!
//! Source: YMF262 data sheet; entries as ymfm has them.

use crate::chips::fm::tables::{PERIOD, SIGN, SINE, Waveform};

/// The waveforms by register value.
pub static WAVES: [Waveform; 8] = waves();

const fn waves() -> [Waveform; 8] {
    let mut waves = [[0; PERIOD]; 8];
    let nothing = SINE[0];
    let mut phase = 0;
    while phase < PERIOD {
        let second_half = phase & 0x200 != 0;
        let falling = phase & 0x100 != 0;
        let sine = SINE[phase];
        let level = sine & (SIGN - 1);
        let twice = SINE[(phase * 2) % PERIOD];
        let line = (if second_half {
            PERIOD - 1 - phase
        } else {
            phase
        } << 3) as u16;
        waves[0][phase] = sine;
        waves[1][phase] = if second_half { nothing } else { sine };
        waves[2][phase] = level;
        waves[3][phase] = if falling { nothing } else { level };
        waves[4][phase] = if second_half { nothing } else { twice };
        waves[5][phase] = if second_half {
            nothing
        } else {
            twice & (SIGN - 1)
        };
        waves[6][phase] = if second_half { SIGN } else { 0 };
        waves[7][phase] = if second_half { line | SIGN } else { line };
        phase += 1;
    }
    waves
}
