//! From samples to payloads and back.
//!
//! L16, L24 and the A-law's encoder are own code, the rest of G.711 and G.722 a library's; Opus is
//! the reference library's, behind the feature `opus`.
//!
//! The library's (`audio-codec` 0.4.13) A-law rounds negative samples towards zero, and takes the
//! smallest for positive ones. Its G.722 begins in another state than the recommendation asks: the
//! decoder's steps are 0 and 0 where they ought to be 32 and 8, the encoder's 128 and 32; nothing
//! outside can set them. So the first third of a second that is heard is not exact to the bit. What
//! is sent differs from a reference encoder's through the whole stream, with the same noise;
//! whether for that reason alone is not known.

use super::format::{Encoding, Format};
use audio_codec::g722::{G722Decoder, G722Encoder};
use audio_codec::pcma::PcmaDecoder;
use audio_codec::pcmu::{PcmuDecoder, PcmuEncoder};
use std::fmt;

/// The longest Opus packet: 120 ms at 48,000 frames a second.
#[cfg(feature = "opus")]
const OPUS_FRAMES_MAX: usize = 5_760;

/// Why payloads of a format cannot be made or heard.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Unsupported(pub Format);

impl fmt::Display for Unsupported {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let why = match self.0.encoding {
            Encoding::Opus if cfg!(not(feature = "opus")) => "built without the feature `opus`",
            Encoding::Opus => "Opus has one or two channels at 8 to 48 kHz",
            Encoding::G722 | Encoding::Pcmu | Encoding::Pcma => "it has one channel",
            _ => "there is no codec for it",
        };
        write!(f, "{}: {why}", self.0)
    }
}

impl std::error::Error for Unsupported {}

/// Reads payloads of one stream.
pub struct Decoder(DecoderKind);

enum DecoderKind {
    L16,
    L24,
    Library(Box<dyn audio_codec::Decoder>),
    #[cfg(feature = "opus")]
    Opus(opus::Decoder, usize),
}

impl Decoder {
    /// For payloads of `format`.
    ///
    /// # Errors
    ///
    /// If there is no codec for it.
    pub fn new(format: Format) -> Result<Self, Unsupported> {
        let mono = format.channels == 1;
        Ok(Decoder(match format.encoding {
            Encoding::L16 => DecoderKind::L16,
            Encoding::L24 => DecoderKind::L24,
            Encoding::Pcmu if mono => DecoderKind::Library(Box::new(PcmuDecoder::new())),
            Encoding::Pcma if mono => DecoderKind::Library(Box::new(PcmaDecoder::new())),
            Encoding::G722 if mono => DecoderKind::Library(Box::new(G722Decoder::new())),
            #[cfg(feature = "opus")]
            Encoding::Opus => {
                let channels = opus_channels(format)?;
                let decoder = opus::Decoder::new(format.clock, channels);
                DecoderKind::Opus(decoder.map_err(|_| Unsupported(format))?, channels as usize)
            }
            _ => return Err(Unsupported(format)),
        }))
    }

    /// Appends a payload's samples, interleaved. Odd bytes at its end are left out; so is one that
    /// the codec refuses, whole.
    pub fn decode(&mut self, payload: &[u8], samples: &mut Vec<i16>) {
        match &mut self.0 {
            DecoderKind::L16 => {
                let (pairs, _odd) = payload.as_chunks::<2>();
                samples.extend(pairs.iter().map(|&pair| i16::from_be_bytes(pair)));
            }
            DecoderKind::L24 => {
                let (triples, _odd) = payload.as_chunks::<3>();
                samples.extend(
                    triples
                        .iter()
                        .map(|&[high, low, _]| i16::from_be_bytes([high, low])),
                );
            }
            DecoderKind::Library(decoder) => {
                let begin = samples.len();
                samples.resize(begin + decoder.max_decode_samples(payload.len()), 0);
                let written = decoder.decode_into(payload, &mut samples[begin..]);
                samples.truncate(begin + written.unwrap_or(0));
            }
            #[cfg(feature = "opus")]
            DecoderKind::Opus(decoder, channels) => {
                let begin = samples.len();
                samples.resize(begin + OPUS_FRAMES_MAX * *channels, 0);
                let frames = decoder.decode(payload, &mut samples[begin..], false);
                samples.truncate(begin + frames.unwrap_or(0) * *channels);
            }
        }
    }
}

