//! The places of the panels in the picture.

use std::ops::Range;

use super::picture::Rect;

/// The arrangement of the panels.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Layout {
    /// Columns and rows, so that the panels are about three times as wide as high.
    #[default]
    Grid,
    /// All panels below one another.
    Column,
    /// All panels next to one another.
    Row,
    /// One column per chip.
    Chips,
}

/// The ratio of width and height that [`Layout::Grid`] aims at.
const ASPECT: f64 = 3.0;

impl Layout {
    /// Returns the rectangle of each panel in a picture of this size. `chips` has the number of
    /// voices of each chip, in the order of the panels.
    pub fn panels(self, (width, height): (usize, usize), chips: &[usize]) -> Vec<Rect> {
        let voices: usize = chips.iter().sum();
        let columns = match self {
            Layout::Grid => return grid((width, height), voices),
            Layout::Column => vec![voices],
            Layout::Row => vec![1; voices],
            Layout::Chips => chips.to_vec(),
        };
        place((width, height), &columns)
    }
}

/// Divides the voices into columns of about the same length, in the order of reading down.
fn grid((width, height): (usize, usize), voices: usize) -> Vec<Rect> {
    let error = |columns: &usize| {
        let rows = voices.div_ceil(*columns);
        let aspect = (width as f64 / *columns as f64) / (height as f64 / rows as f64);
        // An empty place for a panel is worse than panels of unusual proportions.
        let empty = (columns * rows - voices) as f64 / voices as f64;
        libm::log(aspect / ASPECT).abs() + empty
    };
    let columns = (1..=voices).min_by(|a, b| error(a).total_cmp(&error(b)));
    let columns = columns.unwrap_or(1);
    let lengths = (0..columns).map(|column| part(voices, columns, column).len());
    place((width, height), &lengths.collect::<Vec<_>>())
}

/// Places columns with these numbers of panels next to one another.
fn place((width, height): (usize, usize), columns: &[usize]) -> Vec<Rect> {
    let mut panels = Vec::new();
    for (column, rows) in columns.iter().enumerate() {
        let x = part(width, columns.len(), column);
        for row in 0..*rows {
            let y = part(height, *rows, row);
            panels.push(Rect {
                x: x.start,
                y: y.start,
                width: x.len(),
                height: y.len(),
            });
        }
    }
    panels
}

/// Returns one of `parts` parts of a length. The parts differ by at most one, and together they
/// cover the whole length.
fn part(length: usize, parts: usize, index: usize) -> Range<usize> {
    length * index / parts..length * (index + 1) / parts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn panels_cover_the_picture_without_overlap() {
        for layout in [Layout::Grid, Layout::Column, Layout::Row, Layout::Chips] {
            for chips in [&[1][..], &[6, 4], &[3, 1, 7], &[16], &[28, 3]] {
                let (width, height) = (322, 182);
                let panels = layout.panels((width, height), chips);
                assert_eq!(panels.len(), chips.iter().sum::<usize>());
                let mut covered = vec![0; width * height];
                for panel in panels {
                    for y in panel.y..panel.y + panel.height {
                        for x in panel.x..panel.x + panel.width {
                            covered[y * width + x] += 1;
                        }
                    }
                }
                assert!(
                    covered.iter().all(|times| *times == 1),
                    "{layout:?} {chips:?}"
                );
            }
        }
    }

    #[test]
    fn a_grid_of_16_voices_has_three_columns_on_a_wide_screen() {
        let panels = Layout::Grid.panels((1920, 1080), &[6, 10]);
        let columns = panels.iter().filter(|panel| panel.y == 0).count();
        assert!((2..=4).contains(&columns), "{columns} columns");
    }
}
