//! Reads road networks from common file formats.
//!
//! The content of a file determines its format, and `.gz` and `.xz` files are decompressed first. A
//! reader returns a [`RawNetwork`], which [`Network::new`](super::Network::new) then checks.

mod dimacs;
mod lights;
mod matsim;
#[cfg(feature = "formats")]
mod osm;
#[cfg(feature = "formats")]
mod osm_tags;
mod right_of_way;
mod sumo;
mod sumo_attributes;
pub mod tntp;
mod unused;
pub(crate) mod xml;

pub use unused::Unused;

use super::{Mm, RawNetwork};
use creel::Pool;
use std::fmt;
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

/// The values that we assume if a file does not contain them. For example, change them if your file
/// uses another unit.
#[derive(Clone, Copy, Debug)]
pub struct Assumed {
    /// The length of all roads, if the file contains only their ends.
    pub length_mm: Mm,
    /// The unit of lengths in DIMACS files.
    pub unit_mm: Mm,
    /// The speed in millimetres per second, if the file contains no speeds.
    pub speed_mm_s: u32,
}

impl Default for Assumed {
    fn default() -> Self {
        Self {
            length_mm: 200_000,
            unit_mm: 100,
            speed_mm_s: 13_889,
        }
    }
}

/// An error while reading a file.
#[derive(Debug)]
pub enum ReadError {
    /// An I/O error.
    Io(io::Error),
    /// Invalid content. The message contains the line or position.
    Malformed(String),
    /// An unknown file format.
    Unknown,
}

impl fmt::Display for ReadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io(error) => error.fmt(f),
            Self::Malformed(reason) => f.write_str(reason),
            Self::Unknown => {
                f.write_str("unknown file format (see --help for the formats that can be read)")
            }
        }
    }
}

impl std::error::Error for ReadError {}

impl From<io::Error> for ReadError {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::InvalidData
            | io::ErrorKind::UnexpectedEof
            | io::ErrorKind::InvalidInput => Self::Malformed(error.to_string()),
            _ => Self::Io(error),
        }
    }
}

impl From<super::NetworkError> for ReadError {
    fn from(error: super::NetworkError) -> Self {
        Self::Malformed(error.0)
    }
}

/// The maximum size of a file after decompression. The limit protects the memory from a file that
/// is not what it seems to be.
const BYTES_MAX: u64 = 8 << 30;

#[cfg(unix)]
fn is_device(of: &std::fs::Metadata) -> bool {
    use std::os::unix::fs::FileTypeExt;
    of.file_type().is_char_device() || of.file_type().is_block_device()
}

/// Returns false, because on this system a device cannot be opened by a path like a file.
#[cfg(not(unix))]
fn is_device(_: &std::fs::Metadata) -> bool {
    false
}

/// Reads a whole file or pipe and decompresses it.
///
/// # Errors
/// Returns I/O errors and errors in compressed data. Also returns an error for a device, because a
/// device may have no end.
pub fn bytes(path: &Path) -> Result<Vec<u8>, ReadError> {
    let mut packed = Vec::new();
    let file = File::open(path)?;
    if is_device(&file.metadata()?) {
        return Err(ReadError::Malformed(
            "this path is a device, but must be a file or a pipe".into(),
        ));
    }
    file.take(BYTES_MAX).read_to_end(&mut packed)?;
    if packed.len() as u64 == BYTES_MAX {
        return Err(ReadError::Malformed(
            "it is larger than 8 GiB, which is the maximum".into(),
        ));
    }
    let mut bytes = Vec::new();
    match &packed[..] {
        [0x1F, 0x8B, ..] => flate2::read::MultiGzDecoder::new(&*packed)
            .take(BYTES_MAX)
            .read_to_end(&mut bytes)?,
        #[cfg(feature = "formats")]
        [0xFD, b'7', b'z', b'X', b'Z', 0, ..] => lzma_rust2::XzReader::new(&*packed, true)
            .take(BYTES_MAX)
            .read_to_end(&mut bytes)?,
        #[cfg(not(feature = "formats"))]
        [0xFD, b'7', b'z', b'X', b'Z', 0, ..] => {
            return Err(needs_formats("files compressed with xz"));
        }
        _ => return Ok(packed),
    };
    if bytes.len() as u64 == BYTES_MAX {
        return Err(ReadError::Malformed(
            "the decompressed file is larger than 8 GiB, which is the maximum".into(),
        ));
    }
    Ok(bytes)
}

