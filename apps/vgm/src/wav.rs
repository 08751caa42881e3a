//! WAV, AU and raw files: headers, trailers and the encoding of samples. FLAC is in `flac.rs`.
//!
//! The tags of a WAV file follow its samples. We write them twice: as the INFO list of the format,
//! and as ID3, which most players read. The tags of an AU file precede the samples, in its
//! annotation.
//!
//! We leave out WAV and AU files of more than 4 GiB on purpose, because these formats do not
//! support them.
//!
//! Source: Microsoft and IBM, "Multimedia Programming Interface and Data Specifications 1.0" (WAV);
//! Microsoft, "Multiple channel audio data and WAVE files" (of more than 16 bits); Sun, "Audio file
//! format" (AU).

use crate::error::{Error, Result};
use crate::mix::{SampleFormat, to_i16, to_int};
use crate::tags::{self, FileTags};

/// The kind of sound file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Container {
    /// RIFF WAVE, little-endian.
    #[default]
    Wav,
    /// Sun's AU, big-endian.
    Au,
    /// FLAC, with lossless compression.
    Flac,
    /// Only the samples, little-endian and signed.
    Raw,
}

impl Container {
    /// Returns the usual extension of the file name.
    pub fn extension(self) -> &'static str {
        match self {
            Container::Wav => "wav",
            Container::Au => "au",
            Container::Flac => "flac",
            Container::Raw => "raw",
        }
    }
}

/// The format of a sound file, which is always stereo.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Layout {
    /// The kind of file.
    pub container: Container,
    /// The format of the samples.
    pub samples: SampleFormat,
}

const CHANNELS: usize = 2;

/// The format code of a WAV file with integer samples.
const PCM: u16 = 1;
/// The format code of a WAV file with floating-point samples.
const IEEE_FLOAT: u16 = 3;
/// The format code of a WAV file whose header has an extension with the real format.
const EXTENSIBLE: u16 = 0xFFFE;
/// The channel mask for front left and front right.
const FRONT_SIDES: u32 = 3;
/// The bytes after the format code in the identifier (GUID) of a sample format.
const SUBFORMAT: [u8; 14] = [0, 0, 0, 0, 0x10, 0, 0x80, 0, 0, 0xAA, 0, 0x38, 0x9B, 0x71];

impl Layout {
    /// Returns the header and the trailer of a file. The trailer has the tags of a WAV file. Both
    /// are empty for raw files and FLAC.
    ///
    /// # Errors
    ///
    /// Returns [`Error::TooLarge`] if the file would exceed 4 GiB.
    ///
    /// ```
    /// use creel_vgm::{FileTags, wav::Layout};
    ///
    /// let (header, trailer) = Layout::default().around(44_100, 2, &FileTags::default())?;
    /// assert_eq!((header.len(), trailer.len()), (44, 0));
    /// assert_eq!(header[40..], 8u32.to_le_bytes());
    /// # Ok::<(), creel_vgm::Error>(())
    /// ```
    pub fn around(
        self,
        sample_rate: u32,
        frames: u64,
        tags: &FileTags,
    ) -> Result<(Vec<u8>, Vec<u8>)> {
        if matches!(self.container, Container::Raw | Container::Flac) {
            return Ok((Vec::new(), Vec::new()));
        }
        let data = frames.checked_mul(self.frame_bytes() as u64);
        let data = data.and_then(|bytes| u32::try_from(bytes).ok());
        let (trailer, annotation) = match self.container {
            Container::Wav => (trailer(tags), Vec::new()),
            _ => (Vec::new(), annotation(tags)),
        };
        // The size of the RIFF chunk includes the header, so we leave room for it.
        let room = u32::MAX - 100 - (trailer.len() + annotation.len()) as u32;
        let Some(data) = data.filter(|bytes| *bytes < room) else {
            let reason = format!(
                "{frames} frames do not fit into a WAV or AU file, which has at most 4 GiB. Use \
                 --flac, or a smaller --bit-depth"
            );
            return Err(Error::TooLarge(reason));
        };
        let header = match self.container {
            Container::Wav => {
                let behind = trailer.len() as u32;
                self.wav_header(sample_rate, (data, behind), frames as u32)
            }
            _ => self.au_header(sample_rate, data, &annotation),
        };
        Ok((header, trailer))
    }

    /// Returns the size of a frame in bytes, with both channels.
    pub fn frame_bytes(self) -> usize {
        CHANNELS * self.samples.bytes()
    }

