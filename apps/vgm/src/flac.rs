//! FLAC files. A library compresses the frames, and we write the metadata and the tags.
//!
//! Invariant: the bytes depend only on the samples, and not on how the caller divides them into
//! calls. At most one block of 4,096 frames waits to be compressed.
//!
//! The beginning of a file has a checksum of all samples, which we know only at the end. Therefore,
//! [`Flac::finish`] returns the beginning again.
//!
//! Source: RFC 9639 (FLAC).

use flacenc::bitsink::ByteSink;
use flacenc::component::{BitRepr, StreamInfo};
use flacenc::config::Encoder;
use flacenc::error::{Verified, Verify};
use flacenc::source::{Context, Fill, FrameBuf};

use crate::error::{Error, Result};
use crate::mix::{SampleFormat, to_i16, to_int};
use crate::tags::{self, FileTags};

/// The number of frames per block.
const BLOCK: usize = 4096;
/// The highest sample rate that the library supports.
const RATE_MAX: u32 = 96_000;

/// A FLAC file being written.
pub struct Flac {
    config: Verified<Encoder>,
    info: StreamInfo,
    /// The state of the library. It counts the samples and computes their checksum.
    context: Context,
    frames: FrameBuf,
    /// Samples that wait until a block is full, left and right interleaved.
    waiting: Vec<i32>,
    blocks: usize,
    bits: u32,
}

impl Flac {
    /// Starts a file of `frames` frames at `sample_rate`.
    ///
    /// # Errors
    ///
    /// Returns [`Error::Unsupported`] for samples of 32 bits or floating point, and above 96 kHz.
    pub fn new(samples: SampleFormat, sample_rate: u32, frames: u64) -> Result<Flac> {
        let bits = match samples {
            SampleFormat::I8 => 8,
            SampleFormat::I16 => 16,
            SampleFormat::I24 => 24,
            SampleFormat::I32 | SampleFormat::F32 => {
                return Err(Error::Unsupported("FLAC with more than 24 bits".into()));
            }
        };
        if sample_rate > RATE_MAX {
            let reason = format!("FLAC with {sample_rate} Hz (the maximum is {RATE_MAX} Hz)");
            return Err(Error::Unsupported(reason));
        }
        let unusual = |error: flacenc::error::VerifyError| Error::Unsupported(error.to_string());
        let mut info = StreamInfo::new(sample_rate as usize, 2, bits as usize).map_err(unusual)?;
        info.set_block_sizes(BLOCK, BLOCK).map_err(unusual)?;
        info.set_frame_sizes(0, 0).map_err(unusual)?;
        // The field has 36 bits. 0 stands for an unknown or larger number.
        let total = usize::try_from(frames).ok().filter(|_| frames >> 36 == 0);
        info.set_total_samples(total.unwrap_or(0));
        let mut config = Encoder::default();
        // Linear prediction would take four times as long, and make files only up to 3 % smaller.
        config.subframe_coding.use_lpc = false;
        let config = config.into_verified();
        Ok(Flac {
            config: config.map_err(|(_, error)| unusual(error))?,
            info,
            context: Context::new(bits as usize, 2),
            frames: FrameBuf::with_size(2, BLOCK).map_err(unusual)?,
            waiting: Vec::with_capacity(2 * BLOCK),
            blocks: 0,
            bits,
        })
    }

    /// Returns the header of the file, with its format and tags.
    pub fn header(&self, tags: &FileTags) -> Vec<u8> {
        let mut header = self.beginning();
        let comments = comments(tags);
        // 0x80 marks the last metadata block, and 4 is the type of Vorbis comments.
        header.push(0x80 | 4);
        header.extend(&(comments.len() as u32).to_be_bytes()[1..]);
        header.extend(comments);
        header
    }

    /// Adds frames, and appends the blocks that are full to `bytes`.
    pub fn push(&mut self, mut frames: &[[f32; 2]], bytes: &mut Vec<u8>) {
        while !frames.is_empty() {
            let room = BLOCK - self.waiting.len() / 2;
            let (now, later) = frames.split_at(room.min(frames.len()));
            let samples = now.as_flattened().iter();
            match self.bits {
                16 => self
                    .waiting
                    .extend(samples.map(|it| i32::from(to_i16(*it)))),
                bits => self.waiting.extend(samples.map(|it| to_int(*it, bits))),
            }
            if self.waiting.len() == 2 * BLOCK {
                self.pack(bytes);
            }
            frames = later;
        }
    }

