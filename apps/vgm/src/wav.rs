//! Sound files: the headers of WAV and AU, and samples as their bytes.
//!
//! Left out on purpose: tags, and files of more than 4 GiB, which neither format can name.
//!
//! Source: Microsoft and IBM, "Multimedia Programming Interface and Data Specifications 1.0" (WAV);
//! Sun, "Audio file format" (AU).

use crate::error::{Error, Result};
use crate::mix::{SampleFormat, to_i16, to_int};

/// The kind of sound file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Container {
    /// RIFF WAVE, little-endian.
    #[default]
    Wav,
    /// Sun's AU, big-endian.
    Au,
}

impl Container {
    /// The usual ending of a file's name.
    pub fn extension(self) -> &'static str {
        match self {
            Container::Wav => "wav",
            Container::Au => "au",
        }
    }
}

/// How a sound file is laid out: stereo, always.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Layout {
    /// The kind of file.
    pub container: Container,
    /// Its samples.
    pub samples: SampleFormat,
}

const CHANNELS: usize = 2;

impl Layout {
    /// The file's header.
    ///
    /// # Errors
    ///
    /// [`Error::TooLarge`] if the file would pass 4 GiB.
    ///
    /// ```
    /// use creel_vgm::wav::Layout;
    ///
    /// let header = Layout::default().header(44_100, 2)?;
    /// assert_eq!(header.len(), 44);
    /// assert_eq!(header[40..], 8u32.to_le_bytes());
    /// # Ok::<(), creel_vgm::Error>(())
    /// ```
    pub fn header(self, sample_rate: u32, frames: u64) -> Result<Vec<u8>> {
        let data = frames.checked_mul(self.frame_bytes() as u64);
        let data = data.and_then(|bytes| u32::try_from(bytes).ok());
        // The RIFF chunk counts the header too.
        let Some(data) = data.filter(|bytes| *bytes < u32::MAX - 100) else {
            let reason = format!("{frames} frames do not fit a sound file of 4 GiB");
            return Err(Error::TooLarge(reason));
        };
        Ok(match self.container {
            Container::Wav => self.wav_header(sample_rate, data, frames as u32),
            Container::Au => self.au_header(sample_rate, data),
        })
    }

    /// Bytes of a frame, both channels.
    pub fn frame_bytes(self) -> usize {
        CHANNELS * self.samples.bytes()
    }

    /// Appends frames to `bytes` as the file holds them.
    pub fn encode(self, frames: &[[f32; 2]], bytes: &mut Vec<u8>) {
        let samples = frames.as_flattened();
        let start = bytes.len();
        bytes.resize(start + samples.len() * self.samples.bytes(), 0);
        let out = &mut bytes[start..];
        let wav = self.container == Container::Wav;
        // An 8-bit sample of a WAV is unsigned.
        let middle = if wav { 0x80 } else { 0 };
        match (self.samples, wav) {
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

    /// A RIFF header; files of other than whole numbers also say how many frames they have.
    fn wav_header(self, sample_rate: u32, data: u32, frames: u32) -> Vec<u8> {
        let float = self.samples == SampleFormat::F32;
        let frame_bytes = self.frame_bytes() as u32;
        let bits = 8 * self.samples.bytes() as u16;
        let mut format = Vec::new();
        format.extend(if float { 3u16 } else { 1 }.to_le_bytes());
        format.extend((CHANNELS as u16).to_le_bytes());
        format.extend(sample_rate.to_le_bytes());
        format.extend((sample_rate * frame_bytes).to_le_bytes());
        format.extend((frame_bytes as u16).to_le_bytes());
        format.extend(bits.to_le_bytes());
        let mut body = b"WAVE".to_vec();
        if float {
            format.extend([0, 0]);
        }
        chunk(&mut body, b"fmt ", &format);
        if float {
            chunk(&mut body, b"fact", &frames.to_le_bytes());
        }
        body.extend(b"data");
        body.extend(data.to_le_bytes());
        let mut header = b"RIFF".to_vec();
        header.extend((body.len() as u32 + data).to_le_bytes());
        header.extend(body);
        header
    }

    fn au_header(self, sample_rate: u32, data: u32) -> Vec<u8> {
        let encoding: u32 = match self.samples {
            SampleFormat::I8 => 2,
            SampleFormat::I16 => 3,
            SampleFormat::I24 => 4,
            SampleFormat::I32 => 5,
            SampleFormat::F32 => 6,
        };
        // The header ends with an annotation of at least four bytes.
        let fields = [28, data, encoding, sample_rate, CHANNELS as u32, 0];
        let mut header = b".snd".to_vec();
        header.extend(fields.iter().flat_map(|field| field.to_be_bytes()));
        header
    }
}

fn chunk(body: &mut Vec<u8>, name: &[u8; 4], data: &[u8]) {
    body.extend(name);
    body.extend((data.len() as u32).to_le_bytes());
    body.extend(data);
}

fn each<const BYTES: usize>(samples: &[f32], out: &mut [u8], encode: impl Fn(f32) -> [u8; BYTES]) {
    for (sample, bytes) in samples.iter().zip(out.as_chunks_mut::<BYTES>().0) {
        *bytes = encode(*sample);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: [SampleFormat; 5] = [
        SampleFormat::I8,
        SampleFormat::I16,
        SampleFormat::I24,
        SampleFormat::I32,
        SampleFormat::F32,
    ];

    #[test]
    fn headers_announce_what_follows() {
        for samples in ALL {
            for container in [Container::Wav, Container::Au] {
                let layout = Layout { container, samples };
                let mut file = layout.header(48_000, 3).unwrap();
                let header = file.len();
                layout.encode(&[[0.5, -0.5]; 3], &mut file);
                assert_eq!(file.len(), header + 3 * layout.frame_bytes());
                let (at, total) = match container {
                    Container::Wav => (4, u32::from_le_bytes(file[4..8].try_into().unwrap()) + 8),
                    Container::Au => (8, u32::from_be_bytes(file[8..12].try_into().unwrap()) + 28),
                };
                assert_eq!(total as usize, file.len(), "{layout:?} at {at}");
            }
        }
    }

    #[test]
    fn bytes_are_in_the_order_of_the_format() {
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
    fn a_file_beyond_4_gib_is_refused() {
        let layout = Layout::default();
        assert!(layout.header(44_100, 1 << 29).is_ok());
        assert!(layout.header(44_100, 1 << 30).is_err());
        assert!(layout.header(44_100, u64::MAX).is_err());
    }
}
