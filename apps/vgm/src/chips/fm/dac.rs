//! The floating-point converters that Yamaha sold beside its chips.
//!
//! Source: YM3012 and YM3014 datasheets.

/// What a YM3012 or YM3014 makes of a sum: it is limited to 16 bits, of which,
/// unless it was too large, the highest ten from its own sign on are kept.
pub fn through_dac(value: i32) -> i32 {
    let limited = value.clamp(-0x8000, 0x7fff);
    let magnitude = limited ^ limited >> 31;
    let mut lost = magnitude >> 9;
    lost |= lost >> 1;
    lost |= lost >> 2;
    lost |= lost >> 4;
    if value > limited {
        limited
    } else {
        limited & !lost
    }
}
