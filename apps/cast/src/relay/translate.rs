//! Walks through a compound RTCP packet, and lets a translator replace its SSRCs and numbers.
//!
//! Packets keep their contents otherwise, so reports, feedback, extended reports and packets of
//! applications pass a relay that hides its sources. The library `rtcp-types` cannot change
//! packets, and rejects compounds that begin with feedback (RFC 5506), so we patch the bytes
//! ourselves.
//!
//! Source: RFC 3550 section 6, RFC 4585 (feedback), RFC 5104 (FIR, TMMBR, TSTR), RFC 6642 (loss
//! reports of third parties), RFC 6679 (ECN), RFC 8888 (congestion), RFC 3611 and the registry of
//! block types (XR).

/// The packet types of RTCP.
const SR: u8 = 200;
const RR: u8 = 201;
const SDES: u8 = 202;
const BYE: u8 = 203;
const TRANSPORT_FEEDBACK: u8 = 205;
const PAYLOAD_FEEDBACK: u8 = 206;
const XR: u8 = 207;

/// The bit of a header that states padding at the end of the packet.
const PADDING: u8 = 0x20;
/// The number of bytes of a report block.
const BLOCK_BYTES: usize = 24;

/// Replaces SSRCs and the numbers that belong to them. Each method gets the SSRC as it is in the
/// packet. The default changes nothing.
pub(super) trait Translator {
    /// Returns the new SSRC of the packet's sender.
    fn sender(&mut self, ssrc: u32) -> u32 {
        ssrc
    }

    /// Returns the new SSRC of a stream that the packet is about.
    fn media(&mut self, ssrc: u32) -> u32 {
        ssrc
    }

    /// Returns the new timestamp in a sender report of this sender.
    fn timestamp(&mut self, _ssrc: u32, timestamp: u32) -> u32 {
        timestamp
    }

    /// Returns the new sequence number of a packet of a stream that the packet is about.
    fn sequence(&mut self, _ssrc: u32, sequence: u16) -> u16 {
        sequence
    }

    /// Returns the new highest sequence number, with its cycles, of a stream that the packet is
    /// about.
    fn highest_sequence(&mut self, _ssrc: u32, sequence: u32) -> u32 {
        sequence
    }

    /// Returns the CNAME that replaces all items of a source description, or `None` to keep them.
    fn cname(&self) -> Option<&str> {
        None
    }
}

/// Reads and writes fields of one packet.
struct Fields<'a>(&'a mut [u8]);

impl Fields<'_> {
    fn word(&self, at: usize) -> Option<u32> {
        let bytes = self.0.get(at..at + 4)?;
        Some(u32::from_be_bytes(bytes.try_into().ok()?))
    }

    fn half(&self, at: usize) -> Option<u16> {
        let bytes = self.0.get(at..at + 2)?;
        Some(u16::from_be_bytes(bytes.try_into().ok()?))
    }

    /// Replaces a word and returns its former value. Returns `None` if the packet is too short.
    fn replace(&mut self, at: usize, with: impl FnOnce(u32) -> u32) -> Option<u32> {
        let before = self.word(at)?;
        self.0[at..at + 4].copy_from_slice(&with(before).to_be_bytes());
        Some(before)
    }

    fn replace_half(&mut self, at: usize, with: impl FnOnce(u16) -> u16) -> Option<()> {
        let before = self.half(at)?;
        self.0[at..at + 2].copy_from_slice(&with(before).to_be_bytes());
        Some(())
    }
}

/// Appends the translation of a compound packet to `into`. Returns `None` if it is malformed.
pub(super) fn translate(
    datagram: &[u8],
    translator: &mut impl Translator,
    into: &mut Vec<u8>,
) -> Option<()> {
    let mut rest = datagram;
    while !rest.is_empty() {
        let head: &[u8; 4] = rest.first_chunk()?;
        let words = usize::from(u16::from_be_bytes([head[2], head[3]]));
        let (packet, after) = rest.split_at_checked(4 + 4 * words)?;
        rest = after;
        if head[0] >> 6 != 2 {
            return None;
        }
        let begin = into.len();
        if head[1] == SDES && translator.cname().is_some() {
            description(packet, translator, into)?;
            continue;
        }
        if head[1] == BYE && translator.cname().is_some() {
            goodbye(packet, translator, into)?;
            continue;
        }
        into.extend_from_slice(packet);
        let count = usize::from(head[0] & 0x1f);
        patch(head[1], count, Fields(&mut into[begin..]), translator)?;
    }
    Some(())
}

