//! FM sounds: four operators for OPM and OPN, two for OPL.

use super::score::Role;

/// One operator of four.
#[derive(Debug, Clone, Copy)]
pub struct Operator {
    /// Detune, 0 to 7, and multiple, 0 to 15.
    pub pitch: (u8, u8),
    /// Total level: 0 is loudest, 127 silent.
    pub level: u8,
    /// Attack, decay, sustain rate, release.
    pub rates: [u8; 4],
    /// Sustain level: 0 is loudest, 15 softest.
    pub sustain: u8,
}

/// A sound of four operators, in the order 1, 2, 3, 4.
#[derive(Debug, Clone, Copy)]
pub struct Patch {
    /// How they are connected, 0 to 7.
    pub algorithm: u8,
    /// How far operator 1 feeds itself, 0 to 7.
    pub feedback: u8,
    /// The operators.
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

/// The sound of a part; drums have none.
pub fn patch_of(role: Role) -> &'static Patch {
    match role {
        Role::Lead | Role::Echo => &REED,
        Role::Arpeggio | Role::Drums => &PLUCK,
        Role::Chord(0) => &TINE,
        Role::Chord(_) => &PAD,
        Role::Bass => &BASS,
    }
}

/// Whether an operator is heard itself rather than bending another.
pub fn is_heard(algorithm: u8, operator: usize) -> bool {
    match algorithm {
        0..=3 => operator == 3,
        4 => operator % 2 == 1,
        5 | 6 => operator > 0,
        _ => true,
    }
}

/// How much softer a part plays than its patch, in steps of total level.
pub fn softer(role: Role) -> u8 {
    match role {
        Role::Lead => 0,
        Role::Echo => 16,
        Role::Arpeggio => 6,
        Role::Chord(_) => 8,
        Role::Bass | Role::Drums => 0,
    }
}
