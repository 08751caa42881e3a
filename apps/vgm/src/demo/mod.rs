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

/// A song that has just been composed.
#[derive(Debug)]
pub struct Composed {
    /// Its name, without an ending.
    pub name: &'static str,
    /// The song, plain.
    pub bytes: Vec<u8>,
}

impl Composed {
    /// The song packed by gzip, the same bytes each time.
    pub fn packed(&self) -> Vec<u8> {
        use std::io::Write;
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
        encoder
            .write_all(&self.bytes)
            .and_then(|()| encoder.finish())
            .expect("memory takes all that is written to it")
    }
}

/// Composes all songs.
pub fn compose() -> Vec<Composed> {
    Vec::new()
}