fn patch(
    kind: u8,
    count: usize,
    mut fields: Fields<'_>,
    translator: &mut impl Translator,
) -> Option<()> {
    match kind {
        SR => {
            let sender = fields.replace(4, |ssrc| translator.sender(ssrc))?;
            fields.replace(16, |time| translator.timestamp(sender, time))?;
            blocks(28, count, &mut fields, translator)
        }
        RR => {
            fields.replace(4, |ssrc| translator.sender(ssrc))?;
            blocks(8, count, &mut fields, translator)
        }
        SDES => Some(()),
        BYE => {
            for n in 0..count {
                fields.replace(4 + 4 * n, |ssrc| translator.sender(ssrc))?;
            }
            Some(())
        }
        TRANSPORT_FEEDBACK | PAYLOAD_FEEDBACK => {
            fields.replace(4, |ssrc| translator.sender(ssrc))?;
            feedback(kind, count, &mut fields, translator)
        }
        XR => {
            fields.replace(4, |ssrc| translator.sender(ssrc))?;
            extended(&mut fields, translator)
        }
        // All other types, for example those of applications, begin with the SSRC of their sender.
        _ => {
            if fields.0.len() >= 8 {
                fields.replace(4, |ssrc| translator.sender(ssrc))?;
            }
            Some(())
        }
    }
}

fn blocks(
    first: usize,
    count: usize,
    fields: &mut Fields<'_>,
    translator: &mut impl Translator,
) -> Option<()> {
    for at in (0..count).map(|n| first + n * BLOCK_BYTES) {
        let media = fields.replace(at, |ssrc| translator.media(ssrc))?;
        fields.replace(at + 8, |it| translator.highest_sequence(media, it))?;
        // If the block ends beyond the packet, the packet is malformed.
        fields.word(at + BLOCK_BYTES - 4)?;
    }
    Some(())
}

/// Translates a packet of feedback. Its header states the format of the feedback in the field that
/// is a count in other packets.
fn feedback(
    kind: u8,
    format: usize,
    fields: &mut Fields<'_>,
    translator: &mut impl Translator,
) -> Option<()> {
    if (kind, format) == (TRANSPORT_FEEDBACK, 11) {
        return congestion(fields, translator);
    }
    // Some formats of feedback name the streams in their entries, and have zero in place of this
    // SSRC.
    let media = fields.word(8)?;
    if media != 0 {
        fields.replace(8, |ssrc| translator.media(ssrc))?;
    }
    let len = fields.0.len();
    match (kind, format) {
        // The entries list missing packets. An entry has a sequence number, and a bit mask for the
        // packets after it.
        (TRANSPORT_FEEDBACK, 1 | 7) => {
            for at in (12..len).step_by(4) {
                fields.replace_half(at, |number| translator.sequence(media, number))?;
            }
        }
        // The entries are bit rates, requests for a key frame, or trade-offs. An entry has eight
        // bytes and begins with the SSRC of its stream.
        (TRANSPORT_FEEDBACK, 3 | 4) | (PAYLOAD_FEEDBACK, 4..=6) => {
            for at in (12..len).step_by(8) {
                fields.replace(at, |ssrc| translator.media(ssrc))?;
            }
        }
        // The feedback counts congestion marks up to the packet with this number.
        (TRANSPORT_FEEDBACK, 8) => {
            fields.replace(12, |it| translator.highest_sequence(media, it))?;
        }
        // This is an estimate of the bandwidth (REMB). The SSRCs of its streams follow.
        (PAYLOAD_FEEDBACK, 15) if fields.0.get(12..16) == Some(b"REMB") => {
            let streams = usize::from(*fields.0.get(16)?);
            for n in 0..streams {
                fields.replace(20 + 4 * n, |ssrc| translator.media(ssrc))?;
            }
        }
        _ => {}
    }
    Some(())
}

