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

/// Unpacks `packed` if it is compressed, and returns a plain song unchanged.
///
/// # Errors
///
/// Returns [`Error::NotVgm`] if a container is damaged or ends before the song does, and
/// [`Error::TooLarge`] if the song is larger than [`SONG_BYTES_MAX`].
pub fn unpack(packed: Vec<u8>) -> Result<Vec<u8>> {
    let unpacked = match packed.as_slice() {
        [0x1F, 0x8B, ..] => read_members(&packed)?,
        [b'B', b'Z', b'h', ..] => {
            read_bounded("bzip2", bzip2::bufread::BzDecoder::new(&packed[..]))?
        }
        [0x28, 0xB5, 0x2F, 0xFD, ..] => {
            let decoder = ruzstd::decoding::StreamingDecoder::new(&packed[..])
                .map_err(|error| Error::NotVgm(format!("zstd: {error}")))?;
            read_bounded("zstd", decoder)?
        }
        _ => packed,
    };
    if unpacked.len() > SONG_BYTES_MAX {
        return Err(too_large());
    }
    Ok(unpacked)
}

/// Unpacks the members of a gzip file one after the other.
///
/// Bytes after the last complete member are ignored, because real files contain all kinds of data
/// there.
fn read_members(packed: &[u8]) -> Result<Vec<u8>> {
    let mut decoder = flate2::bufread::GzDecoder::new(packed);
    let mut bytes = read_bounded("gzip", &mut decoder)?;
    loop {
        let rest = decoder.into_inner();
        if !rest.starts_with(&[0x1F, 0x8B]) || bytes.len() > SONG_BYTES_MAX {
            return Ok(bytes);
        }
        decoder = flate2::bufread::GzDecoder::new(rest);
        match read_bounded("gzip", &mut decoder) {
            Ok(member) => bytes.extend(member),
            Err(_) => return Ok(bytes),
        }
    }
}

fn read_bounded(container: &str, decoder: impl Read) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    decoder
        .take(SONG_BYTES_MAX as u64 + 1)
        .read_to_end(&mut bytes)
        .map_err(|error| Error::NotVgm(format!("{container}: {error}")))?;
    Ok(bytes)
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
        [b'B', b'Z', b'h', ..] => bzip2::bufread::BzDecoder::new(packed)
            .take(count)
            .read_to_end(&mut front),
        [0x28, 0xB5, 0x2F, 0xFD, ..] => match ruzstd::decoding::StreamingDecoder::new(packed) {
            Ok(decoder) => decoder.take(count).read_to_end(&mut front),
            Err(_) => Ok(0),
        },
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

#[cfg(test)]
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
        assert_eq!(unpack(two.clone()).unwrap(), b"Vgm song");
        for garbage in [
            &b"junk"[..],
            &[0; 512],
            &[0x1F, 0x8B, 8, 0, 1],
            &gzip(b"x")[..12],
        ] {
            let packed = [&two[..], garbage].concat();
            assert_eq!(unpack(packed).unwrap(), b"Vgm song", "{garbage:?}");
        }
        assert!(unpack(two[..10].to_vec()).is_err());
    }
}
