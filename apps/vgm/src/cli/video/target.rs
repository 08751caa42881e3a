//! The file of a video: raw pictures, PNG files, or a video file that ffmpeg encodes.

use std::io::{self, BufWriter, ErrorKind, Stdout, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};

use anyhow::{Context, anyhow};
use creel::Pool;
use creel_console::{AtomicFile, Exit, Failure, Interrupt};
use creel_vgm::effects::Effects;
use creel_vgm::format::Song;
use creel_vgm::mix::SampleFormat;
use creel_vgm::output::{Job, Outcome, OutputSettings};
use creel_vgm::render::Settings;
use creel_vgm::video::{Options, Picture, PictureFiles, Y4m};
use creel_vgm::wav::{Container, Layout};

/// The kind of the file.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Kind {
    /// A video file, encoded by ffmpeg.
    Encoded,
    /// A file of raw pictures.
    Raw,
    /// Raw pictures on stdout.
    Stdout,
    /// One PNG file per picture.
    Pictures,
}

/// The endings of video files, with the flags of ffmpeg: the format and the codecs.
const ENCODED: [(&str, &[&str]); 4] = [
    ("mp4", &["-f", "mp4", "-movflags", "+faststart"]),
    ("mov", &["-f", "mov", "-movflags", "+faststart"]),
    ("mkv", &["-f", "matroska"]),
    ("webm", &["-f", "webm"]),
];
/// The codecs of all formats except WebM. Without B-frames, encoding takes a third less time, and
/// the files are hardly larger, because the waves of consecutive pictures are unrelated.
const H264: [&str; 8] = ["-c:v", "libx264", "-bf", "0", "-crf", "23", "-c:a", "aac"];
/// The codecs of WebM.
const VP9: [&str; 16] = [
    "-c:v",
    "libvpx-vp9",
    "-deadline",
    "realtime",
    "-cpu-used",
    "8",
    "-row-mt",
    "1",
    "-tile-columns",
    "2",
    "-crf",
    "24",
    "-b:v",
    "0",
    "-c:a",
    "libopus",
];

impl Kind {
    /// Returns the kind of a file from its ending.
    ///
    /// # Errors
    ///
    /// Returns a message if the ending is unknown.
    pub fn of(path: &Path) -> Result<Kind, String> {
        if path.as_os_str() == "-" {
            return Ok(Kind::Stdout);
        }
        match ending(path).as_str() {
            "y4m" => Ok(Kind::Raw),
            "png" => Ok(Kind::Pictures),
            ending if ENCODED.iter().any(|(own, _)| *own == ending) => Ok(Kind::Encoded),
            _ => Err(format!(
                "cannot write {}: expected a file name that ends in .mp4, .mkv, .mov, .webm, .y4m \
                 or .png",
                path.display()
            )),
        }
    }

    /// Checks that the folder of the file exists, and that the file, or the first picture, does not
    /// exist, unless it may be replaced.
    pub fn check_new(self, path: &Path, overwrite: bool) -> anyhow::Result<()> {
        let first = match self {
            Kind::Stdout => return Ok(()),
            Kind::Pictures => PictureFiles::new(path, (0, 0)).path(0),
            Kind::Encoded | Kind::Raw => path.to_owned(),
        };
        let folder = first
            .parent()
            .filter(|folder| !folder.as_os_str().is_empty());
        if let Some(folder) = folder.filter(|folder| !folder.is_dir()) {
            let (file, folder) = (path.display(), folder.display());
            let message = format!("cannot write {file}: the folder {folder} does not exist");
            return Err(Failure::new(Exit::Usage, message).into());
        }
        match first.symlink_metadata() {
            Ok(_) if !overwrite => {
                let message = format!("{} exists. Use --overwrite to replace it", first.display());
                Err(Failure::new(Exit::SomeFailed, message).into())
            }
            _ => Ok(()),
        }
    }
}

fn ending(path: &Path) -> String {
    let ending = path.extension().unwrap_or_default();
    ending.to_string_lossy().to_ascii_lowercase()
}

/// Checks that ffmpeg can be started.
pub fn check_ffmpeg(output: &Path) -> anyhow::Result<()> {
    let started = Command::new("ffmpeg")
        .arg("-version")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    let reason = match started {
        Ok(_) => return Ok(()),
        Err(error) if error.kind() == ErrorKind::NotFound => "ffmpeg is not installed".to_owned(),
        Err(error) => format!("cannot start ffmpeg: {error}"),
    };
    let message = format!(
        "cannot write {}: {reason}. Install ffmpeg, or write raw pictures (-o FILE.y4m) or PNG \
         files (-o FILE.png)",
        output.display()
    );
    Err(Failure::new(Exit::NotFound, message).into())
}

