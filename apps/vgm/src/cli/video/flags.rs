//! The values of the flags of `creel-vgm video`.

use std::str::FromStr;
use std::time::Duration;

use clap::ValueEnum;
use creel_console::duration;
use creel_vgm::video::Layout;

/// The size of the pictures.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Size {
    /// The width in pixels.
    pub width: usize,
    /// The height in pixels.
    pub height: usize,
}

/// The range of widths and heights.
const PIXELS: std::ops::RangeInclusive<usize> = 64..=7680;

impl FromStr for Size {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let number = |text: &str| text.trim().parse::<usize>().ok();
        let size = text
            .split_once(['x', 'X', '×'])
            .and_then(|(width, height)| {
                Some(Size {
                    width: number(width)?,
                    height: number(height)?,
                })
            });
        let size = size.ok_or("expected a width and a height, for example 1280x720")?;
        if [size.width, size.height]
            .iter()
            .any(|pixels| !PIXELS.contains(pixels))
        {
            return Err("the width and the height must be between 64 and 7680 pixels".into());
        }
        if size.width % 2 + size.height % 2 != 0 {
            return Err("the width and the height must be even, because videos need it".into());
        }
        Ok(size)
    }
}

/// The presets of x264, from the fastest to the slowest.
pub const PRESETS: [&str; 9] = [
    "ultrafast",
    "superfast",
    "veryfast",
    "faster",
    "fast",
    "medium",
    "slow",
    "slower",
    "veryslow",
];

/// The arrangement of the panels.
#[derive(ValueEnum, Clone, Copy, Debug, Default, PartialEq)]
pub enum Arrangement {
    /// Columns and rows
    #[default]
    Grid,
    /// All panels below one another
    Column,
    /// All panels next to one another
    Row,
    /// One column per chip
    Chips,
}

impl Arrangement {
    /// Returns the layout of the library.
    pub fn layout(self) -> Layout {
        match self {
            Arrangement::Grid => Layout::Grid,
            Arrangement::Column => Layout::Column,
            Arrangement::Row => Layout::Row,
            Arrangement::Chips => Layout::Chips,
        }
    }
}

/// Parses the duration of the wave in a panel.
pub fn window(text: &str) -> Result<Duration, String> {
    let window = duration::parse_duration(text)?;
    let range = Duration::from_millis(1)..=Duration::from_millis(200);
    match range.contains(&window) {
        true => Ok(window),
        false => Err("expected a time from 1ms to 200ms".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn picture_sizes_have_two_even_numbers() {
        let size: Size = "1280x720".parse().unwrap();
        assert_eq!((size.width, size.height), (1280, 720));
        for text in [
            "1280", "x", "1281x720", "1280x721", "0x0", "8000x100", "-2x100", "axb",
        ] {
            assert!(text.parse::<Size>().is_err(), "{text}");
        }
    }

    #[test]
    fn window_durations_out_of_range_are_rejected() {
        assert_eq!(window("25ms"), Ok(Duration::from_millis(25)));
        assert!(window("0s").is_err() && window("1s").is_err() && window("wide").is_err());
    }
}