    /// Encodes frames in the format of the file and appends them to `bytes`.
    pub fn encode(self, frames: &[[f32; 2]], bytes: &mut Vec<u8>) {
        let samples = frames.as_flattened();
        let start = bytes.len();
        bytes.resize(start + samples.len() * self.samples.bytes(), 0);
        let out = &mut bytes[start..];
        // 8-bit samples of a WAV file are unsigned.
        let middle = if self.container == Container::Wav {
            0x80
        } else {
            0
        };
        match (self.samples, self.container != Container::Au) {
            (SampleFormat::I8, _) => each(samples, out, |s| [to_int(s, 8) as u8 ^ middle]),
            (SampleFormat::I16, true) => each(samples, out, |s| to_i16(s).to_le_bytes()),
            (SampleFormat::I16, false) => each(samples, out, |s| to_i16(s).to_be_bytes()),
            (SampleFormat::I24, true) => each(samples, out, |s| {
                let [a, b, c, _] = to_int(s, 24).to_le_bytes();
                [a, b, c]
            }),
            (SampleFormat::I24, false) => each(samples, out, |s| {
                let [_, a, b, c] = to_int(s, 24).to_be_bytes();
                [a, b, c]
            }),
            (SampleFormat::I32, true) => each(samples, out, |s| to_int(s, 32).to_le_bytes()),
            (SampleFormat::I32, false) => each(samples, out, |s| to_int(s, 32).to_be_bytes()),
            (SampleFormat::F32, true) => each(samples, out, f32::to_le_bytes),
            (SampleFormat::F32, false) => each(samples, out, f32::to_be_bytes),
        }
    }

    /// Returns a RIFF header. Integer samples of more than 16 bits need the extensible format, and
    /// floating-point samples need a chunk with the number of frames.
    fn wav_header(self, sample_rate: u32, (data, behind): (u32, u32), frames: u32) -> Vec<u8> {
        let frame_bytes = self.frame_bytes() as u32;
        let bits = 8 * self.samples.bytes() as u16;
        let tag = match self.samples {
            SampleFormat::I8 | SampleFormat::I16 => PCM,
            SampleFormat::I24 | SampleFormat::I32 => EXTENSIBLE,
            SampleFormat::F32 => IEEE_FLOAT,
        };
        let mut format = Vec::new();
        format.extend(tag.to_le_bytes());
        format.extend((CHANNELS as u16).to_le_bytes());
        format.extend(sample_rate.to_le_bytes());
        format.extend((sample_rate * frame_bytes).to_le_bytes());
        format.extend((frame_bytes as u16).to_le_bytes());
        format.extend(bits.to_le_bytes());
        let mut more = Vec::new();
        if tag == EXTENSIBLE {
            // All bits of the samples are valid.
            more.extend(bits.to_le_bytes());
            more.extend(FRONT_SIDES.to_le_bytes());
            more.extend(PCM.to_le_bytes());
            more.extend(SUBFORMAT);
        }
        let mut body = b"WAVE".to_vec();
        if tag != PCM {
            format.extend((more.len() as u16).to_le_bytes());
            format.extend(more);
        }
        chunk(&mut body, b"fmt ", &format);
        if tag == IEEE_FLOAT {
            chunk(&mut body, b"fact", &frames.to_le_bytes());
        }
        body.extend(b"data");
        body.extend(data.to_le_bytes());
        let mut header = b"RIFF".to_vec();
        header.extend((body.len() as u32 + data + behind).to_le_bytes());
        header.extend(body);
        header
    }

    fn au_header(self, sample_rate: u32, data: u32, annotation: &[u8]) -> Vec<u8> {
        let encoding: u32 = match self.samples {
            SampleFormat::I8 => 2,
            SampleFormat::I16 => 3,
            SampleFormat::I24 => 4,
            SampleFormat::I32 => 5,
            SampleFormat::F32 => 6,
        };
        let begin = 24 + annotation.len() as u32;
        let fields = [begin, data, encoding, sample_rate, CHANNELS as u32];
        let mut header = b".snd".to_vec();
        header.extend(fields.iter().flat_map(|field| field.to_be_bytes()));
        header.extend(annotation);
        header
    }
}

fn chunk(body: &mut Vec<u8>, name: &[u8; 4], data: &[u8]) {
    body.extend(name);
    body.extend((data.len() as u32).to_le_bytes());
    body.extend(data);
    // Chunks begin at even positions.
    body.extend(vec![0; data.len() % 2]);
}

/// Returns the trailer of a WAV file. It needs no padding before it, because frames have two
/// channels and therefore an even number of bytes.
fn trailer(tags: &FileTags) -> Vec<u8> {
    let id3 = tags::id3(tags);
    if id3.is_empty() {
        return Vec::new();
    }
    let mut list = b"INFO".to_vec();
    for (name, text) in tags::info(tags) {
        chunk(&mut list, &name, &[text.as_bytes(), &[0]].concat());
    }
    let mut trailer = Vec::new();
    chunk(&mut trailer, b"LIST", &list);
    chunk(&mut trailer, b"id3 ", &id3);
    trailer
}

