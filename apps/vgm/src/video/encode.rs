//! Writes pictures as files: a stream of raw pictures (YUV4MPEG2), or one PNG file per picture.

use std::ffi::OsString;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use creel_console::AtomicFile;

use super::picture::Picture;

/// Writes a YUV4MPEG2 stream, which video programs read from files and pipes.
///
/// Source: yuv4mpeg(5) of the MJPEG tools.
#[derive(Debug)]
pub struct Y4m<W> {
    out: W,
}

impl<W: Write> Y4m<W> {
    /// Writes the header for pictures of this size.
    ///
    /// # Errors
    ///
    /// Returns the error of the writer.
    pub fn new(
        mut out: W,
        (width, height): (usize, usize),
        pictures_per_second: u32,
    ) -> io::Result<Self> {
        // The colour differences lie in the middle of four pixels, as in JPEG.
        writeln!(
            out,
            "YUV4MPEG2 W{width} H{height} F{pictures_per_second}:1 Ip A1:1 C420jpeg \
             XCOLORRANGE=LIMITED"
        )?;
        Ok(Y4m { out })
    }

    /// Writes the next picture, whose components must be [`Yuv420`](super::Components::Yuv420).
    ///
    /// # Errors
    ///
    /// Returns the error of the writer.
    pub fn write(&mut self, picture: &Picture) -> io::Result<()> {
        self.out.write_all(b"FRAME\n")?;
        picture
            .planes()
            .into_iter()
            .try_for_each(|plane| self.out.write_all(plane))
    }

    /// Returns the writer.
    pub fn into_inner(self) -> W {
        self.out
    }
}

/// Writes one PNG file per picture: for `scope.png`, these are `scope-000001.png` and so on.
#[derive(Debug)]
pub struct PictureFiles {
    path: PathBuf,
    size: (u32, u32),
}

impl PictureFiles {
    /// Creates the writer for pictures of this size.
    pub fn new(path: &Path, (width, height): (usize, usize)) -> Self {
        PictureFiles {
            path: path.to_owned(),
            size: (width as u32, height as u32),
        }
    }

    /// Returns the path of a picture, counted from 0.
    pub fn path(&self, picture: u64) -> PathBuf {
        let mut name = OsString::from(self.path.file_stem().unwrap_or_default());
        name.push(format!("-{:06}.png", picture + 1));
        self.path.with_file_name(name)
    }

    /// Writes a picture, whose components must be [`Rgb`](super::Components::Rgb).
    ///
    /// # Errors
    ///
    /// Returns the error of the file system.
    pub fn write(&self, number: u64, picture: &Picture) -> io::Result<()> {
        let planes = picture.planes();
        let mut pixels = vec![0; planes[0].len() * 3];
        for (component, plane) in planes.into_iter().enumerate() {
            for (pixel, value) in pixels.chunks_exact_mut(3).zip(plane) {
                pixel[component] = *value;
            }
        }
        let mut bytes = Vec::new();
        let mut encoder = png::Encoder::new(&mut bytes, self.size.0, self.size.1);
        encoder.set_color(png::ColorType::Rgb);
        encoder.set_depth(png::BitDepth::Eight);
        encoder.set_compression(png::Compression::Fast);
        let mut writer = encoder.write_header()?;
        writer.write_image_data(&pixels)?;
        writer.finish()?;
        let mut file = AtomicFile::create(&self.path(number))?;
        file.write_all(&bytes)?;
        // We do not wait for the disk, because thousands of pictures would take minutes.
        file.commit_growing().map(drop)
    }
}
