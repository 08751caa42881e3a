//! Encoders from samples to payloads, and decoders back.
//!
//! We implement L16, L24 and the A-law encoder ourselves. A library provides the rest of G.711 and
//! G.722, and the reference library provides Opus if the feature `opus` is enabled.
//!
//! We know two deviations of the library (`audio-codec` 0.4.13):
//!
//! - Its A-law encoder rounds negative samples towards zero, and encodes -8 to -1 as positive.
//!   Because of this we have our own A-law encoder.
//! - Its G.722 coders begin in another state than the recommendation requires, and we cannot set
//!   that state from outside. The step sizes of the decoder begin at 0 and 0 instead of 32 and 8.
//!   Those of the encoder begin at 128 and 32. As a result, the first third of a second that we
//!   decode is not bit-exact. Our encoded stream differs from that of a reference encoder from
//!   beginning to end, but its noise is the same. We do not know whether the initial state is the
//!   only cause.

use super::format::{Encoding, Format};
#[cfg(feature = "formats")]
use audio_codec::g722::{G722Decoder, G722Encoder};
#[cfg(feature = "formats")]
use audio_codec::pcma::PcmaDecoder;
#[cfg(feature = "formats")]
use audio_codec::pcmu::{PcmuDecoder, PcmuEncoder};
use std::fmt;

/// The number of frames in the longest Opus packet, which lasts 120 ms at 48,000 frames per second.
#[cfg(feature = "opus")]
const OPUS_FRAMES_MAX: usize = 5_760;

/// The error for a format that we cannot encode, or cannot decode.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Unsupported(pub Format);

impl fmt::Display for Unsupported {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let why = match self.0.encoding {
            Encoding::Opus if cfg!(not(feature = "opus")) => {
                "this program was built without the feature `opus`: build it with --features opus"
            }
            Encoding::Opus => "Opus has one or two channels at 8 to 48 kHz",
            Encoding::G722 | Encoding::Pcmu | Encoding::Pcma if cfg!(not(feature = "formats")) => {
                "this program was built without the feature `formats`: build it with --features formats"
            }
            Encoding::G722 | Encoding::Pcmu | Encoding::Pcma => {
                "this program supports only one channel in this encoding"
            }
            _ => "this program has no codec for this encoding",
        };
        write!(f, "cannot encode or decode {}: {why}", self.0)
    }
}

impl std::error::Error for Unsupported {}

/// Decodes the payloads of one stream.
pub struct Decoder(DecoderKind);

enum DecoderKind {
    L16,
    L24,
    #[cfg(feature = "formats")]
    Library(Box<dyn audio_codec::Decoder>),
    #[cfg(feature = "opus")]
    Opus(opus::Decoder, usize),
}

