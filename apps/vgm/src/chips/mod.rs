//! The sound chips, each in a file with its register map on top.

pub mod fm;
pub mod ssg;
pub mod ym2151;

/// How many frames a chip makes a second: its clock divided by a whole number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rate {
    /// The clock in Hz.
    pub clock_hz: u32,
    /// Clocks in a frame.
    pub divider: u32,
}
