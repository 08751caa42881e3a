//! Bits one behind the other, the highest of each number first, and the sums that guard them.

/// Bits being written.
#[derive(Default)]
pub struct Bits {
    bytes: Vec<u8>,
    /// The lowest `waiting` bits, fewer than 32, are not among the bytes yet.
    word: u64,
    waiting: u32,
}

impl Bits {
    /// Appends the lowest `count` bits of a value that has no more; at most 32.
    #[inline]
    pub fn put(&mut self, value: u32, count: u32) {
        self.word = self.word << count | u64::from(value);
        self.waiting += count;
        if self.waiting >= 32 {
            self.waiting -= 32;
            let whole = (self.word >> self.waiting) as u32;
            self.bytes.extend(whole.to_be_bytes());
        }
    }

    /// Appends a number in two's complement.
    pub fn put_signed(&mut self, value: i32, count: u32) {
        self.put(value as u32 & (u32::MAX >> (32 - count)), count);
    }

    /// Appends so many zeros, a one, and the lowest `count` bits of `low`, fewer than 32.
    #[inline]
    pub fn put_behind_zeros(&mut self, mut zeros: u32, low: u32, count: u32) {
        while zeros + count >= 32 && zeros > 0 {
            let some = zeros.min(32);
            self.put(0, some);
            zeros -= some;
        }
        self.put(1 << count | low, zeros + 1 + count);
    }

    /// Fills the last byte with zeros.
    pub fn align(&mut self) {
        self.put(0, (8 - self.waiting % 8) % 8);
        while self.waiting > 0 {
            self.waiting -= 8;
            self.bytes.push((self.word >> self.waiting) as u8);
        }
    }

    /// The bytes, all of them where the bits are aligned.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Forgets all bits.
    pub fn clear(&mut self) {
        self.bytes.clear();
        (self.word, self.waiting) = (0, 0);
    }
}

/// What eight bits add to a sum of 16 bits or, in its upper half, of 8.
const fn table(polynomial: u16) -> [u16; 256] {
    let mut table = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        let mut sum = (byte as u16) << 8;
        let mut bit = 0;
        while bit < 8 {
            let carry = if sum & 0x8000 != 0 { polynomial } else { 0 };
            sum = sum << 1 ^ carry;
            bit += 1;
        }
        table[byte] = sum;
        byte += 1;
    }
    table
}

static OF_HEADERS: [u16; 256] = table(0x07 << 8);
static OF_FRAMES: [u16; 256] = table(0x8005);

fn sum(table: &[u16; 256], bytes: &[u8]) -> u16 {
    bytes.iter().fold(0, |sum: u16, byte| {
        sum << 8 ^ table[usize::from((sum >> 8) as u8 ^ byte)]
    })
}

/// The sum that ends a frame's header.
pub fn header_sum(bytes: &[u8]) -> u8 {
    (sum(&OF_HEADERS, bytes) >> 8) as u8
}

/// The sum that ends a frame.
pub fn frame_sum(bytes: &[u8]) -> u16 {
    sum(&OF_FRAMES, bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits_lie_as_they_were_put() {
        let mut bits = Bits::default();
        bits.put(0b101, 3);
        bits.put_signed(-1, 2);
        bits.put_behind_zeros(40, 0b1, 2);
        bits.put(u32::MAX, 32);
        bits.align();
        // 101 11, forty zeros, 1 01, 32 ones, zeros.
        let expected = [0xB8, 0, 0, 0, 0, 0x05, 0xFF, 0xFF, 0xFF, 0xFF];
        assert_eq!(bits.bytes(), expected);
        bits.clear();
        bits.put_behind_zeros(1, 0x3FFF_FFFF, 30);
        bits.align();
        assert_eq!(bits.bytes(), [0x7F, 0xFF, 0xFF, 0xFF]);
        bits.clear();
        bits.put_behind_zeros(0, 0, 30);
        bits.align();
        assert_eq!(bits.bytes(), [0x80, 0, 0, 0]);
    }

    #[test]
    fn sums_are_those_of_the_catalogues() {
        // CRC-8 (SMBus) and CRC-16 (UMTS) of the usual digits.
        assert_eq!(header_sum(b"123456789"), 0xF4);
        assert_eq!(frame_sum(b"123456789"), 0xFEE8);
    }
}
