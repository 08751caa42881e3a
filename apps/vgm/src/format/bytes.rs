//! Reads little-endian numbers from a slice of bytes, and never reads outside of it.

/// Returns the byte at `offset`, or 0 if `offset` lies outside the slice.
pub fn u8_at(bytes: &[u8], offset: usize) -> u8 {
    bytes.get(offset).copied().unwrap_or(0)
}

/// Returns the 16-bit word at `offset`, or 0 if any of its bytes lies outside the slice.
pub fn u16_at(bytes: &[u8], offset: usize) -> u16 {
    array_at(bytes, offset).map_or(0, u16::from_le_bytes)
}

/// Returns the 24-bit word at `offset`, or 0 if any of its bytes lies outside the slice.
pub fn u24_at(bytes: &[u8], offset: usize) -> u32 {
    array_at(bytes, offset).map_or(0, |[a, b, c]| u32::from_le_bytes([a, b, c, 0]))
}

/// Returns the 32-bit word at `offset`, or 0 if any of its bytes lies outside the slice.
pub fn u32_at(bytes: &[u8], offset: usize) -> u32 {
    array_at(bytes, offset).map_or(0, u32::from_le_bytes)
}

fn array_at<const N: usize>(bytes: &[u8], offset: usize) -> Option<[u8; N]> {
    let end = offset.checked_add(N)?;
    bytes.get(offset..end)?.try_into().ok()
}
