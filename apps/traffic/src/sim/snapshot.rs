//! A simulation as bytes, to go on later: with the network that it was made on, and only with that.
//!
//! Layout: 8 bytes of magic and version, the length of what follows, that, and its CRC-32.

use super::detours::Detours;
use super::reroute::Rerouting;
use super::{Rules, Simulation, Tile, build};
use crate::demand::Plans;
use crate::network::{Ms, Network, Physics};
use creel::Pool;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::io::{self, Read, Write};
use std::sync::Arc;

const MAGIC: &[u8; 8] = b"creeltr3";
/// All of its versions begin so; a digit follows.
const KIND: usize = 7;
/// No simulation is larger; a length that says so is broken.
const BYTES_MAX: u64 = 1 << 36;

/// Why a snapshot is of no use.
#[derive(Debug)]
pub enum SnapshotError {
    /// The stream's.
    Io(io::Error),
    /// It is no snapshot, or not all of one.
    Malformed(&'static str),
    /// It is one of an older version of the format (or of a newer one), which this one does not read.
    OtherVersion {
        /// Whether it is newer.
        newer: bool,
    },
    /// It was made on other roads.
    OtherNetwork,
}

impl fmt::Display for SnapshotError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io(error) => error.fmt(f),
            Self::Malformed(reason) => write!(f, "no whole snapshot: {reason}"),
            Self::OtherVersion { newer } => {
                let age = if *newer { "a newer" } else { "an older" };
                write!(
                    f,
                    "a snapshot by {age} version of creel-traffic, whose format this one does not read: run it again from its begin"
                )
            }
            Self::OtherNetwork => f.write_str("a snapshot of another network"),
        }
    }
}

impl std::error::Error for SnapshotError {}

impl From<io::Error> for SnapshotError {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

/// What is written: all that the network and its cut into tiles do not tell.
#[derive(Serialize, Deserialize)]
struct State<P, D, T> {
    fingerprint: u64,
    physics: Physics,
    now_ms: Ms,
    rerouting: Option<Rerouting>,
    plans: P,
    detours: D,
    tiles: T,
}

impl Simulation {
    /// Writes all of it.
    ///
    /// # Errors
    /// The stream's.
    pub fn save(&self, mut to: impl Write) -> io::Result<()> {
        let state = State {
            fingerprint: self.fingerprint(),
            physics: self.rules.physics,
            now_ms: self.now_ms,
            rerouting: self.rerouting,
            plans: &*self.rules.plans,
            detours: &self.rules.detours,
            tiles: &self.tiles,
        };
        let bytes = postcard::to_stdvec(&state).map_err(io::Error::other)?;
        to.write_all(MAGIC)?;
        to.write_all(&(bytes.len() as u64).to_le_bytes())?;
        to.write_all(&bytes)?;
        to.write_all(&crc32fast::hash(&bytes).to_le_bytes())
    }

    /// Reads what [`save`](Self::save) wrote, for the same network. What was broken on its way is told,
    /// and what was made up, unless a run could have come to it.
    ///
    /// # Errors
    /// The stream's, and of what is no whole snapshot of this network.
    pub fn load(
        loops: &Pool,
        network: Arc<Network>,
        mut from: impl Read,
    ) -> Result<Self, SnapshotError> {
        let mut begin = [0; 16];
        from.read_exact(&mut begin)
            .map_err(|_| SnapshotError::Malformed("it is too short"))?;
        let (magic, length) = begin.split_at(8);
        if magic != MAGIC {
            let version = magic[KIND];
            return Err(
                if magic[..KIND] == MAGIC[..KIND] && version.is_ascii_digit() {
                    SnapshotError::OtherVersion {
                        newer: version > MAGIC[KIND],
                    }
                } else {
                    SnapshotError::Malformed("it does not begin like one")
                },
            );
        }
        let length = u64::from_le_bytes(length.try_into().unwrap_or_default());
        if length > BYTES_MAX {
            return Err(SnapshotError::Malformed(
                "it says that it is longer than any",
            ));
        }
        let mut bytes = Vec::new();
        (&mut from).take(length + 4).read_to_end(&mut bytes)?;
        if bytes.len() as u64 != length + 4 || from.read(&mut [0])? != 0 {
            return Err(SnapshotError::Malformed("it is cut, or too long"));
        }
        let (bytes, sum) = bytes.split_at(length as usize);
        if crc32fast::hash(bytes).to_le_bytes() != sum {
            return Err(SnapshotError::Malformed("its checksum does not fit"));
        }
        let state: State<Plans, Detours, Vec<Tile>> = postcard::from_bytes(bytes)
            .map_err(|_| SnapshotError::Malformed("a part of it makes no sense"))?;
        let mut simulation = Self::new(loops, network, Arc::new(Plans::default()), state.physics)
            .map_err(|_| SnapshotError::Malformed("its physics make no sense"))?;
        if state.fingerprint != simulation.fingerprint() {
            return Err(SnapshotError::OtherNetwork);
        }
        if !state.plans.fits(&simulation.network, loops) {
            return Err(SnapshotError::Malformed("its plans are not of its network"));
        }
        simulation.rules = Rules {
            plans: Arc::new(state.plans),
            detours: state.detours,
            ..simulation.rules
        };
        simulation.rerouting = state.rerouting;
        simulation.now_ms = state.now_ms;
        let empty = std::mem::replace(&mut simulation.tiles, state.tiles);
        if !simulation.is_valid(&empty, loops) {
            return Err(SnapshotError::Malformed("a part of it makes no sense"));
        }
        Ok(simulation)
    }

    /// What tells this network, cut as it is, from others.
    fn fingerprint(&self) -> u64 {
        build::partition_fingerprint(&self.network)
    }
}