/// The sound of the song, in a temporary WAV file next to the video.
pub struct Sound {
    file: AtomicFile,
}

impl Sound {
    /// Renders the sound.
    pub fn render(
        song: &Song,
        settings: &Settings,
        pool: &Pool,
        output: &Path,
        interrupt: &Interrupt,
    ) -> anyhow::Result<Sound> {
        let cannot = || format!("cannot render the sound for {}", output.display());
        let effects = Effects::default();
        let how = OutputSettings {
            settings,
            layout: Layout {
                container: Container::Wav,
                samples: SampleFormat::I16,
            },
            effects: &effects,
            gain: None,
            track: None,
            split: Some(pool),
        };
        let mut file = AtomicFile::create(output).with_context(cannot)?;
        let mut writer = BufWriter::new(&mut file);
        let go_on = |_| !interrupt.requested();
        let outcome = Job::default()
            .render(song, how, |bytes| writer.write_all(bytes), go_on)
            .with_context(cannot)?;
        writer.flush().with_context(cannot)?;
        drop(writer);
        match outcome {
            Outcome::Done(_) => Ok(Sound { file }),
            Outcome::Cancelled => {
                interrupt.check()?;
                Err(anyhow!(cannot()))
            }
        }
    }
}

/// The target of the pictures.
pub enum Target {
    /// A file of raw pictures.
    Raw(Y4m<AtomicFile>),
    /// Raw pictures on stdout.
    Stdout(Y4m<Stdout>),
    /// PNG files, and the number of the next picture.
    Pictures(PictureFiles, u64),
    /// A running ffmpeg.
    Encoded(Box<Ffmpeg>),
}

impl Target {
    /// Creates the file or starts ffmpeg.
    pub fn open(
        kind: Kind,
        path: &Path,
        options: &Options,
        (sound, preset): (Option<Sound>, &str),
    ) -> anyhow::Result<Target> {
        let (size, rate) = (options.size, options.pictures_per_second);
        Ok(match (kind, sound) {
            (Kind::Encoded, Some(sound)) => {
                Target::Encoded(Box::new(Ffmpeg::start(path, options, (sound, preset))?))
            }
            (Kind::Stdout, _) => Target::Stdout(Y4m::new(io::stdout(), size, rate)?),
            (Kind::Pictures, _) => Target::Pictures(PictureFiles::new(path, size), 0),
            _ => Target::Raw(Y4m::new(AtomicFile::create(path)?, size, rate)?),
        })
    }

    /// Writes the next pictures.
    pub fn write(&mut self, pool: &Pool, pictures: &[Picture]) -> io::Result<()> {
        match self {
            Target::Raw(raw) => pictures.iter().try_for_each(|picture| raw.write(picture)),
            Target::Stdout(raw) => pictures.iter().try_for_each(|picture| raw.write(picture)),
            Target::Encoded(ffmpeg) => pictures.iter().try_for_each(|picture| {
                let pictures = ffmpeg.pictures.as_mut();
                pictures.map_or(Ok(()), |pictures| pictures.write(picture))
            }),
            Target::Pictures(files, next) => {
                let first = *next;
                *next += pictures.len() as u64;
                // Compressing a picture takes longer than drawing it.
                pool.try_for_each_indexed(pictures, |index, picture| {
                    files.write(first + index as u64, picture)
                })
            }
        }
    }

    /// Finishes the file, which then appears under its name.
    pub fn finish(self) -> anyhow::Result<()> {
        match self {
            Target::Raw(raw) => Ok(raw.into_inner().commit()?),
            Target::Stdout(raw) => Ok(raw.into_inner().flush()?),
            Target::Pictures(..) => Ok(()),
            Target::Encoded(ffmpeg) => ffmpeg.finish(),
        }
    }

    /// Returns the reason for an error of [`write`](Self::write). If ffmpeg has closed the pipe,
    /// the reason is the failure of ffmpeg.
    pub fn explain(self, error: io::Error) -> anyhow::Error {
        match self {
            Target::Encoded(ffmpeg) => match ffmpeg.finish() {
                Err(reason) => reason,
                Ok(()) => anyhow!("ffmpeg has closed its input: {error}"),
            },
            _ => error.into(),
        }
    }
}

