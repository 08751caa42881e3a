//! FLAC files: blocks of samples as frames (`frame.rs`), what they are, and the tags carried over.
//!
//! Invariant: the bytes depend on the samples alone, not on how they were cut into calls. No more
//! than one block of 4,096 frames waits to be packed.
//!
//! What is only known at the end (the sum by which decoders check, the sizes of frames) stands at a
//! file's beginning, so [`Flac::finish`] gives the beginning once more.
//!
//! Left out on purpose: ways to say a block that take long to find. It packs about as the reference
//! encoder does by default, at about its speed.
//!
//! Source: RFC 9639 (FLAC).

mod bits;
mod frame;
mod predict;
mod rice;

use md5::{Digest, Md5};

use crate::error::{Error, Result};
use crate::format::Gd3;
use crate::mix::{SampleFormat, to_i16, to_int};
use crate::tags;
use frame::Frames;

/// Frames packed at a time.
const BLOCK: usize = 4096;

/// A FLAC file being written.
pub struct Flac {
    frames: Frames,
    /// What it will have in all, where 36 bits hold it.
    total: u64,
    sample_rate: u32,
    bits: u32,
    /// Samples that wait for a block to be whole, both sides in turn.
    waiting: Vec<i32>,
    /// The same as the sum has them that decoders check.
    summed: Vec<u8>,
    sum: Md5,
    blocks: u32,
    /// Bytes of the smallest and of the largest frame.
    sizes: (usize, usize),
}

impl Flac {
    /// A file of so many frames at `sample_rate`.
    ///
    /// # Errors
    ///
    /// [`Error::Unsupported`] for samples of 32 bits or floating point.
    pub fn new(samples: SampleFormat, sample_rate: u32, frames: u64) -> Result<Flac> {
        let bits = match samples {
            SampleFormat::I8 => 8,
            SampleFormat::I16 => 16,
            SampleFormat::I24 => 24,
            SampleFormat::I32 | SampleFormat::F32 => {
                return Err(Error::Unsupported("FLAC of more than 24 bits".into()));
            }
        };
        Ok(Flac {
            frames: Frames::new(bits, sample_rate),
            // Else it is said to be unknown.
            total: if frames >> 36 == 0 { frames } else { 0 },
            sample_rate,
            bits,
            waiting: Vec::with_capacity(2 * BLOCK),
            summed: Vec::new(),
            sum: Md5::new(),
            blocks: 0,
            sizes: (usize::MAX, 0),
        })
    }

    /// What a file begins with: what it is, and its tags.
    pub fn header(&self, tags: &Gd3) -> Vec<u8> {
        let mut header = self.beginning([0; 16]);
        let comments = comments(tags);
        // The last of the blocks of metadata is marked.
        header.push(0x80 | 4);
        header.extend(&(comments.len() as u32).to_be_bytes()[1..]);
        header.extend(comments);
        header
    }

    /// Packs frames behind `bytes`, as far as they fill blocks.
    pub fn push(&mut self, mut frames: &[[f32; 2]], bytes: &mut Vec<u8>) {
        while !frames.is_empty() {
            let room = BLOCK - self.waiting.len() / 2;
            let (now, later) = frames.split_at(room.min(frames.len()));
            let samples = now.as_flattened().iter();
            match self.bits {
                16 => self
                    .waiting
                    .extend(samples.map(|sample| i32::from(to_i16(*sample)))),
                bits => self.waiting.extend(samples.map(|it| to_int(*it, bits))),
            }
            if self.waiting.len() == 2 * BLOCK {
                self.pack(bytes);
            }
            frames = later;
        }
    }

    /// Packs what still waits, and gives what the file's first bytes are now.
    pub fn finish(&mut self, bytes: &mut Vec<u8>) -> Vec<u8> {
        if !self.waiting.is_empty() {
            self.pack(bytes);
        }
        let sum: [u8; 16] = self.sum.finalize_reset().into();
        self.beginning(sum)
    }

    fn pack(&mut self, bytes: &mut Vec<u8>) {
        let samples = self.waiting.iter();
        self.summed.clear();
        match self.bits {
            8 => self.summed.extend(samples.map(|sample| *sample as u8)),
            16 => self
                .summed
                .extend(samples.flat_map(|sample| (*sample as i16).to_le_bytes())),
            _ => self.summed.extend(samples.flat_map(|sample| {
                let [low, middle, high, _] = sample.to_le_bytes();
                [low, middle, high]
            })),
        }
        self.sum.update(&self.summed);
        let frame = self.frames.write(&self.waiting, self.blocks, BLOCK);
        let (least, most) = self.sizes;
        self.sizes = (least.min(frame.len()), most.max(frame.len()));
        bytes.extend(frame);
        self.blocks += 1;
        self.waiting.clear();
    }

