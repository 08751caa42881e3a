//! FM sounds with four operators, for OPM and OPN. The sounds of OPL have two operators and are in
//! `opl.rs`.

use super::score::Role;

/// One of the four operators of a sound.
#[derive(Debug, Clone, Copy)]
pub struct Operator {
    /// The detune (0 to 7) and the multiple (0 to 15).
    pub pitch: (u8, u8),
    /// The total level, from 0 (loudest) to 127 (silent).
    pub level: u8,
    /// The attack, decay, sustain and release rates.
    pub rates: [u8; 4],
    /// The sustain level, from 0 (loudest) to 15 (softest).
    pub sustain: u8,
}

/// A sound of four operators.
#[derive(Debug, Clone, Copy)]
pub struct Patch {
    /// The connection of the operators, from 0 to 7.
    pub algorithm: u8,
    /// The feedback of operator 1, from 0 to 7.
    pub feedback: u8,
    /// The operators in the order 1, 2, 3, 4.
    pub operators: [Operator; 4],
}

const fn op(pitch: (u8, u8), level: u8, rates: [u8; 4], sustain: u8) -> Operator {
    Operator {
        pitch,
        level,
        rates,
        sustain,
    }
}

const REED: Patch = Patch {
    algorithm: 4,
    feedback: 5,
    operators: [
        op((3, 1), 30, [22, 8, 2, 7], 2),
        op((3, 1), 10, [20, 6, 2, 8], 1),
        op((7, 2), 38, [24, 9, 3, 7], 3),
        op((7, 1), 14, [18, 6, 2, 8], 1),
    ],
};

const TINE: Patch = Patch {
    algorithm: 4,
    feedback: 2,
    operators: [
        op((3, 1), 40, [31, 11, 5, 6], 4),
        op((0, 1), 14, [31, 10, 5, 7], 3),
        op((0, 11), 52, [31, 16, 8, 7], 6),
        op((7, 1), 18, [31, 10, 5, 7], 3),
    ],
};

const PLUCK: Patch = Patch {
    algorithm: 5,
    feedback: 4,
    operators: [
        op((0, 1), 32, [31, 14, 6, 7], 4),
        op((3, 1), 20, [31, 13, 7, 8], 4),
        op((0, 2), 26, [31, 15, 8, 8], 5),
        op((7, 4), 34, [31, 16, 9, 8], 6),
    ],
};

const PAD: Patch = Patch {
    algorithm: 6,
    feedback: 3,
    operators: [
        op((3, 1), 42, [12, 5, 0, 5], 1),
        op((0, 1), 24, [12, 4, 0, 5], 1),
        op((7, 2), 34, [11, 4, 0, 5], 1),
        op((3, 1), 28, [13, 4, 0, 5], 1),
    ],
};

const BASS: Patch = Patch {
    algorithm: 2,
    feedback: 6,
    operators: [
        op((0, 1), 34, [31, 12, 4, 8], 4),
        op((0, 3), 44, [31, 15, 6, 8], 6),
        op((0, 1), 30, [31, 12, 5, 8], 4),
        op((0, 1), 6, [31, 9, 4, 9], 2),
    ],
};

/// Returns the sound of a part. Drums have no FM sound.
pub fn patch_of(role: Role) -> &'static Patch {
    match role {
        Role::Lead | Role::Echo => &REED,
        Role::Arpeggio | Role::Drums => &PLUCK,
        Role::Chord(0) => &TINE,
        Role::Chord(_) => &PAD,
        Role::Bass => &BASS,
    }
}

/// Returns whether an operator is a carrier, which is audible itself, and not a modulator.
pub fn is_heard(algorithm: u8, operator: usize) -> bool {
    match algorithm {
        0..=3 => operator == 3,
        4 => operator % 2 == 1,
        5 | 6 => operator > 0,
        _ => true,
    }
}

/// Returns by how many steps of the total level a part plays softer than its patch.
pub fn softer(role: Role) -> u8 {
    match role {
        Role::Lead => 0,
        Role::Echo => 16,
        Role::Arpeggio => 6,
        Role::Chord(_) => 8,
        Role::Bass | Role::Drums => 0,
    }
}