/// A running ffmpeg, which reads the pictures from a pipe.
pub struct Ffmpeg {
    process: Child,
    pictures: Option<Y4m<ChildStdin>>,
    /// The file that ffmpeg writes. It has a temporary name until it is complete.
    file: Option<AtomicFile>,
    /// We keep the sound until ffmpeg has read it.
    _sound: Sound,
}

/// The number of bytes of the pipe to ffmpeg, on Linux. By default, Linux grants no larger pipe to
/// a process without privileges.
#[cfg(target_os = "linux")]
const PIPE_BYTES: usize = 1 << 20;

impl Ffmpeg {
    fn start(
        path: &Path,
        options: &Options,
        (sound, preset): (Sound, &str),
    ) -> anyhow::Result<Ffmpeg> {
        let file = AtomicFile::create(path)?;
        let ending = ending(path);
        let format = ENCODED.iter().find(|(own, _)| *own == ending);
        let format = format.map_or(&[][..], |(_, flags)| flags);
        let mut command = Command::new("ffmpeg");
        command.args(["-nostdin", "-hide_banner", "-loglevel", "error", "-y"]);
        command.args(["-f", "yuv4mpegpipe", "-i", "pipe:0"]);
        command.args(["-ss", &seconds(options.start_seconds)]);
        if let Some(most) = options.most_seconds {
            command.args(["-t", &seconds(most)]);
        }
        command
            .args(["-f", "wav", "-i"])
            .arg(absolute(sound.file.partial()));
        command.args(["-map", "0:v", "-map", "1:a"]);
        let colors = "colorspace=bt709:color_primaries=bt709:color_trc=bt709:range=tv";
        command.args(["-vf", &format!("setparams={colors}"), "-pix_fmt", "yuv420p"]);
        match ending.as_str() {
            "webm" => command.args(VP9),
            _ => command.args(H264).args(["-preset", preset]),
        };
        command
            .args(["-b:a", "192k"])
            .args(format)
            .arg(absolute(file.partial()));
        let mut process = command
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .spawn()
            .context("cannot start ffmpeg")?;
        let pipe = process.stdin.take().context("ffmpeg has no input")?;
        // A smaller pipe also works, so we ignore the error.
        #[cfg(target_os = "linux")]
        let _ = rustix::pipe::fcntl_setpipe_size(&pipe, PIPE_BYTES);
        let pictures = Y4m::new(pipe, options.size, options.pictures_per_second);
        Ok(Ffmpeg {
            process,
            pictures: pictures.ok(),
            file: Some(file),
            _sound: sound,
        })
    }

    /// Waits until ffmpeg has written the file, and publishes it.
    fn finish(mut self) -> anyhow::Result<()> {
        // This closes the pipe, so that ffmpeg sees the end of the pictures.
        drop(self.pictures.take());
        let status = self.process.wait().context("cannot wait for ffmpeg")?;
        if !status.success() {
            return Err(anyhow!(
                "ffmpeg has failed ({status}). Its message is above"
            ));
        }
        match self.file.take() {
            Some(file) => Ok(file.commit()?),
            None => Ok(()),
        }
    }
}

/// Ends ffmpeg if the video is not complete.
impl Drop for Ffmpeg {
    fn drop(&mut self) {
        if let Ok(None) = self.process.try_wait() {
            // We ignore the errors, because the process may have ended in between.
            let _ = self.process.kill();
            let _ = self.process.wait();
        }
    }
}

fn seconds(seconds: f64) -> String {
    format!("{seconds:.6}")
}

/// Returns an absolute path, because ffmpeg would take a name like `a:b` for a protocol, and `-x`
/// for a flag.
fn absolute(path: &Path) -> PathBuf {
    std::path::absolute(path).unwrap_or(path.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_extension_selects_the_kind_of_output() {
        for (name, kind) in [
            ("a.mp4", Kind::Encoded),
            ("a.WEBM", Kind::Encoded),
            ("a.y4m", Kind::Raw),
            ("dir.x/a.png", Kind::Pictures),
            ("-", Kind::Stdout),
        ] {
            assert_eq!(Kind::of(Path::new(name)), Ok(kind), "{name}");
        }
        for name in ["a", "a.avi", "mp4", ".png"] {
            assert!(Kind::of(Path::new(name)).is_err(), "{name}");
        }
    }
}