/// Returns the error for a format that this program was built without.
#[cfg(not(feature = "formats"))]
fn needs_formats(files: &str) -> ReadError {
    ReadError::Malformed(format!(
        "{files} need the feature `formats`, without which this program was built"
    ))
}

/// Reads a road network from a pair list, DIMACS `.gr` (with coordinates from a `.co` file in the
/// same folder), TNTP, SUMO `net.xml`, MATSim `network.xml` or OpenStreetMap `.osm.pbf`. You do not
/// name the format, because the content determines it.
///
/// # Errors
/// Returns an error with the line or position in the file.
pub fn network(path: &Path, assumed: &Assumed, loops: &Pool) -> Result<RawNetwork, ReadError> {
    let bytes = bytes(path)?;
    if bytes.get(4..14).is_some_and(|begin| {
        begin.ends_with(b"OSMHeader"[..8].as_ref()) || begin.starts_with(b"\x0a\x09OSMHeade")
    }) {
        #[cfg(feature = "formats")]
        return osm::read(&bytes, loops);
        #[cfg(not(feature = "formats"))]
        let _ = loops;
        #[cfg(not(feature = "formats"))]
        return Err(needs_formats("files of OpenStreetMap"));
    }
    let text = std::str::from_utf8(&bytes).map_err(|_| ReadError::Unknown)?;
    let begin: String = text.chars().take(4096).collect();
    if begin.trim_start().starts_with('<') {
        return match () {
            () if text.contains("<NUMBER OF NODES>") => Ok(tntp::Tntp::parse(text)?.raw(assumed)),
            () if text.contains("<network") => matsim::read(text),
            () if text.contains("<net") => sumo::read(text),
            () => Err(ReadError::Unknown),
        };
    }
    if begin.contains("<NUMBER OF NODES>") || begin.contains("<NUMBER OF LINKS>") {
        return Ok(tntp::Tntp::parse(text)?.raw(assumed));
    }
    let problem = text.lines().find(|line| line.starts_with("p "));
    match problem {
        Some(_) => dimacs::read(text, assumed, coordinates(path)?.as_deref()),
        None => Err(ReadError::Unknown),
    }
}

/// Returns the text of the `.co` file that belongs to a `.gr` file, if it exists.
fn coordinates(path: &Path) -> Result<Option<String>, ReadError> {
    let name = path
        .file_name()
        .map(|name| name.to_string_lossy().into_owned())
        .unwrap_or_default();
    for name in [
        name.replacen(".gr", ".co", 1),
        name.split(".gr").next().unwrap_or_default().to_owned() + ".co",
    ] {
        let neighbour = path.with_file_name(&name);
        if name.contains(".co") && neighbour.is_file() {
            let bytes = bytes(&neighbour)?;
            let text = String::from_utf8(bytes)
                .map_err(|_| ReadError::Malformed(format!("{name} is not a text file")))?;
            return Ok(Some(text));
        }
    }
    Ok(None)
}

/// Converts a length to millimetres, or returns `None` if it is out of range for a road.
fn length_mm(metres: f64) -> Option<Mm> {
    let mm = (metres * 1000.0).round();
    (1.0..=1e9).contains(&mm).then_some(mm as Mm)
}

/// Returns an error at a line. Messages count lines from 1.
fn at_line(line: usize, reason: impl fmt::Display) -> ReadError {
    ReadError::Malformed(format!("line {}: {reason}", line + 1))
}
