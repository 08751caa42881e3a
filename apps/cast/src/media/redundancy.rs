//! Redundant packets: a payload that repeats the payloads of earlier packets, so that a lost packet
//! does no harm. Telephones send keys in this way.
//!
//! Left out: sound from redundant blocks. We only read the newest block of sound.
//!
//! Source: RFC 2198 section 3.

/// A payload within a redundant packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Block<'a> {
    pub(crate) payload_type: u8,
    /// How many ticks the block is older than the packet.
    pub(crate) age: u32,
    pub(crate) payload: &'a [u8],
}

/// Returns the newest block of a redundant packet, and passes all older ones to `each`. Returns
/// `None` if the packet is malformed.
pub(crate) fn split<'a>(packet: &'a [u8], mut each: impl FnMut(Block<'a>)) -> Option<Block<'a>> {
    let mut headers = packet;
    let mut older = 0;
    while headers.first()? & 0x80 != 0 {
        headers = headers.get(4..)?;
        older += 1;
    }
    let (&payload_type, mut payloads) = headers.split_first()?;
    let (heads, _) = packet.as_chunks::<4>();
    for head in &heads[..older] {
        let fields = u32::from_be_bytes(*head);
        let (payload, rest) = payloads.split_at_checked((fields & 0x3ff) as usize)?;
        payloads = rest;
        each(Block {
            payload_type: head[0] & 0x7f,
            age: fields >> 10 & 0x3fff,
            payload,
        });
    }
    Some(Block {
        payload_type,
        age: 0,
        payload: payloads,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_split_and_malformed_packets_are_rejected() {
        // Two older blocks of 4 and 2 bytes, 1,600 and 160 ticks ago.
        let heads = [0xe5_u32 << 24 | 1_600 << 10 | 4, 0x80 << 24 | 160 << 10 | 2];
        let mut packet: Vec<u8> = heads.iter().flat_map(|it| it.to_be_bytes()).collect();
        packet.extend([0x65, 1, 2, 3, 4, 5, 6, 7, 8, 9]);
        let mut older = Vec::new();
        let newest = split(&packet, |block| older.push(block)).unwrap();
        let block = |payload_type, age, payload| Block {
            payload_type,
            age,
            payload,
        };
        assert_eq!(newest, block(101, 0, &[7, 8, 9]));
        let expected = [block(101, 1_600, &[1, 2, 3, 4]), block(0, 160, &[5, 6])];
        assert_eq!(older, expected);
        for len in 0..15 {
            assert_eq!(split(&packet[..len], |_| ()), None, "{len}");
        }
        assert_eq!(split(&[0xff; 40], |_| ()), None);
    }
}