/// Returns the annotation between the header and the samples of an AU file: the tags, one per line,
/// padded with zeros to a multiple of eight bytes. Without tags, it has four zeros.
fn annotation(tags: &FileTags) -> Vec<u8> {
    let mut text = tags::vorbis(tags).join("\n").into_bytes();
    let zeros = 8 - text.len() % 8;
    text.resize(
        if text.is_empty() {
            4
        } else {
            text.len() + zeros
        },
        0,
    );
    text
}

fn each<const BYTES: usize>(samples: &[f32], out: &mut [u8], encode: impl Fn(f32) -> [u8; BYTES]) {
    for (sample, bytes) in samples.iter().zip(out.as_chunks_mut::<BYTES>().0) {
        *bytes = encode(*sample);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::Gd3;

    const ALL: [SampleFormat; 5] = [
        SampleFormat::I8,
        SampleFormat::I16,
        SampleFormat::I24,
        SampleFormat::I32,
        SampleFormat::F32,
    ];

    #[test]
    fn headers_have_the_sizes_of_their_data() {
        for samples in ALL {
            for container in [Container::Wav, Container::Au] {
                let layout = Layout { container, samples };
                let names = Gd3 {
                    track: "Étude".into(),
                    author_native: "糸".into(),
                    notes: "odd".into(),
                    ..Gd3::default()
                };
                let tags = names.into();
                let (mut file, trailer) = layout.around(48_000, 3, &tags).unwrap();
                let header = file.len();
                layout.encode(&[[0.5, -0.5]; 3], &mut file);
                assert_eq!(file.len(), header + 3 * layout.frame_bytes());
                assert_eq!(trailer.is_empty(), container == Container::Au);
                file.extend(trailer);
                let (at, total) = match container {
                    Container::Wav => {
                        let text = String::from_utf8_lossy(&file);
                        assert_eq!(text.matches("Étude").count(), 2);
                        assert_eq!(text.matches("糸").count(), 2);
                        (4, u32::from_le_bytes(file[4..8].try_into().unwrap()) + 8)
                    }
                    Container::Au => {
                        let word =
                            |at: usize| u32::from_be_bytes(file[at..at + 4].try_into().unwrap());
                        let text = String::from_utf8_lossy(&file[24..word(4) as usize]);
                        assert!(text.starts_with("TITLE=Étude\nARTIST=糸\nDESCRIPTION=odd\0"));
                        assert_eq!(word(4) % 8, 0);
                        (8, word(8) + word(4))
                    }
                    _ => unreachable!("the test uses only WAV and AU"),
                };
                assert_eq!(total as usize, file.len(), "{layout:?} at {at}");
            }
        }
    }

    #[test]
    fn samples_have_the_byte_order_of_the_container() {
        let encoded = |container, samples| {
            let mut bytes = Vec::new();
            Layout { container, samples }.encode(&[[0.5, -1.0]], &mut bytes);
            bytes
        };
        use Container::{Au, Wav};
        assert_eq!(encoded(Wav, SampleFormat::I8), [0xC0, 0]);
        assert_eq!(encoded(Au, SampleFormat::I8), [0x40, 0x80]);
        assert_eq!(encoded(Wav, SampleFormat::I16), [0, 0x40, 0, 0x80]);
        assert_eq!(encoded(Au, SampleFormat::I16), [0x40, 0, 0x80, 0]);
        assert_eq!(encoded(Wav, SampleFormat::I24), [0, 0, 0x40, 0, 0, 0x80]);
        assert_eq!(encoded(Au, SampleFormat::I24), [0x40, 0, 0, 0x80, 0, 0]);
        assert_eq!(encoded(Au, SampleFormat::F32)[..4], 0.5f32.to_be_bytes());
    }

    #[test]
    fn wav_above_16_bits_uses_the_extensible_header() {
        for (samples, tag, bytes) in [
            (SampleFormat::I8, 1, 16),
            (SampleFormat::I16, 1, 16),
            (SampleFormat::I24, 0xFFFE, 40),
            (SampleFormat::I32, 0xFFFE, 40),
            (SampleFormat::F32, 3, 18),
        ] {
            let container = Container::Wav;
            let around = Layout { container, samples }.around(44_100, 1, &FileTags::default());
            let (header, _) = around.unwrap();
            let word = |at: usize| u16::from_le_bytes([header[at], header[at + 1]]);
            assert_eq!((word(20), word(16)), (tag, bytes), "{samples:?}");
            assert_eq!(header.windows(4).any(|name| name == b"fact"), tag == 3);
            if tag == 0xFFFE {
                let bits = 8 * samples.bytes() as u16;
                assert_eq!([36, 38, 40, 42, 44].map(word), [22, bits, 3, 0, 1]);
            }
        }
    }

    #[test]
    fn file_above_4_gib_is_rejected() {
        let layout = Layout::default();
        let around = |frames| layout.around(44_100, frames, &FileTags::default());
        assert!(around(1 << 29).is_ok());
        assert!(around(1 << 30).is_err());
        assert!(around(u64::MAX).is_err());
    }
}
