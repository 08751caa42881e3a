//! Pictures of the music: an oscilloscope view of a song, with one panel per voice.
//!
//! We make some pictures at a time, in two steps that both use all workers of a pool. First, each
//! voice renders its part of the wave and finds the place to draw ([`trigger`]). This depends on
//! the previous picture, so we divide the work by voices. Then we draw the pictures. They do not
//! depend on each other, so we divide the work by pictures.
//!
//! Invariant: with the same song, [`Settings`] and [`Options`], picture `n` has the same bytes.
//! They do not depend on the number of workers or on the number of pictures that we make at a time.

mod encode;
mod font;
mod layout;
mod picture;
mod trigger;
mod voice;

use creel::Pool;

pub use encode::{PictureFiles, Y4m};
pub use layout::Layout;
pub use picture::{Color, Components, Picture, Rect, Stroke};
pub use trigger::Trigger;
pub use voice::{View, Voice};

use crate::chips::factory::missing;
use crate::error::{Error, Result};
use crate::format::Song;
use crate::render::{Lane, Settings, SplitPlayer};

/// The look and the length of a video.
#[derive(Debug, Clone, PartialEq)]
pub struct Options {
    /// The width and the height, in pixels.
    pub size: (usize, usize),
    /// The number of pictures per second.
    pub pictures_per_second: u32,
    /// The arrangement of the panels.
    pub layout: Layout,
    /// The duration of the wave in a panel, in seconds.
    pub window_seconds: f64,
    /// The time in the song at which the video starts, in seconds.
    pub start_seconds: f64,
    /// The longest duration of the video, in seconds, or `None` for the rest of the song.
    pub most_seconds: Option<f64>,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            size: (1920, 1080),
            pictures_per_second: 60,
            layout: Layout::default(),
            window_seconds: 0.04,
            start_seconds: 0.0,
            most_seconds: None,
        }
    }
}

/// The background of the panels.
const BACKGROUND: Color = [12, 15, 20];
/// The lines between the panels.
const BORDER: Color = [48, 54, 64];
/// The line at the level 0 of a wave.
const AXIS: Color = [32, 37, 45];
/// The labels.
const LABEL: Color = [200, 206, 214];
/// The colours of the waves, one per chip.
const WAVES: [Color; 8] = [
    [96, 196, 255],
    [255, 184, 77],
    [128, 226, 126],
    [255, 120, 140],
    [190, 150, 255],
    [94, 224, 205],
    [240, 226, 104],
    [255, 150, 214],
];
/// The height of a picture, in pixels, at which a dot of the labels is one pixel. Dots grow with
/// the height.
const DOT_HEIGHT: usize = 540;

/// A panel of the picture.
struct Panel {
    rect: Rect,
    color: Color,
}

/// The video of a song.
pub struct Video<'s> {
    voices: Vec<Voice<'s>>,
    panels: Vec<Panel>,
    labels: Vec<String>,
    background: Picture,
    thickness: f32,
    /// The frame of the song in the middle of the first picture.
    start: u64,
    sample_rate: u32,
    pictures_per_second: u32,
    /// The number of samples across a panel.
    length: f64,
    /// The number of finished pictures.
    next: u64,
    pictures: u64,
}

impl<'s> Video<'s> {
    /// Prepares the video of a song. It plays the whole song once to find the voices that sound,
    /// and their size. Returns `None` if `go_on` returned false.
    ///
    /// # Errors
    ///
    /// - [`Error::Unsupported`] if no voice that is both supported and selected makes a sound, or
    ///   if the video starts after the end of the song.
    /// - [`Error::Malformed`] if no chip can be played, because one cannot run at its clock.
    pub fn new(
        song: &'s Song,
        settings: &Settings,
        options: &Options,
        (components, pool): (Components, &Pool),
        go_on: impl Fn() -> bool + Sync,
    ) -> Result<Option<Self>> {
        let (frames, _) = settings.frames(song);
        let rate = f64::from(settings.sample_rate);
        let start = (options.start_seconds * rate).round() as u64;
        if start >= frames {
            let seconds = frames as f64 / rate;
            let reason = format!("the song ends after {seconds:.1} s, before the video starts");
            return Err(Error::Unsupported(reason));
        }
        let step = settings.sample_rate as usize / options.pictures_per_second.max(1) as usize;
        let lanes = lanes(song, settings)?;
        let sizes = pool.try_map(&lanes, |lane| {
            Voice::new(song, settings, *lane).map(|mut voice| voice.measure(step.max(1), &go_on))
        })?;
        let Some(sizes) = sizes.into_iter().collect::<Option<Vec<f32>>>() else {
            return Ok(None);
        };
        let mut video = Video {
            voices: Vec::new(),
            panels: Vec::new(),
            labels: Vec::new(),
            background: Picture::new(options.size, components, BACKGROUND),
            thickness: (options.size.1 as f32 / DOT_HEIGHT as f32 * 1.25).max(1.0),
            start,
            sample_rate: settings.sample_rate,
            pictures_per_second: options.pictures_per_second,
            length: options.window_seconds * rate,
            next: 0,
            pictures: 0,
        };
        let seconds = (frames - start) as f64 / rate;
        let seconds = options
            .most_seconds
            .map_or(seconds, |most| most.min(seconds));
        video.pictures = (seconds * f64::from(options.pictures_per_second))
            .ceil()
            .max(1.0) as u64;
        let mut shown: Vec<Lane> = Vec::new();
        for (lane, size) in lanes.into_iter().zip(sizes).filter(|(_, size)| *size > 0.0) {
            let mut voice = Voice::new(song, settings, lane)?;
            voice.set_size(size);
            video.voices.push(voice);
            video.labels.push(lane.name(&song.header));
            shown.push(lane);
        }
        if shown.is_empty() {
            let reason = "no voice of the song makes a sound, so there is nothing to draw";
            return Err(Error::Unsupported(reason.into()));
        }
        video.place_panels(options, &shown);
        Ok(Some(video))
    }

