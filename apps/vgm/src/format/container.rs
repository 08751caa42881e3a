//! The containers of a song: plain, gzip, bzip2 and zstd.
//!
//! We recognise a container by its first bytes and never by the name of the file. Unpacking is
//! bounded, so a small file cannot fill the memory.
//!
//! Source: RFC 1952 (gzip), RFC 8878 (zstd), the bzip2 manual; the first bytes of each.

use std::io::Read;

use crate::error::{Error, Result};

/// The size of the largest decompressed song that is accepted, in bytes.
pub const SONG_BYTES_MAX: usize = 64 << 20;

/// The bytes of a song, unpacked as far as possible.
#[derive(Debug)]
pub struct Unpacked {
    /// The bytes of the song.
    pub bytes: Vec<u8>,
    /// The defect of the container, if it has one. Then, bytes are missing at the end.
    pub defect: Option<String>,
}

/// Unpacks `packed` if it is compressed, and returns a plain song unchanged.
///
/// If a container is damaged or ends early, we return the bytes up to the defect. With zstd, the
/// last bytes before the defect are missing, up to the size of its window, because the decoder
/// holds them back. A song that is smaller than the window is then empty.
///
/// # Errors
///
/// Returns [`Error::NotVgm`] if a damaged container does not have a complete header of a song and
/// a byte after it before its defect, or if bzip2 or zstd needs the feature `formats`. Returns
/// [`Error::TooLarge`] if the song is larger than [`SONG_BYTES_MAX`].
pub fn unpack(packed: Vec<u8>) -> Result<Unpacked> {
    let unpacked = match packed.as_slice() {
        [0x1F, 0x8B, ..] => read_members(&packed)?,
        #[cfg(feature = "formats")]
        [b'B', b'Z', b'h', ..] => {
            read_bounded("bzip2", bzip2::bufread::BzDecoder::new(&packed[..]))?
        }
        #[cfg(feature = "formats")]
        [0x28, 0xB5, 0x2F, 0xFD, ..] => {
            let decoder = ruzstd::decoding::StreamingDecoder::new(&packed[..])
                .map_err(|error| Error::NotVgm(format!("zstd: {error}")))?;
            read_bounded("zstd", decoder)?
        }
        #[cfg(not(feature = "formats"))]
        [b'B', b'Z', b'h', ..] | [0x28, 0xB5, 0x2F, 0xFD, ..] => {
            let reason =
                "bzip2 and zstd need the feature `formats`, without which this program was built";
            return Err(Error::NotVgm(reason.into()));
        }
        _ => Unpacked {
            bytes: packed,
            defect: None,
        },
    };
    if unpacked.bytes.len() > SONG_BYTES_MAX {
        return Err(too_large());
    }
    Ok(unpacked)
}

/// Unpacks the members of a gzip file one after the other.
///
/// Bytes after the last complete member are ignored, because real files contain all kinds of data
/// there.
fn read_members(packed: &[u8]) -> Result<Unpacked> {
    let mut decoder = flate2::bufread::GzDecoder::new(packed);
    let mut first = read_bounded("gzip", &mut decoder)?;
    if first.defect.is_some() {
        return Ok(first);
    }
    loop {
        let rest = decoder.into_inner();
        if !rest.starts_with(&[0x1F, 0x8B]) || first.bytes.len() > SONG_BYTES_MAX {
            return Ok(first);
        }
        decoder = flate2::bufread::GzDecoder::new(rest);
        match read_bounded("gzip", &mut decoder) {
            Ok(member) if member.defect.is_none() => first.bytes.extend(member.bytes),
            _ => return Ok(first),
        }
    }
}

/// The size of the shortest header, in bytes. Without a byte after it, there is nothing to play.
const HEADER_BYTES: usize = 0x40;

