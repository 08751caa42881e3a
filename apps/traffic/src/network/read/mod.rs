//! Roads from the files that people have.
//!
//! What a file is, its first bytes tell; `.gz` and `.xz` are unpacked first. A reader gives a
//! [`RawNetwork`], and [`Network::new`](super::Network::new) checks it.

mod dimacs;
mod matsim;
mod osm;
mod sumo;
pub mod tntp;
pub(crate) mod xml;

use super::{Mm, RawNetwork};
use creel::Pool;
use std::fmt;
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::FileTypeExt;
use std::path::Path;

/// What is not told by a file.
#[derive(Clone, Copy, Debug)]
pub struct Assumed {
    /// The length of roads, where only their ends are told.
    pub length_mm: Mm,
    /// What DIMACS files count lengths in.
    pub unit_mm: Mm,
    /// Their speed, in millimetres a second.
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

/// Why a file was not read.
#[derive(Debug)]
pub enum ReadError {
    /// The system's.
    Io(io::Error),
    /// Something in it makes no sense; with the line or the place.
    Malformed(String),
    /// It is none of the formats that are read.
    Unknown,
}

impl fmt::Display for ReadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io(error) => error.fmt(f),
            Self::Malformed(reason) => f.write_str(reason),
            Self::Unknown => f.write_str("none of the formats that are read"),
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

/// No file is larger, unpacked.
const BYTES_MAX: u64 = 8 << 30;

/// All of a file or of what comes out of a pipe, unpacked.
///
/// # Errors
/// The system's, of what is packed and broken, and for a device, which need have no end.
pub fn bytes(path: &Path) -> Result<Vec<u8>, ReadError> {
    let mut packed = Vec::new();
    let file = File::open(path)?;
    let kind = file.metadata()?.file_type();
    if kind.is_char_device() || kind.is_block_device() {
        return Err(ReadError::Malformed("it is a device, not a file".into()));
    }
    file.take(BYTES_MAX).read_to_end(&mut packed)?;
    let mut bytes = Vec::new();
    match &packed[..] {
        [0x1F, 0x8B, ..] => flate2::read::MultiGzDecoder::new(&*packed)
            .take(BYTES_MAX)
            .read_to_end(&mut bytes)?,
        [0xFD, b'7', b'z', b'X', b'Z', 0, ..] => lzma_rust2::XzReader::new(&*packed, true)
            .take(BYTES_MAX)
            .read_to_end(&mut bytes)?,
        _ => return Ok(packed),
    };
    if bytes.len() as u64 == BYTES_MAX {
        return Err(ReadError::Malformed(
            "unpacked it is larger than 8 GiB".into(),
        ));
    }
    Ok(bytes)
}

/// Reads a file of roads: a pair list or DIMACS `.gr` (with the `.co` beside it, if there is one),
/// TNTP, SUMO `net.xml`, MATSim `network.xml`, OpenStreetMap `.osm.pbf`.
///
/// # Errors
/// Names the line or the place.
pub fn network(path: &Path, assumed: &Assumed, loops: &Pool) -> Result<RawNetwork, ReadError> {
    let bytes = bytes(path)?;
    if bytes.get(4..14).is_some_and(|begin| {
        begin.ends_with(b"OSMHeader"[..8].as_ref()) || begin.starts_with(b"\x0a\x09OSMHeade")
    }) {
        return osm::read(&bytes, loops);
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

/// The text of the `.co` beside a `.gr`.
fn coordinates(path: &Path) -> Result<Option<String>, ReadError> {
    let name = path
        .file_name()
        .map(|name| name.to_string_lossy().into_owned())
        .unwrap_or_default();
    for name in [
        name.replacen(".gr", ".co", 1),
        name.split(".gr").next().unwrap_or_default().to_owned() + ".co",
    ] {
        let beside = path.with_file_name(&name);
        if name.contains(".co") && beside.is_file() {
            let bytes = bytes(&beside)?;
            let text = String::from_utf8(bytes)
                .map_err(|_| ReadError::Malformed(format!("{name}: is no text")))?;
            return Ok(Some(text));
        }
    }
    Ok(None)
}

/// Metres in millimetres, if a road may be so long.
fn length_mm(metres: f64) -> Option<Mm> {
    let mm = (metres * 1000.0).round();
    (1.0..=1e9).contains(&mm).then_some(mm as Mm)
}

/// An error in a line, counted from 1.
fn at_line(line: usize, reason: impl fmt::Display) -> ReadError {
    ReadError::Malformed(format!("line {}: {reason}", line + 1))
}