    /// Places the panels and draws the parts that are the same in all pictures.
    fn place_panels(&mut self, options: &Options, shown: &[Lane]) {
        let chips: Vec<&[Lane]> = shown.chunk_by(|a, b| a.chip == b.chip).collect();
        let lengths: Vec<usize> = chips.iter().map(|lanes| lanes.len()).collect();
        let rects = options.layout.panels(options.size, &lengths);
        let colors = lengths.iter().enumerate();
        let colors = colors.flat_map(|(chip, voices)| vec![WAVES[chip % WAVES.len()]; *voices]);
        let dot = (options.size.1 / DOT_HEIGHT).max(1);
        for ((rect, color), label) in rects.into_iter().zip(colors).zip(&self.labels) {
            self.background.fill(rect, BORDER);
            let inner = Rect {
                width: rect.width.saturating_sub(dot),
                height: rect.height.saturating_sub(dot),
                ..rect
            };
            self.background.fill(inner, BACKGROUND);
            let axis = Rect {
                y: rect.y + (inner.height - dot.min(inner.height)) / 2,
                height: dot,
                ..inner
            };
            self.background.fill(axis, AXIS);
            let letters = (inner.width / dot).saturating_sub(4) / font::ADVANCE;
            let label: String = label.chars().take(letters).collect();
            if inner.height >= (font::HEIGHT + 6) * dot {
                let corner = (rect.x + 4 * dot, rect.y + 4 * dot);
                self.background.write(corner, &label, dot, LABEL);
            }
            self.panels.push(Panel { rect: inner, color });
        }
    }

    /// Returns the number of pictures.
    pub fn pictures(&self) -> u64 {
        self.pictures
    }

    /// Returns the labels of the panels, in their order.
    pub fn labels(&self) -> &[String] {
        &self.labels
    }

    /// Returns a picture with the right size and components, into which
    /// [`draw`](Self::draw) can draw.
    pub fn blank(&self) -> Picture {
        self.background.clone()
    }

    /// Draws the next pictures, and returns their number, which is smaller than that of `pictures`
    /// at the end.
    pub fn draw(&mut self, pool: &Pool, pictures: &mut [Picture]) -> usize {
        let left = usize::try_from(self.pictures - self.next).unwrap_or(usize::MAX);
        let count = pictures.len().min(left);
        let centre = |picture: u64| {
            let frames = u128::from(picture) * u128::from(self.sample_rate);
            self.start + (frames / u128::from(self.pictures_per_second)) as u64
        };
        let centres: Vec<u64> = (self.next..self.next + count as u64).map(centre).collect();
        let length = self.length;
        pool.for_each(&mut self.voices, |voice| voice.advance(&centres, length));
        let waves: Vec<(&[f32], &[View])> = self.voices.iter().map(Voice::waves).collect();
        let (panels, background, thickness) = (&self.panels, &self.background, self.thickness);
        pool.for_each_indexed(&mut pictures[..count], |index, picture| {
            picture.copy_from(background);
            for ((samples, views), panel) in waves.iter().zip(panels) {
                let wave = (*samples, views[index].start, length);
                let stroke = Stroke {
                    color: panel.color,
                    thickness,
                };
                picture.draw_wave(panel.rect, wave, stroke);
            }
        });
        self.next += count as u64;
        count
    }
}

/// Returns the voices of the song that are supported and selected.
fn lanes(song: &Song, settings: &Settings) -> Result<Vec<Lane>> {
    let mut lanes = SplitPlayer::new(song, settings)?.lanes();
    let missing = missing(song);
    lanes.retain(|lane| {
        settings.chips.has_voice(lane.chip, lane.voice) && !missing.contains(&lane.chip)
    });
    Ok(lanes)
}
