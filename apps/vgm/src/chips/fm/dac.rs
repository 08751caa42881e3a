//! The floating-point converters that Yamaha sold for its chips.
//!
//! Source: YM3012 and YM3014 datasheets.

/// Returns the output of a YM3012 or YM3014 for a sum.
///
/// The converter limits the sum to 16 bits. It keeps the ten highest bits, starting at the sign,
/// unless the sum was too large.
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