    /// Compresses the remaining frames. Returns the bytes that must replace the beginning of the
    /// file.
    pub fn finish(&mut self, bytes: &mut Vec<u8>) -> Vec<u8> {
        if !self.waiting.is_empty() {
            self.pack(bytes);
        }
        self.info.set_md5_digest(&self.context.md5_digest());
        self.beginning()
    }

    fn pack(&mut self, bytes: &mut Vec<u8>) {
        let sane = "a block of two channels with samples in range can always be encoded";
        self.frames.fill_interleaved(&self.waiting).expect(sane);
        self.context.fill_interleaved(&self.waiting).expect(sane);
        let (config, info) = (&self.config, &self.info);
        let frame = flacenc::encode_fixed_size_frame(config, &self.frames, self.blocks, info);
        let mut sink = ByteSink::new();
        frame.expect(sane).write(&mut sink).expect(sane);
        bytes.extend(sink.as_slice());
        self.blocks += 1;
        self.waiting.clear();
    }

    /// Returns the magic bytes of the format and the first metadata block.
    fn beginning(&self) -> Vec<u8> {
        let mut sink = ByteSink::new();
        self.info
            .write(&mut sink)
            .expect("writing to memory does not fail");
        let info = sink.as_slice();
        let length = (info.len() as u32).to_be_bytes();
        [&b"fLaC\0"[..], &length[1..], info].concat()
    }
}

/// Returns the block of Vorbis comments: the name of the program, the number of comments, and the
/// comments.
fn comments(tags: &FileTags) -> Vec<u8> {
    let text = |text: &str| [&(text.len() as u32).to_le_bytes(), text.as_bytes()].concat();
    let fields = tags::vorbis(tags);
    let mut comments = text("creel-vgm");
    comments.extend((fields.len() as u32).to_le_bytes());
    comments.extend(fields.iter().flat_map(|comment| text(comment)));
    comments
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::Gd3;

    /// Creates a file of noise and tones that is pushed in pieces of `step` frames.
    fn file(frames: usize, step: usize) -> Vec<u8> {
        let samples: Vec<[f32; 2]> = (0..frames)
            .map(|at| [(at as f32 * 0.03).sin(), (at * at % 97) as f32 / 200.0])
            .collect();
        let mut flac = Flac::new(SampleFormat::I16, 44_100, frames as u64).unwrap();
        let names = Gd3 {
            track: "Étude".into(),
            ..Gd3::default()
        };
        let mut bytes = flac.header(&names.into());
        for piece in samples.chunks(step) {
            flac.push(piece, &mut bytes);
        }
        let beginning = flac.finish(&mut bytes);
        bytes[..beginning.len()].copy_from_slice(&beginning);
        bytes
    }

    #[test]
    fn flac_bytes_are_independent_of_push_sizes() {
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

    /// Decodes a file with another library.
    fn decoded(file: &[u8]) -> Vec<i32> {
        let mut reader = claxon::FlacReader::new(file).unwrap();
        reader.samples().map(|sample| sample.unwrap()).collect()
    }

    #[test]
    fn flac_round_trip_is_lossless() {
        let noise = |at: usize| (at as u32).wrapping_mul(0x9E37_79B9) as f32 / 2f32.powi(31) - 1.0;
        let square = |up: bool| if up { 1.0 } else { -1.0 };
        let sounds: [&dyn Fn(usize) -> [f32; 2]; 7] = [
            &|_| [0.0, 0.5],
            &|at| [(at as f32 * 0.01).sin() * 0.9; 2],
            &|at| [noise(at), noise(at * at + 1)],
            // Signals that are as hard to predict as possible.
            &|at| [square(at % 7 < 3), square(at == 5000)],
            &|at| [square(noise(at) > 0.0), square(noise(3 * at) < 0.0)],
            &|at| [(at as f32 * 3.1).sin(), noise(at) / 1000.0],
            &|at| [noise(at) / 30_000.0, at as f32 / 10_000.0],
        ];
        for samples in [SampleFormat::I8, SampleFormat::I16, SampleFormat::I24] {
            let bits = 8 * samples.bytes() as u32;
            for (which, sound) in sounds.iter().enumerate() {
                for frames in [1, 15, 32, 40, 4095, 4096, 4097, 10_001] {
                    let sound: Vec<_> = (0..frames).map(sound).collect();
                    let mut flac = Flac::new(samples, 44_100, frames as u64).unwrap();
                    let mut file = flac.header(&FileTags::default());
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
    fn flac_rejects_unsupported_formats() {
        for (samples, rate) in [
            (SampleFormat::F32, 44_100),
            (SampleFormat::I32, 44_100),
            (SampleFormat::I16, 192_000),
        ] {
            assert!(Flac::new(samples, rate, 1).is_err());
        }
    }
}