    /// The mark of the format and the first block of metadata.
    fn beginning(&self, sum: [u8; 16]) -> Vec<u8> {
        let mut beginning = b"fLaC\0\0\0\x22".to_vec();
        let block = (BLOCK as u16).to_be_bytes();
        beginning.extend([block, block].concat());
        // Not known before there is one.
        let (least, most) = match self.blocks {
            0 => (0, 0),
            _ => self.sizes,
        };
        for size in [least, most] {
            beginning.extend(&(size as u32).to_be_bytes()[1..]);
        }
        let rate = u64::from(self.sample_rate) << 44;
        let said = rate | 1 << 41 | u64::from(self.bits - 1) << 36 | self.total;
        beginning.extend(said.to_be_bytes());
        beginning.extend(sum);
        beginning
    }
}

/// The tags as Vorbis has them: what made the file, a count, and each.
fn comments(tags: &Gd3) -> Vec<u8> {
    let text = |text: &str| [&(text.len() as u32).to_le_bytes(), text.as_bytes()].concat();
    let told = tags::vorbis(tags);
    let mut comments = text("creel-vgm");
    comments.extend((told.len() as u32).to_le_bytes());
    comments.extend(told.iter().flat_map(|comment| text(comment)));
    comments
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A file of noise and tones, pushed in pieces of `step` frames.
    fn file(frames: usize, step: usize) -> Vec<u8> {
        let samples: Vec<[f32; 2]> = (0..frames)
            .map(|at| [(at as f32 * 0.03).sin(), (at * at % 97) as f32 / 200.0])
            .collect();
        let mut flac = Flac::new(SampleFormat::I16, 44_100, frames as u64).unwrap();
        let mut bytes = flac.header(&Gd3 {
            track: "Étude".into(),
            ..Gd3::default()
        });
        for piece in samples.chunks(step) {
            flac.push(piece, &mut bytes);
        }
        let beginning = flac.finish(&mut bytes);
        bytes[..beginning.len()].copy_from_slice(&beginning);
        bytes
    }

    #[test]
    fn the_bytes_do_not_depend_on_the_pieces() {
        for frames in [1, 31, 63, 4096, 4097, 10_000] {
            let whole = file(frames, frames);
            assert_eq!(file(frames, 7), whole);
            assert_eq!(&whole[..4], b"fLaC");
            // The number of frames, in the last 36 bits before the checksum.
            let said = u32::from_be_bytes(whole[22..26].try_into().unwrap());
            assert_eq!(said as usize, frames);
            assert!(whole[26..42].iter().any(|byte| *byte != 0), "no checksum");
            let text = String::from_utf8_lossy(&whole).into_owned();
            assert!(text.contains("TITLE=Étude"));
        }
    }

    /// What a decoder that is not ours makes of a file.
    fn decoded(file: &[u8]) -> Vec<i32> {
        let mut reader = claxon::FlacReader::new(file).unwrap();
        reader.samples().map(|sample| sample.unwrap()).collect()
    }

    #[test]
    fn every_kind_of_sound_comes_back_as_it_was() {
        let noise = |at: usize| (at as u32).wrapping_mul(0x9E37_79B9) as f32 / 2f32.powi(31) - 1.0;
        let sounds: [&dyn Fn(usize) -> [f32; 2]; 8] = [
            &|_| [0.0, 0.5],
            &|at| [(at as f32 * 0.01).sin() * 0.9; 2],
            &|at| [(at as f32 * 0.05).sin(), -(at as f32 * 0.05).sin()],
            &|at| [noise(at), noise(at * at + 1)],
            // As far from what is expected as can be.
            &|at| {
                [
                    if at % 7 < 3 { 1.0 } else { -1.0 },
                    if at == 5000 { 1.0 } else { -1.0 },
                ]
            },
            &|at| {
                [
                    if noise(at) > 0.0 { 1.0 } else { -1.0 },
                    if noise(3 * at) > 0.0 { -1.0 } else { 1.0 },
                ]
            },
            &|at| {
                [
                    (at as f32 * 3.1).sin(),
                    (at as f32 * 0.001).sin() + noise(at) / 1000.0,
                ]
            },
            &|at| [noise(at) / 30_000.0, at as f32 / 10_000.0],
        ];
        for samples in [SampleFormat::I8, SampleFormat::I16, SampleFormat::I24] {
            let bits = 8 * samples.bytes() as u32;
            for (which, sound) in sounds.iter().enumerate() {
                for frames in [1, 15, 32, 40, 4095, 4096, 4097, 10_001] {
                    let sound: Vec<_> = (0..frames).map(sound).collect();
                    let mut flac = Flac::new(samples, 44_100, frames as u64).unwrap();
                    let mut file = flac.header(&Gd3::default());
                    flac.push(&sound, &mut file);
                    flac.finish(&mut file);
                    let expected = sound.as_flattened().iter().map(|it| to_int(*it, bits));
                    assert!(
                        decoded(&file).into_iter().eq(expected),
                        "sound {which}, {bits} bits, {frames} frames"
                    );
                }
            }
        }
    }

    #[test]
    fn what_flac_does_not_hold_is_refused() {
        for samples in [SampleFormat::F32, SampleFormat::I32] {
            assert!(Flac::new(samples, 44_100, 1).is_err());
        }
        assert!(Flac::new(SampleFormat::I24, 192_000, 1).is_ok());
    }
}
