//! From packets to recordings: decoded where they come, written by a pool of its own.

use crate::error::Error;
use crate::media::codec::Decoder;
use crate::media::format::Format;
use crate::media::recording::Recording;
use crate::media::wav::WavError;
use crate::stream::buffer::Buffer;
use creel::channel::leaky::{self, Leak, Sender};
use creel::{Pool, Wait};
use std::path::PathBuf;
use std::sync::{Arc, mpsc};

/// Buffers on their way to a file; what does not fit leaves a hole in the file only.
const QUEUE: usize = 256;

/// Where recordings are written, on a pool of its own because that blocks.
#[derive(Debug)]
pub(super) struct Files {
    /// It outlives its recordings: dropped, it would cancel them.
    pool: Arc<Pool>,
    folder: Arc<Folder>,
    warnings: mpsc::Receiver<String>,
}

/// What recorders share.
#[derive(Debug)]
pub(super) struct Folder {
    pool: Arc<Pool>,
    path: PathBuf,
    warn: mpsc::Sender<String>,
    lossless: bool,
}

impl Files {
    /// In this folder, which is made if it is not there. What comes faster than it can be written is
    /// waited for, or left out.
    ///
    /// # Errors
    ///
    /// If it cannot be made.
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

    /// What recorders need.
    pub(super) fn folder(&self) -> Arc<Folder> {
        Arc::clone(&self.folder)
    }

    /// Waits until all files are finished; what went wrong with them. All recorders are gone.
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

/// One source's recording; its file is made when there is sound.
#[derive(Debug)]
pub(super) struct Recorder {
    folder: Arc<Folder>,
    name: String,
    open: Option<Open>,
    end: i64,
}

#[derive(Debug)]
struct Open {
    payload_type: u8,
    format: Format,
    decoder: Option<Decoder>,
    file: Sender<Buffer>,
}

impl Recorder {
    /// Into `NAME.wav`.
    pub(super) fn new(folder: Arc<Folder>, name: String) -> Self {
        Recorder {
            folder,
            name,
            open: None,
            end: 0,
        }
    }

    /// The frame after the last one heard.
    pub(super) fn end(&self) -> i64 {
        self.end
    }

    /// Puts a payload's sound at a frame; false where it cannot be heard: no codec, or another
    /// rate than the recording's.
    pub(super) fn record(
        &mut self,
        payload_type: u8,
        format: Format,
        frame: i64,
        payload: &[u8],
    ) -> bool {
        let open = match &mut self.open {
            Some(open) => open,
            none => none.insert(Open {
                payload_type,
                format,
                decoder: Decoder::new(format).ok(),
                file: begin(&self.folder, &self.name, format),
            }),
        };
        if open.payload_type != payload_type {
            let is_alike =
                open.format.rate() == format.rate() && open.format.channels == format.channels;
            if !is_alike {
                return false;
            }
            open.payload_type = payload_type;
            open.decoder = Decoder::new(format).ok();
        }
        let Some(decoder) = &mut open.decoder else {
            return false;
        };
        let mut buffer = Buffer::new(0);
        decoder.decode(payload, &mut buffer.samples);
        // The place in the file, of which the sign matters at the beginning.
        buffer.sequence = frame as u64;
        let frames = buffer.samples.len() / usize::from(format.channels);
        self.end = self.end.max(frame + frames as i64);
        // Without a file any more, the stream goes on.
        if self.folder.lossless {
            let _ = open.file.send_blocking(buffer);
        } else {
            let _ = open.file.try_send(buffer);
        }
        true
    }
}

/// Begins a file, fed through the queue until its sender is dropped.
fn begin(folder: &Arc<Folder>, name: &str, format: Format) -> Sender<Buffer> {
    let path = folder.path.join(format!("{name}.wav"));
    let leak = if folder.lossless { Leak::No } else { Leak::New };
    let (sender, mut receiver) = leaky::channel::<Buffer>(QUEUE, leak);
    let warn = folder.warn.clone();
    let task = async move {
        let recorded = match Recording::create(&path, format.rate(), u16::from(format.channels)) {
            Err(error) => Err(error),
            Ok(mut recording) => loop {
                let Ok(buffer) = receiver.recv().await else {
                    break recording.finish();
                };
                if let Err(error) = recording.put(buffer.sequence as i64, &buffer.samples) {
                    recording.repair_header();
                    break Err(error);
                }
            },
        };
        let missed = receiver.leaked();
        if missed > 0 {
            // The receiver waits for all.
            let _ = warn.send(format!(
                "{}: {missed} packets came faster than it could be written; they are silence in it",
                path.display()
            ));
        }
        if let Err(error) = recorded {
            let _ = warn.send(format!("{error}; the recording ends there"));
        }
    };
    folder.pool.spawn(task).detach();
    sender
}