impl Decoder {
    /// Creates a decoder for payloads of `format`.
    ///
    /// # Errors
    ///
    /// Returns an error if there is no codec for the format.
    pub fn new(format: Format) -> Result<Self, Unsupported> {
        #[cfg(feature = "formats")]
        let mono = format.channels == 1;
        Ok(Decoder(match format.encoding {
            Encoding::L16 => DecoderKind::L16,
            Encoding::L24 => DecoderKind::L24,
            #[cfg(feature = "formats")]
            Encoding::Pcmu if mono => DecoderKind::Library(Box::new(PcmuDecoder::new())),
            #[cfg(feature = "formats")]
            Encoding::Pcma if mono => DecoderKind::Library(Box::new(PcmaDecoder::new())),
            #[cfg(feature = "formats")]
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

    /// Decodes a payload and appends its interleaved samples. The decoder ignores odd bytes at the
    /// end of a payload. It appends nothing if the codec rejects the payload.
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
            #[cfg(feature = "formats")]
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

/// Encodes the payloads of one stream.
pub struct Encoder(EncoderKind);

enum EncoderKind {
    L16,
    L24,
    Pcma,
    #[cfg(feature = "formats")]
    Library(Box<dyn audio_codec::Encoder>),
    #[cfg(feature = "opus")]
    Opus(opus::Encoder),
}

impl Encoder {
    /// Creates an encoder for payloads of `format`.
    ///
    /// # Errors
    ///
    /// Returns an error if there is no codec for the format.
    pub fn new(format: Format) -> Result<Self, Unsupported> {
        #[cfg(feature = "formats")]
        let mono = format.channels == 1;
        Ok(Encoder(match format.encoding {
            Encoding::L16 => EncoderKind::L16,
            Encoding::L24 => EncoderKind::L24,
            #[cfg(feature = "formats")]
            Encoding::Pcmu if mono => EncoderKind::Library(Box::new(PcmuEncoder::new())),
            Encoding::Pcma if format.channels == 1 => EncoderKind::Pcma,
            #[cfg(feature = "formats")]
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

    /// Encodes samples like [`encode`](Self::encode). `low` has the lower 8 bits of each sample, or
    /// is empty. Only L24 has room for them.
    pub fn encode_wide(&mut self, samples: &[i16], low: &[u8], payload: &mut Vec<u8>) {
        if !matches!(self.0, EncoderKind::L24) || low.len() != samples.len() {
            return self.encode(samples, payload);
        }
        let triple = |(sample, &low): (&i16, &u8)| {
            let [high, middle] = sample.to_be_bytes();
            [high, middle, low]
        };
        payload.extend(samples.iter().zip(low).flat_map(triple));
    }

    /// Encodes interleaved samples and appends the payload. It appends nothing if the codec rejects
    /// the samples, for example because Opus has no packets of this length.
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
            #[cfg(feature = "formats")]
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

/// Encodes a sample in A-law: a sign, three bits of exponent and four bits of mantissa, with every
/// other bit inverted.
///
/// A-law uses the sign and 12 more bits of the sample. We take the ones' complement of a negative
/// sample, which makes both halves symmetric: -1 is as far below the middle as 0 is above it.
///
/// Source: G.711 table 1a, with the arithmetic for 16 bits of G.191.
fn a_law(sample: i16) -> u8 {
    let magnitude = (if sample < 0 { !sample } else { sample }) as u16 >> 4;
    // The first two segments have the same step, so exponents 0 and 1 shift alike.
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

#[cfg(all(test, feature = "formats"))]
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
    fn linear_pcm_is_decoded_to_the_samples_that_were_encoded() {
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
                // A step is a sixteenth of the value's power of two, and 16 near zero. µ-law clips
                // at 32,635.
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
        // These are the codes of G.711 for silence and for both ends of the scale.
        for (law, silence, most) in [("PCMU", 0xff, 0x80), ("PCMA", 0xd5, 0xaa)] {
            let mut payload = Vec::new();
            let mut encoder = Encoder::new(law.parse().unwrap()).unwrap();
            encoder.encode(&[0, i16::MAX, i16::MIN], &mut payload);
            assert_eq!(payload, [silence, most, most & 0x7f], "{law}");
        }
    }

    /// Checks against table 1a of G.711. Each segment has a first decision value and a step size,
    /// in units of which the full scale has 4,096, and sixteen steps. A value within a step gets
    /// the number of the step, and is decoded as the middle of the step.
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
            // In 16 bits the full scale is 32,768, so one unit of the table is 8.
            steps.extend((0..16).map(|n| ((first + n * step) * 8, step * 8)));
        }
        let samples: Vec<i16> = (i16::MIN..=i16::MAX).collect();
        let mut payload = Vec::new();
        let format: Format = "PCMA".parse().unwrap();
        Encoder::new(format).unwrap().encode(&samples, &mut payload);
        let (_, decoded) = round_trip("PCMA", &samples);
        for ((&sample, byte), decoded) in samples.iter().zip(payload).zip(decoded) {
            let sample = i32::from(sample);
            // A decision value belongs to the step above it, or to the step below it if it is
            // negative.
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
