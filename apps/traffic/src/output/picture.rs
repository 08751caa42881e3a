//! Draws the map as PNG or SVG, with each road coloured by its occupancy. We use the same colours
//! as the page of `creel-traffic watch`.

use crate::network::Network;
use std::fmt::Write as _;
use std::io;
use tiny_skia::{Color, Paint, PathBuilder, Pixmap, Stroke, Transform};

/// The number of shades between an empty road and a full one.
const SHADES: usize = 32;
/// The colour scale from empty to full. Each entry has an occupancy, and the red, green and blue
/// parts of its colour from 0 to 255.
const COLOURS: [(f32, [f32; 3]); 5] = [
    (0.0, [51.0, 71.0, 94.0]),
    (0.12, [46.0, 191.0, 112.0]),
    (0.35, [242.0, 194.0, 79.0]),
    (0.6, [242.0, 99.0, 26.0]),
    (0.9, [214.0, 38.0, 61.0]),
];
const BACKGROUND: [u8; 3] = [16, 20, 26];

fn colour(shade: usize) -> [u8; 3] {
    let full = (shade as f32 / (SHADES - 1) as f32).min(COLOURS[4].0);
    let above = COLOURS.iter().position(|stop| full <= stop.0).unwrap_or(4);
    let (low, high) = (COLOURS[above.saturating_sub(1)], COLOURS[above]);
    let share = if high.0 > low.0 {
        (full - low.0) / (high.0 - low.0)
    } else {
        0.0
    };
    [0, 1, 2].map(|i| (low.1[i] + (high.1[i] - low.1[i]) * share).round() as u8)
}

/// A picture of the map. It keeps the positions of all roads, so that you can draw several states
/// of the same network.
pub struct Picture {
    width: u32,
    height: u32,
    /// The start and end of each road in pixels. Each direction is shifted a little to its right.
    lines: Vec<[f32; 4]>,
    stroke: f32,
}

impl Picture {
    /// Creates a picture of the given width. The height follows from the map. Both are at most
    /// 16,384 pixels.
    pub fn new(network: &Network, width: u32) -> Self {
        const SIDE_MAX: f64 = 16_384.0;
        let places = network.coordinates_m();
        let [west, south, east, north] = Network::bounds_m(&places);
        let (across, along) = ((east - west).max(1.0), (north - south).max(1.0));
        let width = f64::from(width).clamp(16.0, SIDE_MAX);
        let margin = width * 0.02;
        let scale = ((width - 2.0 * margin) / across).min((SIDE_MAX - 2.0 * margin) / along);
        let height = (along * scale + 2.0 * margin).ceil().max(16.0);
        let at = |junction: u32| {
            let (x, y) = places[junction as usize];
            (
                margin + (x - west) * scale,
                height - margin - (y - south) * scale,
            )
        };
        let mut total = 0.0;
        let mut lines = Vec::with_capacity(network.links().len());
        for road in network.links() {
            let ((ax, ay), (bx, by)) = (at(road.from), at(road.to));
            let (dx, dy) = (bx - ax, by - ay);
            let length = libm::hypot(dx, dy);
            total += length;
            let off = (length * 0.04).min(8.0 * scale.max(0.1)) / length.max(1e-9);
            let (ox, oy) = (-dy * off, dx * off);
            lines.push([ax + ox, ay + oy, bx + ox, by + oy].map(|value| value as f32));
        }
        let mean = total / lines.len().max(1) as f64;
        Self {
            width: width as u32,
            height: height as u32,
            lines,
            stroke: (mean / 12.0).clamp(0.7, 6.0) as f32,
        }
    }

    /// Groups the roads by shade. `full` returns the occupancy of a road, from 0 to 1.
    fn shades(&self, full: impl Fn(usize) -> f32) -> [Vec<usize>; SHADES] {
        let mut shades = [const { Vec::new() }; SHADES];
        for road in 0..self.lines.len() {
            let shade = (full(road).clamp(0.0, 1.0) * (SHADES - 1) as f32).ceil() as usize;
            shades[shade].push(road);
        }
        shades
    }

