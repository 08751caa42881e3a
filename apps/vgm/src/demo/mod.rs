//! The project's own music: written by code, carried in the library.

/// A song that the library carries, packed as a .vgz.
#[derive(Debug, PartialEq, Eq)]
pub struct Carried {
    /// Its name, without an ending.
    pub name: &'static str,
    /// The file.
    pub packed: &'static [u8],
}

/// All songs that the library carries.
pub const CARRIED: &[Carried] = &[];