fn read_bounded(container: &str, decoder: impl Read) -> Result<Unpacked> {
    let mut bytes = Vec::new();
    let read = decoder
        .take(SONG_BYTES_MAX as u64 + 1)
        .read_to_end(&mut bytes);
    let defect = match read {
        Ok(_) => None,
        Err(error) if bytes.len() > HEADER_BYTES => Some(format!("{container}: {error}")),
        Err(error) => return Err(Error::NotVgm(format!("{container}: {error}"))),
    };
    Ok(Unpacked { bytes, defect })
}

/// Unpacks the beginning of a file and returns at most `count` bytes of the song.
///
/// Returns fewer bytes if `packed` does not contain enough of the file.
pub fn unpack_front(packed: &[u8], count: usize) -> Vec<u8> {
    let mut front = Vec::new();
    let count = count as u64;
    // A damaged container ends the front here. Reading the whole file reports the reason.
    let _ = match packed {
        [0x1F, 0x8B, ..] => flate2::bufread::GzDecoder::new(packed)
            .take(count)
            .read_to_end(&mut front),
        #[cfg(feature = "formats")]
        [b'B', b'Z', b'h', ..] => bzip2::bufread::BzDecoder::new(packed)
            .take(count)
            .read_to_end(&mut front),
        #[cfg(feature = "formats")]
        [0x28, 0xB5, 0x2F, 0xFD, ..] => match ruzstd::decoding::StreamingDecoder::new(packed) {
            Ok(decoder) => decoder.take(count).read_to_end(&mut front),
            Err(_) => Ok(0),
        },
        #[cfg(not(feature = "formats"))]
        [b'B', b'Z', b'h', ..] | [0x28, 0xB5, 0x2F, 0xFD, ..] => Ok(0),
        _ => packed.take(count).read_to_end(&mut front),
    };
    front
}

fn too_large() -> Error {
    Error::TooLarge(format!(
        "the song unpacks to more than {} MiB",
        SONG_BYTES_MAX >> 20
    ))
}

#[cfg(all(test, feature = "formats"))]
mod tests {
    use super::*;
    use std::io::Write;

    fn gzip(bytes: &[u8]) -> Vec<u8> {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        encoder.write_all(bytes).unwrap();
        encoder.finish().unwrap()
    }

    #[test]
    fn gzip_members_are_joined_and_trailing_garbage_ignored() {
        let two = [gzip(b"Vgm "), gzip(b"song")].concat();
        assert_eq!(unpack(two.clone()).unwrap().bytes, b"Vgm song");
        for garbage in [
            &b"junk"[..],
            &[0; 512],
            &[0x1F, 0x8B, 8, 0, 1],
            &gzip(b"x")[..12],
        ] {
            let packed = [&two[..], garbage].concat();
            let unpacked = unpack(packed).unwrap();
            assert_eq!(unpacked.bytes, b"Vgm song", "{garbage:?}");
            assert_eq!(unpacked.defect, None);
        }
        assert!(unpack(two[..10].to_vec()).is_err());
    }

    #[test]
    fn damaged_container_is_unpacked_up_to_its_defect() {
        let mut random = 1u32;
        let song: Vec<u8> = std::iter::repeat_with(|| {
            random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (random >> 24) as u8
        })
        .take(300_000)
        .collect();
        let mut bzip2 = bzip2::write::BzEncoder::new(Vec::new(), bzip2::Compression::fast());
        bzip2.write_all(&song).unwrap();
        for whole in [gzip(&song), bzip2.finish().unwrap()] {
            let name = format!("{:x?}", &whole[..2]);
            let cut = unpack(whole[..whole.len() * 3 / 4].to_vec()).unwrap();
            assert!(cut.defect.is_some(), "{name}");
            assert!(cut.bytes.len() > song.len() / 3, "{name}");
            assert!(song.starts_with(&cut.bytes), "{name}");
        }
        // The checksum of a gzip member comes after all of its bytes.
        let mut wrong = gzip(&song);
        let at = wrong.len() - 8;
        wrong[at] ^= 1;
        let unpacked = unpack(wrong).unwrap();
        assert!(unpacked.bytes == song && unpacked.defect.is_some());
    }
}