impl fmt::Debug for Decoder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Decoder").finish_non_exhaustive()
    }
}

#[cfg(feature = "opus")]
fn opus_channels(format: Format) -> Result<opus::Channels, Unsupported> {
    match format.channels {
        1 => Ok(opus::Channels::Mono),
        2 => Ok(opus::Channels::Stereo),
        _ => Err(Unsupported(format)),
    }
}

/// Makes payloads of one stream.
pub struct Encoder(EncoderKind);

enum EncoderKind {
    L16,
    L24,
    Pcma,
    Library(Box<dyn audio_codec::Encoder>),
    #[cfg(feature = "opus")]
    Opus(opus::Encoder),
}

impl Encoder {
    /// For payloads of `format`.
    ///
    /// # Errors
    ///
    /// If there is no codec for it.
    pub fn new(format: Format) -> Result<Self, Unsupported> {
        let mono = format.channels == 1;
        Ok(Encoder(match format.encoding {
            Encoding::L16 => EncoderKind::L16,
            Encoding::L24 => EncoderKind::L24,
            Encoding::Pcmu if mono => EncoderKind::Library(Box::new(PcmuEncoder::new())),
            Encoding::Pcma if mono => EncoderKind::Pcma,
            Encoding::G722 if mono => EncoderKind::Library(Box::new(G722Encoder::new())),
            #[cfg(feature = "opus")]
            Encoding::Opus => {
                let channels = opus_channels(format)?;
                let encoder = opus::Encoder::new(format.clock, channels, opus::Application::Audio);
                EncoderKind::Opus(encoder.map_err(|_| Unsupported(format))?)
            }
            _ => return Err(Unsupported(format)),
        }))
    }

    /// Appends the payload of interleaved samples. What the codec refuses (a length that Opus does
    /// not have) appends nothing.
    pub fn encode(&mut self, samples: &[i16], payload: &mut Vec<u8>) {
        match &mut self.0 {
            EncoderKind::L16 => {
                let begin = payload.len();
                payload.resize(begin + samples.len() * 2, 0);
                for (pair, sample) in payload[begin..].chunks_exact_mut(2).zip(samples) {
                    pair.copy_from_slice(&sample.to_be_bytes());
                }
            }
            EncoderKind::L24 => {
                let triple = |sample: &i16| {
                    let [high, low] = sample.to_be_bytes();
                    [high, low, 0]
                };
                payload.extend(samples.iter().flat_map(triple));
            }
            EncoderKind::Pcma => payload.extend(samples.iter().map(|&sample| a_law(sample))),
            EncoderKind::Library(encoder) => {
                let begin = payload.len();
                payload.resize(begin + encoder.max_encode_bytes(samples.len()), 0);
                let written = encoder.encode_into(samples, &mut payload[begin..]);
                payload.truncate(begin + written.unwrap_or(0));
            }
            #[cfg(feature = "opus")]
            EncoderKind::Opus(encoder) => {
                let begin = payload.len();
                payload.resize(begin + 4_000, 0);
                let written = encoder.encode(samples, &mut payload[begin..]);
                payload.truncate(begin + written.unwrap_or(0));
            }
        }
    }
}

/// A sample in A-law: sign, three bits of exponent, four of mantissa, every other bit inverted.
///
/// Of the sample, 12 bits and the sign count. A negative one is taken as its ones' complement, so
/// that both halves are alike: -1 is as far below the middle as 0 is above it.
///
/// Source: G.711 table 1a; its arithmetic for 16 bits as in G.191.
fn a_law(sample: i16) -> u8 {
    let magnitude = (if sample < 0 { !sample } else { sample }) as u16 >> 4;
    // The first two segments have the same step.
    let exponent = (magnitude >> 4).checked_ilog2().map_or(0, |log| log + 1);
    let mantissa = magnitude >> exponent.saturating_sub(1) & 0x0f;
    let sign = u8::from(sample >= 0) << 7;
    (sign | (exponent as u8) << 4 | mantissa as u8) ^ 0x55
}