/// Translates the arrival times of several streams. Each stream has its SSRC, its first sequence
/// number, and two bytes per packet, up to a whole word. The packet ends with its own time.
fn congestion(fields: &mut Fields<'_>, translator: &mut impl Translator) -> Option<()> {
    let mut at = 8;
    while at + 12 <= fields.0.len() {
        let media = fields.replace(at, |ssrc| translator.media(ssrc))?;
        fields.replace_half(at + 4, |it| translator.sequence(media, it))?;
        let packets = usize::from(fields.half(at + 6)?);
        at += 8 + (2 * packets).next_multiple_of(4);
    }
    Some(())
}

/// Translates the blocks of an extended report.
fn extended(fields: &mut Fields<'_>, translator: &mut impl Translator) -> Option<()> {
    let mut at = 8;
    while at < fields.0.len() {
        let kind = fields.0[at];
        let end = at + 4 + 4 * usize::from(fields.half(at + 2)?);
        if end > fields.0.len() {
            return None;
        }
        match kind {
            // These blocks are about a range of packets: which of them were lost, duplicate,
            // received or discarded, or a summary of them.
            1 | 2 | 3 | 6 | 10 | 25 => {
                let media = fields.replace(at + 4, |ssrc| translator.media(ssrc))?;
                for number in [at + 8, at + 10] {
                    fields.replace_half(number, |it| translator.sequence(media, it))?;
                }
            }
            // The block has the delays since the last reports of several receivers.
            5 => {
                for part in (at + 4..end).step_by(12) {
                    fields.replace(part, |ssrc| translator.media(ssrc))?;
                }
            }
            // The block says to which packets the other blocks about a stream apply.
            14 => {
                let media = fields.replace(at + 4, |ssrc| translator.media(ssrc))?;
                fields.replace_half(at + 10, |it| translator.sequence(media, it))?;
                for number in [at + 12, at + 16] {
                    fields.replace(number, |it| translator.highest_sequence(media, it))?;
                }
            }
            // The block has only a time, and no SSRC.
            4 => {}
            // The quality of a call, and all newer blocks, begin with the stream that they are
            // about.
            _ if end >= at + 8 => {
                fields.replace(at + 4, |ssrc| translator.media(ssrc))?;
            }
            _ => {}
        }
        at = end;
    }
    Some(())
}

/// Appends a BYE without its reason, which is a text of the source, and without padding.
fn goodbye(packet: &[u8], translator: &mut impl Translator, into: &mut Vec<u8>) -> Option<()> {
    let count = packet[0] & 0x1f;
    into.extend([packet[0] & !PADDING, BYE, 0, count]);
    let (sources, _reason) = packet[4..].as_chunks::<4>();
    for source in sources.get(..count.into())? {
        let ssrc = translator.sender(u32::from_be_bytes(*source));
        into.extend(ssrc.to_be_bytes());
    }
    Some(())
}

/// Appends a source description that has only our CNAME for each source, without padding.
fn description(packet: &[u8], translator: &mut impl Translator, into: &mut Vec<u8>) -> Option<()> {
    let begin = into.len();
    into.extend_from_slice(packet.get(..4)?);
    into[begin] &= !PADDING;
    let mut rest = &packet[4..];
    for _ in 0..packet[0] & 0x1f {
        let (ssrc, mut items) = rest.split_first_chunk::<4>()?;
        while items.first().is_some_and(|&kind| kind != 0) {
            let length = usize::from(*items.get(1)?);
            items = items.get(2 + length..)?;
        }
        let ssrc = translator.sender(u32::from_be_bytes(*ssrc));
        let cname = translator.cname().unwrap_or_default();
        into.extend(ssrc.to_be_bytes());
        into.extend([1, cname.len() as u8]);
        into.extend_from_slice(cname.as_bytes());
        // At least one zero ends the items, and further ones fill the word.
        let end = into.len() + 4 - into.len() % 4;
        debug_assert_eq!(begin % 4, 0);
        into.resize(end, 0);
        // The items of the original packet also end with zeros that fill a word.
        let offset = packet.len() - items.len();
        rest = packet.get((offset / 4 + 1) * 4..)?;
    }
    let words = (into.len() - begin) / 4 - 1;
    into[begin + 2..begin + 4].copy_from_slice(&(words as u16).to_be_bytes());
    Some(())
}
