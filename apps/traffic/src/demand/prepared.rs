//! Keeps prepared plans in a file, so that another run with the same network and demand does not
//! need to compute their routes.
//!
//! Layout: 8 bytes of magic and version, the length of the content, the content, and its CRC-32.

use super::Plans;
use crate::network::{Names, Network};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::io::{self, Read, Write};

const MAGIC: &[u8; 8] = b"creelpl2";
/// The maximum size of a file. If the file states a greater length, it is damaged.
const BYTES_MAX: u64 = 1 << 36;

/// An error while reading prepared plans.
#[derive(Debug)]
pub enum PreparedError {
    /// An I/O error.
    Io(io::Error),
    /// The file is damaged, or it is not such a file.
    Malformed(&'static str),
    /// The file was written by another version of the program, or for another network or demand.
    Other,
}

impl fmt::Display for PreparedError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io(error) => error.fmt(f),
            Self::Malformed(reason) => write!(f, "invalid prepared plans: {reason}"),
            Self::Other => {
                f.write_str("the file contains plans for another network or another demand")
            }
        }
    }
}

impl std::error::Error for PreparedError {}

impl From<io::Error> for PreparedError {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

#[derive(Serialize, Deserialize)]
struct Content<P, N> {
    network: u64,
    key: u64,
    plans: P,
    names: N,
}

/// Writes plans for a network. `key` identifies the demand, for example a hash of its parameters.
///
/// # Errors
/// Returns the error of the stream.
pub fn write(
    mut to: impl Write,
    network: &Network,
    key: u64,
    plans: &Plans,
    names: &Names,
) -> io::Result<()> {
    let content = Content {
        network: network.partition_fingerprint(),
        key,
        plans,
        names,
    };
    let bytes = postcard::to_stdvec(&content).map_err(io::Error::other)?;
    to.write_all(MAGIC)?;
    to.write_all(&(bytes.len() as u64).to_le_bytes())?;
    to.write_all(&bytes)?;
    to.write_all(&crc32fast::hash(&bytes).to_le_bytes())
}

/// Reads plans that [`write`] has written, with the names of the cars. It detects damaged files. Do
/// not use files from a source that you do not trust, because a forged file can cause a panic.
///
/// # Errors
/// Returns an error if the stream fails, if the file is damaged, or if it is for another network or
/// another `key`.
pub fn read(
    mut from: impl Read,
    network: &Network,
    key: u64,
) -> Result<(Plans, Names), PreparedError> {
    let mut begin = [0; 16];
    from.read_exact(&mut begin)
        .map_err(|_| PreparedError::Malformed("the file is too short"))?;
    let (magic, length) = begin.split_at(8);
    if magic[..7] != MAGIC[..7] {
        return Err(PreparedError::Malformed(
            "the file does not begin with the signature of prepared plans",
        ));
    }
    if magic != MAGIC {
        return Err(PreparedError::Other);
    }
    let length = u64::from_le_bytes(length.try_into().unwrap_or_default());
    if length > BYTES_MAX {
        return Err(PreparedError::Malformed(
            "the length in the header of the file exceeds the maximum",
        ));
    }
    let mut bytes = Vec::new();
    (&mut from).take(length + 4).read_to_end(&mut bytes)?;
    if bytes.len() as u64 != length + 4 || from.read(&mut [0])? != 0 {
        return Err(PreparedError::Malformed(
            "the file is cut off, or has extra bytes at the end",
        ));
    }
    let (bytes, sum) = bytes.split_at(length as usize);
    if crc32fast::hash(bytes).to_le_bytes() != sum {
        return Err(PreparedError::Malformed(
            "the checksum does not match, so the file is damaged",
        ));
    }
    let content: Content<Plans, Names> = postcard::from_bytes(bytes)
        .map_err(|_| PreparedError::Malformed("the content of the file cannot be decoded"))?;
    if (content.network, content.key) != (network.partition_fingerprint(), key) {
        return Err(PreparedError::Other);
    }
    let Content {
        mut plans, names, ..
    } = content;
    // Following all routes takes as long as computing them. Therefore we rely on the checksum and
    // on the hash of the network.
    plans.set_made_for(network);
    Ok((plans, names))
}