    /// Returns the picture as SVG.
    pub fn svg(&self, full: impl Fn(usize) -> f32) -> String {
        let (width, height) = (self.width, self.height);
        let [r, g, b] = BACKGROUND;
        let mut text = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" viewBox=\"0 0 {width} {height}\">\n<rect width=\"100%\" height=\"100%\" fill=\"#{r:02x}{g:02x}{b:02x}\"/>\n<g fill=\"none\" stroke-width=\"{:.2}\">\n",
            self.stroke
        );
        let shades = self.shades(full);
        for (shade, roads) in shades
            .iter()
            .enumerate()
            .filter(|(_, roads)| !roads.is_empty())
        {
            let [r, g, b] = colour(shade);
            let _ = write!(text, "<path stroke=\"#{r:02x}{g:02x}{b:02x}\" d=\"");
            for &road in roads {
                let [ax, ay, bx, by] = self.lines[road];
                let _ = write!(text, "M{ax:.1} {ay:.1}L{bx:.1} {by:.1}");
            }
            text.push_str("\"/>\n");
        }
        text.push_str("</g>\n</svg>\n");
        text
    }

    /// Returns the picture as PNG.
    ///
    /// # Errors
    /// Returns an error if there is not enough memory for the picture.
    pub fn png(&self, full: impl Fn(usize) -> f32) -> io::Result<Vec<u8>> {
        let mut pixels = Pixmap::new(self.width, self.height).ok_or_else(|| {
            io::Error::other(
                "cannot create the picture, because it would be too large: use a smaller --width",
            )
        })?;
        let [r, g, b] = BACKGROUND;
        pixels.fill(Color::from_rgba8(r, g, b, 255));
        let stroke = Stroke {
            width: self.stroke,
            ..Stroke::default()
        };
        for (shade, roads) in self.shades(full).iter().enumerate() {
            let mut paint = Paint::default();
            let [r, g, b] = colour(shade);
            paint.set_color_rgba8(r, g, b, 255);
            paint.anti_alias = true;
            // We draw short paths, because the renderer sorts the edges of each path, and this
            // takes longer than linear time.
            for piece in roads.chunks(256) {
                let mut lines = PathBuilder::new();
                for &road in piece {
                    let [ax, ay, bx, by] = self.lines[road];
                    lines.move_to(ax, ay);
                    lines.line_to(bx, by);
                }
                if let Some(path) = lines.finish() {
                    pixels.stroke_path(&path, &paint, &stroke, Transform::identity(), None);
                }
            }
        }
        pixels.encode_png().map_err(io::Error::other)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::network::{Junction, Link, RawNetwork};

    #[test]
    fn stroke_width_follows_the_mean_road_length() {
        let junction = |x| Junction {
            x,
            ..Junction::default()
        };
        let road = |from: u32| Link {
            from,
            to: from + 1,
            length_mm: 100_000,
            speed_mm_s: 10_000,
            headway_ms: 0,
            lanes: 1,
            approach: 0,
        };
        for (roads, expected) in [(6_u32, 6.0), (19, 4.04), (500, 0.7)] {
            let raw = RawNetwork {
                junctions: (0..=roads)
                    .map(|i| junction(f64::from(i) * 100.0))
                    .collect(),
                links: (0..roads).map(road).collect(),
                has_coordinates: true,
                ..RawNetwork::default()
            };
            let picture = Picture::new(&Network::new(raw).unwrap(), 960);
            let svg = picture.svg(|_| 1.0);
            assert!(
                svg.contains(&format!("stroke-width=\"{expected:.2}\"")),
                "{svg}"
            );
            let pixels = Pixmap::decode_png(&picture.png(|_| 1.0).unwrap()).unwrap();
            // We measure the width of the line in one column of pixels. A pixel counts as 1 if it
            // has the colour of the road, and as 0 if it has the colour of the background. A
            // mixture of both counts as a share.
            let x = pixels.width() / 2 + 3;
            let red = |y| f32::from(pixels.pixel(x, y).unwrap().red());
            let [ground, full] = [BACKGROUND[0], 214].map(f32::from);
            let wide: f32 = (0..pixels.height())
                .map(|y| (red(y) - ground) / (full - ground))
                .sum();
            assert!((wide - expected).abs() < 0.2, "{wide} {expected}");
        }
    }

    #[test]
    fn colours_range_from_empty_to_full() {
        assert_eq!(colour(0), [51, 71, 94]);
        assert_eq!(colour(SHADES - 1), [214, 38, 61]);
        let different: std::collections::HashSet<_> = (0..SHADES).map(colour).collect();
        assert!(different.len() > 25);
    }
}
