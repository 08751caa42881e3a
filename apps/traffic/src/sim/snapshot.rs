//! Snapshots: the state of a simulation as bytes, which can be resumed on the same network only. We
//! leave the network out, because you can read or generate it again.
//!
//! Layout: 8 bytes of magic and version, the length of the content, the content, and its CRC-32.

use super::detours::Detours;
use super::reroute::Rerouting;
use super::{Rules, Simulation, Tile, slow};
use crate::demand::Plans;
use crate::network::{Ms, Network, Physics, Program};
use creel::Pool;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::io::{self, Read, Write};
use std::sync::Arc;

const MAGIC: &[u8; 8] = b"creeltr7";
/// The length of the magic without the version, which is one digit.
const KIND: usize = 7;
/// The maximum size of a snapshot. A greater length means that the file is damaged.
const BYTES_MAX: u64 = 1 << 36;

/// An error while reading a snapshot.
#[derive(Debug)]
pub enum SnapshotError {
    /// An I/O error.
    Io(io::Error),
    /// The file is not a valid snapshot.
    Malformed(&'static str),
    /// The snapshot has another version of the format, which this program cannot read.
    OtherVersion {
        /// Whether the version is newer.
        newer: bool,
    },
    /// The snapshot was made on another network.
    OtherNetwork,
}

impl fmt::Display for SnapshotError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io(error) => error.fmt(f),
            Self::Malformed(reason) => write!(f, "invalid snapshot: {reason}"),
            Self::OtherVersion { newer } => {
                let age = if *newer { "a newer" } else { "an older" };
                write!(
                    f,
                    "the snapshot was written by {age} version of creel-traffic, whose format this version cannot read: run the simulation again from the beginning"
                )
            }
            Self::OtherNetwork => f.write_str(
                "the snapshot was made on another network: use the same --city or --network flags \
                 as the run that wrote it",
            ),
        }
    }
}

impl std::error::Error for SnapshotError {}

impl From<io::Error> for SnapshotError {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

/// The content of a snapshot: everything that cannot be derived from the network and its division
/// into tiles, which are the parts of the city that are simulated independently for a while.
#[derive(Serialize, Deserialize)]
struct State<P, D, T, L> {
    fingerprint: u64,
    physics: Physics,
    now_ms: Ms,
    rerouting: Option<Rerouting>,
    plans: P,
    detours: D,
    tiles: T,
    programs: L,
}

impl Simulation {
    /// Writes a snapshot. Note that it does not contain the network, so you need the same network
    /// to load it.
    ///
    /// # Errors
    /// Returns the error of the stream or of the encoder.
    pub fn save(&self, mut to: impl Write) -> io::Result<()> {
        let state = State {
            fingerprint: self.fingerprint(),
            physics: self.rules.physics,
            now_ms: self.now_ms,
            rerouting: self.rerouting,
            plans: &*self.rules.plans,
            detours: &self.rules.detours,
            tiles: &self.tiles,
            programs: &*self.rules.programs,
        };
        let bytes = postcard::to_stdvec(&state).map_err(io::Error::other)?;
        to.write_all(MAGIC)?;
        to.write_all(&(bytes.len() as u64).to_le_bytes())?;
        to.write_all(&bytes)?;
        to.write_all(&crc32fast::hash(&bytes).to_le_bytes())
    }

    /// Reads a snapshot that [`save`](Self::save) has written, for the same network. It detects
    /// damaged files, and forged files whose state is not consistent.
    ///
    /// # Errors
    /// Returns an error if the stream fails, or if the bytes are not a valid snapshot of this
    /// network.
    pub fn load(
        loops: &Pool,
        network: Arc<Network>,
        mut from: impl Read,
    ) -> Result<Self, SnapshotError> {
        let mut begin = [0; 16];
        from.read_exact(&mut begin)
            .map_err(|_| SnapshotError::Malformed("the file is too short"))?;
        let (magic, length) = begin.split_at(8);
        if magic != MAGIC {
            let version = magic[KIND];
            return Err(
                if magic[..KIND] == MAGIC[..KIND] && version.is_ascii_digit() {
                    SnapshotError::OtherVersion {
                        newer: version > MAGIC[KIND],
                    }
                } else {
                    SnapshotError::Malformed(
                        "the file does not begin with the signature of snapshots",
                    )
                },
            );
        }
        let length = u64::from_le_bytes(length.try_into().unwrap_or_default());
        if length > BYTES_MAX {
            return Err(SnapshotError::Malformed(
                "the length in the header of the file exceeds the maximum",
            ));
        }
        let mut bytes = Vec::new();
        (&mut from).take(length + 4).read_to_end(&mut bytes)?;
        if bytes.len() as u64 != length + 4 || from.read(&mut [0])? != 0 {
            return Err(SnapshotError::Malformed(
                "the file is cut off, or has extra bytes at the end",
            ));
        }
        let (bytes, sum) = bytes.split_at(length as usize);
        if crc32fast::hash(bytes).to_le_bytes() != sum {
            return Err(SnapshotError::Malformed(
                "the checksum does not match, so the file is damaged",
            ));
        }
        let state: State<Plans, Detours, Vec<Tile>, Vec<Program>> = postcard::from_bytes(bytes)
            .map_err(|_| SnapshotError::Malformed("the content of the file cannot be decoded"))?;
        let mut simulation = Self::new(loops, network, Arc::new(Plans::default()), state.physics)
            .map_err(|_| {
            SnapshotError::Malformed("a parameter of the car model is out of range")
        })?;
        if state.fingerprint != simulation.fingerprint() {
            return Err(SnapshotError::OtherNetwork);
        }
        if !state.plans.fits(&simulation.network, loops) {
            return Err(SnapshotError::Malformed(
                "the plans of the cars do not fit the network",
            ));
        }
        simulation.rules = Rules {
            roads: slow::roads(&simulation.network, &state.plans, &state.physics),
            plans: Arc::new(state.plans),
            detours: state.detours,
            programs: Arc::new(state.programs),
            ..simulation.rules
        };
        simulation.rerouting = state.rerouting;
        simulation.now_ms = state.now_ms;
        let empty = std::mem::replace(&mut simulation.tiles, state.tiles);
        for (tile, empty) in simulation.tiles.iter_mut().zip(&empty) {
            tile.right_of_way = empty.right_of_way.clone();
        }
        if !simulation.is_valid(&empty, loops) {
            return Err(SnapshotError::Malformed(
                "the state of the simulation contradicts itself",
            ));
        }
        for tile in &mut simulation.tiles {
            tile.find_approaching();
        }
        Ok(simulation)
    }

    /// Returns a hash that identifies this network and its partition into tiles.
    fn fingerprint(&self) -> u64 {
        self.network.partition_fingerprint()
    }
}
