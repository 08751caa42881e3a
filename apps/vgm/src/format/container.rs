//! Containers a song comes in: plain, gzip, bzip2, zstd. Told apart by their first bytes, never by
//! the file's name, and unpacked to a bounded size.
//!
//! Source: RFC 1952 (gzip), RFC 8878 (zstd), the bzip2 manual; the first bytes of each.

use std::io::Read;

use crate::error::{Error, Result};

/// The largest decompressed song accepted, in bytes.
pub const SONG_BYTES_MAX: usize = 64 << 20;

/// Unpacks `packed` if it is compressed; a plain song comes back as it is.
///
/// # Errors
///
/// [`Error::NotVgm`] if a container is cut or damaged before the song's end,
/// [`Error::TooLarge`] beyond [`SONG_BYTES_MAX`].
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

/// The members of a gzip file one after the other; what lies behind the last that is whole, and real
/// files carry all kinds of things there, is ignored.
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

/// The first bytes of a song, `count` at most, of a file's first bytes; fewer if those do not
/// suffice.
pub fn unpack_front(packed: &[u8], count: usize) -> Vec<u8> {
    let mut front = Vec::new();
    let count = count as u64;
    // What cannot be unpacked ends the front; the whole file will tell why.
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
