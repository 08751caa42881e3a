//! The registers of the OPL family for random streams.
#![allow(dead_code, reason = "each test uses the chips it compares")]

use super::streams::Group;

const fn group(weight: u32, port: u8, first: u8, last: u8) -> Group {
    Group {
        weight,
        port,
        first,
        last,
    }
}

/// The registers of the YM3526 and YM3812.
pub const OPL: &[Group] = &[
    group(20, 0, 0x20, 0x35),
    group(20, 0, 0x40, 0x55),
    group(20, 0, 0x60, 0x75),
    group(20, 0, 0x80, 0x95),
    group(10, 0, 0xa0, 0xa8),
    group(25, 0, 0xb0, 0xb8),
    group(10, 0, 0xc0, 0xc8),
    group(10, 0, 0xe0, 0xf5),
    group(2, 0, 0xbd, 0xbd),
    group(1, 0, 0x01, 0x08),
    group(3, 0, 0x00, 0xff),
];

/// The registers of the Y8950, which has FM and ADPCM-B.
pub const Y8950: &[Group] = &[
    group(30, 0, 0x20, 0x35),
    group(30, 0, 0x40, 0x55),
    group(30, 0, 0x60, 0x75),
    group(30, 0, 0x80, 0x95),
    group(20, 0, 0xa0, 0xa8),
    group(35, 0, 0xb0, 0xb8),
    group(20, 0, 0xc0, 0xc8),
    group(3, 0, 0xbd, 0xbd),
    group(12, 0, 0x07, 0x07),
    group(20, 0, 0x08, 0x12),
    group(4, 0, 0x00, 0xff),
];

/// The registers of both halves of the YMF262.
pub const OPL3: &[Group] = &[
    group(20, 0, 0x20, 0x35),
    group(20, 0, 0x40, 0x55),
    group(20, 0, 0x60, 0x75),
    group(20, 0, 0x80, 0x95),
    group(10, 0, 0xa0, 0xa8),
    group(25, 0, 0xb0, 0xb8),
    group(10, 0, 0xc0, 0xc8),
    group(10, 0, 0xe0, 0xf5),
    group(2, 0, 0xbd, 0xbd),
    group(1, 0, 0x01, 0x08),
    group(3, 0, 0x00, 0xff),
    group(20, 1, 0x20, 0x35),
    group(20, 1, 0x40, 0x55),
    group(20, 1, 0x60, 0x75),
    group(20, 1, 0x80, 0x95),
    group(10, 1, 0xa0, 0xa8),
    group(25, 1, 0xb0, 0xb8),
    group(10, 1, 0xc0, 0xc8),
    group(10, 1, 0xe0, 0xf5),
    group(3, 1, 0x04, 0x05),
    group(3, 1, 0x00, 0xff),
];

/// The registers of the YM2413.
pub const OPLL: &[Group] = &[
    group(10, 0, 0x00, 0x07),
    group(20, 0, 0x10, 0x18),
    group(30, 0, 0x20, 0x28),
    group(30, 0, 0x30, 0x38),
    group(6, 0, 0x0e, 0x0e),
    group(2, 0, 0x00, 0xff),
];
