//! The built-in demo songs, which our own code composes.
//!
//! We compose a score from a key, chords and two motifs. An orchestra performs the score. An
//! orchestra is one chip, or two, with a voice for each part of the score. `creel-vgm generate`
//! writes the files that the library contains.

mod adpcm;
mod opl;
mod opll;
mod opm;
mod opn;
mod patch;
mod perform;
mod pieces;
mod psg;
mod score;
mod ssg;
mod writer;

use perform::{Orchestra, perform};
use pieces::PIECES;

/// A built-in song, compressed as a .vgz file.
#[derive(Debug, PartialEq, Eq)]
pub struct Carried {
    /// The name without an extension.
    pub name: &'static str,
    /// The bytes of the file.
    pub packed: &'static [u8],
}

/// All built-in songs.
pub const CARRIED: &[Carried] = &[
    Carried {
        name: "ym2151-okim6258",
        packed: include_bytes!("../../songs/ym2151-okim6258.vgz"),
    },
    Carried {
        name: "ym2610",
        packed: include_bytes!("../../songs/ym2610.vgz"),
    },
    Carried {
        name: "ym2612-sn76489",
        packed: include_bytes!("../../songs/ym2612-sn76489.vgz"),
    },
    Carried {
        name: "ym2608",
        packed: include_bytes!("../../songs/ym2608.vgz"),
    },
    Carried {
        name: "ym2203",
        packed: include_bytes!("../../songs/ym2203.vgz"),
    },
    Carried {
        name: "sn76489",
        packed: include_bytes!("../../songs/sn76489.vgz"),
    },
    Carried {
        name: "ay8910",
        packed: include_bytes!("../../songs/ay8910.vgz"),
    },
    Carried {
        name: "ym2413",
        packed: include_bytes!("../../songs/ym2413.vgz"),
    },
    Carried {
        name: "ym3526",
        packed: include_bytes!("../../songs/ym3526.vgz"),
    },
    Carried {
        name: "ym3812",
        packed: include_bytes!("../../songs/ym3812.vgz"),
    },
    Carried {
        name: "y8950",
        packed: include_bytes!("../../songs/y8950.vgz"),
    },
    Carried {
        name: "ymf262",
        packed: include_bytes!("../../songs/ymf262.vgz"),
    },
];

/// A composed song.
#[derive(Debug)]
pub struct Composed {
    /// The name without an extension.
    pub name: &'static str,
    /// The uncompressed song.
    pub bytes: Vec<u8>,
}

impl Composed {
    /// Returns the song compressed with gzip. The bytes are the same each time.
    pub fn packed(&self) -> Vec<u8> {
        use std::io::Write;
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
        encoder
            .write_all(&self.bytes)
            .and_then(|()| encoder.finish())
            .expect("writing to memory does not fail")
    }
}

/// Composes all songs, in the order of [`CARRIED`].
pub fn compose() -> Vec<Composed> {
    let orchestras: [(&'static str, Box<dyn Orchestra>); 12] = [
        ("ym2151-okim6258", Box::new(opm::X68000::new())),
        ("ym2610", Box::new(opn::Opn::ym2610())),
        ("ym2612-sn76489", Box::new(opn::Opn::mega_drive())),
        ("ym2608", Box::new(opn::Opn::ym2608())),
        ("ym2203", Box::new(opn::Opn::ym2203())),
        ("sn76489", Box::new(psg::MasterSystem)),
        ("ay8910", Box::new(ssg::Ay8910)),
        ("ym2413", Box::new(opll::Opll)),
        ("ym3526", Box::new(opl::Opl::ym3526())),
        ("ym3812", Box::new(opl::Opl::ym3812())),
        ("y8950", Box::new(opl::Opl::y8950())),
        ("ymf262", Box::new(opl::Opl::ymf262())),
    ];
    let songs = orchestras.into_iter().zip(&PIECES);
    songs
        .map(|((name, orchestra), piece)| Composed {
            name,
            bytes: perform(piece, orchestra.as_ref()),
        })
        .collect()
}
