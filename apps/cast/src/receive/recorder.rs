//! Records streams. Packets are decoded where they arrive, and a separate pool writes the files.

use crate::error::Error;
use crate::media::codec::Decoder;
use crate::media::format::{Encoding, Format};
use crate::media::recording::{Layout, Recording};
use crate::media::wav::WavError;
use creel::{Pool, Wait};
use creel_console::with_causes;
use creel_media::leaky::{self, Leak, Sender};
use std::path::PathBuf;
use std::sync::{Arc, mpsc};

/// The duration of the sound that may wait for a file, because a busy disk can stop a program for
/// seconds. If streams arrive live, a buffer that does not fit becomes a gap in the file. An
/// analysis of a capture waits instead.
const QUEUE_SECONDS: usize = 4;
/// The limits of the number of buffers that wait for a file.
const QUEUE_MIN: usize = 256;
const QUEUE_MAX: usize = 1 << 15;
/// The maximum number of files per stream.
const PARTS_MAX: u32 = 100;

/// Writes recordings on a pool of its own, because writing files blocks.
#[derive(Debug)]
pub(super) struct Files {
    /// The pool must outlive the recordings, because dropping it would cancel them.
    pool: Arc<Pool>,
    folder: Arc<Folder>,
    warnings: mpsc::Receiver<String>,
}

/// The folder of the recordings, and the pool that writes them. All recorders share it.
#[derive(Debug)]
pub(super) struct Folder {
    pool: Arc<Pool>,
    path: PathBuf,
    warn: mpsc::Sender<String>,
    lossless: bool,
}

impl Files {
    /// Creates the folder if necessary. If `lossless` is set, recorders wait when files are slow.
    /// Otherwise they drop buffers.
    ///
    /// # Errors
    ///
    /// Returns an error if the folder or the pool cannot be created.
    pub(super) fn new(path: PathBuf, lossless: bool) -> Result<Self, Error> {
        let made = std::fs::create_dir_all(&path);
        made.map_err(|error| Error::Wav(WavError::Io(path.clone(), error)))?;
        let builder = Pool::builder().workers(1).wait(Wait::Park).name("files");
        let (warn, warnings) = mpsc::channel();
        let pool = Arc::new(builder.build()?);
        let folder = Folder {
            pool: Arc::clone(&pool),
            path,
            warn,
            lossless,
        };
        Ok(Files {
            pool,
            folder: Arc::new(folder),
            warnings,
        })
    }

    /// Returns the folder, which recorders need in order to begin files.
    pub(super) fn folder(&self) -> Arc<Folder> {
        Arc::clone(&self.folder)
    }

    /// Waits until all files are complete, and returns the warnings. All recorders must have been
    /// dropped before.
    pub(super) fn finish(self) -> Vec<String> {
        let Files {
            pool,
            folder,
            warnings,
        } = self;
        drop(folder);
        let warnings = warnings.iter().collect();
        drop(pool);
        warnings
    }
}

/// The recording of one source. The file is created with the first samples.
#[derive(Debug)]
pub(super) struct Recorder {
    folder: Arc<Folder>,
    name: String,
    open: Option<Open>,
    samples: Vec<i16>,
    /// The number of files that were begun.
    parts: u32,
    /// The frame after the last one, at the rate of the current file.
    end: i64,
}

/// A block of samples that we send to the file's writer.
#[derive(Debug)]
struct Chunk {
    /// The position of the samples in the file, in frames. It may be negative at the beginning.
    frame: i64,
    /// Interleaved samples, little-endian.
    bytes: Vec<u8>,
}

/// Returns the number of bytes per sample in a recording. L24 keeps all of its bits.
fn sample_bytes(format: Format) -> usize {
    match format.encoding {
        Encoding::L24 => 3,
        _ => 2,
    }
}

/// Decodes a payload to interleaved samples, little-endian. `samples` is scratch memory.
fn decode(
    decoder: &mut Decoder,
    format: Format,
    payload: &[u8],
    samples: &mut Vec<i16>,
) -> Vec<u8> {
    if format.encoding == Encoding::L24 {
        let (triples, _odd) = payload.as_chunks::<3>();
        let swapped = triples
            .iter()
            .flat_map(|&[high, middle, low]| [low, middle, high]);
        return swapped.collect();
    }
    samples.clear();
    decoder.decode(payload, samples);
    samples.iter().flat_map(|it| it.to_le_bytes()).collect()
}

#[derive(Debug)]
struct Open {
    payload_type: u8,
    format: Format,
    decoder: Option<Decoder>,
    /// The file, which exists from the first samples on.
    file: Option<Sender<Chunk>>,
}

impl Recorder {
    /// Creates a recorder that writes `NAME.wav`.
    pub(super) fn new(folder: Arc<Folder>, name: String) -> Self {
        Recorder {
            folder,
            name,
            open: None,
            samples: Vec::new(),
            parts: 0,
            end: 0,
        }
    }

    /// Returns the frame after the last one that was recorded, at this number of frames per second.
    pub(super) fn end_at(&self, rate: u32) -> i64 {
        let of_file = self.open.as_ref().map_or(rate, |open| open.format.rate());
        let frames = i128::from(self.end) * i128::from(rate);
        (frames / i128::from(of_file.max(1))) as i64
    }