impl fmt::Debug for Encoder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Encoder").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn round_trip(text: &str, samples: &[i16]) -> (usize, Vec<i16>) {
        let format: Format = text.parse().unwrap();
        let (mut payload, mut decoded) = (Vec::new(), Vec::new());
        Encoder::new(format).unwrap().encode(samples, &mut payload);
        Decoder::new(format).unwrap().decode(&payload, &mut decoded);
        (payload.len(), decoded)
    }

    #[test]
    fn linear_pcm_round_trips() {
        let samples = [0, 1, -1, i16::MIN, i16::MAX, 0x1234];
        assert_eq!(round_trip("L16/48000/2", &samples), (12, samples.to_vec()));
        assert_eq!(round_trip("L24/48000/2", &samples), (18, samples.to_vec()));
    }

    #[test]
    fn g711_round_trips_within_one_step() {
        let samples: Vec<i16> = (i16::MIN..=i16::MAX).collect();
        for law in ["PCMU", "PCMA"] {
            let (bytes, decoded) = round_trip(law, &samples);
            assert_eq!((bytes, decoded.len()), (65_536, 65_536));
            for (&sample, &decoded) in samples.iter().zip(&decoded) {
                // A step is a sixteenth of the value's power of two, and 16 near zero; µ-law
                // clips at 32,635.
                let far = (i32::from(sample) - i32::from(decoded)).abs();
                assert!(
                    far <= (i32::from(sample).abs() / 16).max(16),
                    "{law}: {sample} as {decoded}"
                );
            }
        }
    }

    #[test]
    fn g711_bytes_match_the_recommendation() {
        // G.711: silence, and the ends of the scale.
        for (law, silence, most) in [("PCMU", 0xff, 0x80), ("PCMA", 0xd5, 0xaa)] {
            let mut payload = Vec::new();
            let mut encoder = Encoder::new(law.parse().unwrap()).unwrap();
            encoder.encode(&[0, i16::MAX, i16::MIN], &mut payload);
            assert_eq!(payload, [silence, most, most & 0x7f], "{law}");
        }
    }

    /// G.711's table 1a: a segment's first decision value and step, of 4,096 to the full scale,
    /// sixteen steps a segment. Whoever lies in a step has its number, and is heard in its middle.
    #[test]
    fn a_law_codes_and_decoded_values_match_table_1a() {
        let segments = [
            (0, 2),
            (32, 2),
            (64, 4),
            (128, 8),
            (256, 16),
            (512, 32),
            (1_024, 64),
            (2_048, 128),
        ];
        let mut steps = Vec::new();
        for (first, step) in segments {
            // In 16 bits the full scale is 32,768.
            steps.extend((0..16).map(|n| ((first + n * step) * 8, step * 8)));
        }
        let samples: Vec<i16> = (i16::MIN..=i16::MAX).collect();
        let mut payload = Vec::new();
        let format: Format = "PCMA".parse().unwrap();
        Encoder::new(format).unwrap().encode(&samples, &mut payload);
        let (_, decoded) = round_trip("PCMA", &samples);
        for ((&sample, byte), decoded) in samples.iter().zip(payload).zip(decoded) {
            let sample = i32::from(sample);
            // Decision values belong to the step above them, of negative ones to that below.
            let size = if sample < 0 { -1 - sample } else { sample };
            let number = steps.partition_point(|&(first, _)| first <= size) - 1;
            let (first, step) = steps[number];
            let sign = if sample < 0 { 0 } else { 0x80 };
            assert_eq!(byte, (sign | number as u8) ^ 0x55, "{sample}");
            let middle = first + step / 2;
            let middle = if sample < 0 { -middle } else { middle };
            assert_eq!(i32::from(decoded), middle, "{sample}");
        }
    }

    #[test]
    fn g722_needs_half_a_byte_per_sample_and_keeps_the_tone() {
        let mut tone = vec![0; 3_200];
        crate::media::tone::Tone::new(Default::default(), 440.0, 16_000).fill(&mut tone);
        let (bytes, decoded) = round_trip("G722", &tone);
        assert_eq!((bytes, decoded.len()), (1_600, 3_200));
        let energy = |samples: &[i16]| samples.iter().map(|&s| f64::from(s).powi(2)).sum::<f64>();
        let share = energy(&decoded[400..]) / energy(&tone[400..]);
        assert!((0.8..1.2).contains(&share), "{share}");
    }

    #[test]
    fn formats_without_a_codec_are_rejected() {
        for text in ["AMR/8000", "telephone-event/8000", "G722/8000/2"] {
            let format: Format = text.parse().unwrap();
            assert!(Decoder::new(format).is_err() && Encoder::new(format).is_err());
        }
    }
}