    /// Decodes a payload and records it at position `frame`. A file has one rate and one number of
    /// channels, so a payload with others begins a file `NAME-part2.wav`, and so on.
    ///
    /// Returns false if we cannot decode the packet, or if the stream has changed too often.
    pub(super) fn record(
        &mut self,
        payload_type: u8,
        format: Format,
        frame: i64,
        payload: &[u8],
    ) -> bool {
        let is_alike = |open: &Open| {
            open.format.rate() == format.rate()
                && open.format.channels == format.channels
                && sample_bytes(open.format) == sample_bytes(format)
        };
        if !self.open.as_ref().is_some_and(is_alike) {
            if self.parts >= PARTS_MAX || Decoder::new(format).is_err() {
                return false;
            }
            self.parts += 1;
            self.end = 0;
            self.open = Some(Open {
                payload_type,
                format,
                decoder: Decoder::new(format).ok(),
                file: None,
            });
        }
        let Some(open) = &mut self.open else {
            return false;
        };
        if open.payload_type != payload_type {
            open.payload_type = payload_type;
            open.format = format;
            open.decoder = Decoder::new(format).ok();
        }
        let Some(decoder) = &mut open.decoder else {
            return false;
        };
        let bytes = decode(decoder, format, payload, &mut self.samples);
        let frames = bytes.len() / usize::from(format.channels) / sample_bytes(format);
        let chunk = Chunk { frame, bytes };
        self.end = self.end.max(frame + frames as i64);
        let file = open.file.get_or_insert_with(|| {
            let name = match self.parts {
                1 => self.name.clone(),
                part => format!("{}-part{part}", self.name),
            };
            begin(&self.folder, &name, format, frames)
        });
        // If the file has failed, the stream continues without it.
        if self.folder.lossless {
            let _ = file.send_blocking(chunk);
        } else {
            let _ = file.try_send(chunk);
        }
        true
    }
}

/// Returns the number of buffers that may wait for a file, if each has this number of frames.
fn queue_len(format: Format, frames: usize) -> usize {
    let rate = format.rate() as usize;
    (QUEUE_SECONDS * rate / frames.max(1)).clamp(QUEUE_MIN, QUEUE_MAX)
}

/// Starts the task that writes a file. It ends when the returned sender is dropped. The first
/// buffer has `frames` frames.
fn begin(folder: &Arc<Folder>, name: &str, format: Format, frames: usize) -> Sender<Chunk> {
    let path = folder.path.join(format!("{name}.wav"));
    let (leak, len) = match folder.lossless {
        true => (Leak::No, QUEUE_MIN),
        false => (Leak::New, queue_len(format, frames)),
    };
    let (sender, mut receiver) = leaky::channel::<Chunk>(len, leak);
    let warn = folder.warn.clone();
    let task = async move {
        let layout = Layout {
            rate: format.rate(),
            channels: format.channels.into(),
            sample_bytes: sample_bytes(format) as u16,
        };
        let recorded = match Recording::create(&path, layout) {
            Err(error) => Err(error),
            Ok(mut recording) => loop {
                let Ok(chunk) = receiver.recv().await else {
                    break recording.finish();
                };
                if let Err(error) = recording.put(chunk.frame, &chunk.bytes) {
                    recording.repair_header();
                    break Err(error);
                }
            },
        };
        let missed = receiver.leaked();
        if missed > 0 {
            // This cannot fail, because we wait for the warnings of all tasks.
            let _ = warn.send(format!(
                "{missed} packets are missing in the recording {}, because the file could not be written as fast as they arrived. The recording is silent there",
                path.display()
            ));
        }
        if let Err(error) = recorded {
            let error = with_causes(error);
            let _ = warn.send(format!("{error}. The recording ends there"));
        }
    };
    folder.pool.spawn(task).detach();
    sender
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::media::wav::Sound;

    #[test]
    fn a_disk_that_is_busy_for_three_seconds_loses_no_sound() {
        let path = std::env::temp_dir().join(format!("creel-cast-busy-{}", std::process::id()));
        // Packets of 125 µs, 1 ms and 20 ms.
        for (text, frames) in [("L16/48000", 6), ("L16/48000", 48), ("L16/8000", 160)] {
            let format: Format = text.parse().unwrap();
            let files = Files::new(path.clone(), false).unwrap();
            // The thread that writes the files is busy until we drop the sender.
            let (release, held) = mpsc::channel::<()>();
            files.pool.spawn(async move { held.recv() }).detach();
            let mut recorder = Recorder::new(files.folder(), "busy".into());
            let count = 3 * format.rate() as usize / frames;
            let payload = vec![1; frames * 2];
            for n in 0..count {
                let frame = (n * frames) as i64;
                assert!(recorder.record(96, format, frame, &payload));
            }
            drop((release, recorder));
            assert_eq!(files.finish(), Vec::<String>::new(), "{frames} frames");
            let sound = Sound::read(&path.join("busy.wav")).unwrap();
            assert_eq!(sound.samples, vec![0x101; count * frames]);
        }
        std::fs::remove_dir_all(path).unwrap();
    }
}
