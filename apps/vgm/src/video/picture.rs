//! A picture, and the three things that we draw into it: rectangles, text and waves.
//!
//! A picture has three planes, one per colour component. We draw directly in the components of the
//! output, because converting each pixel of a video would take longer than drawing its few lines.

use super::font;

/// The components of a picture.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Components {
    /// Brightness, and two colour differences with half of the width and height (BT.709, limited
    /// range). Video encoders use these.
    Yuv420,
    /// Red, green and blue. PNG uses these.
    Rgb,
}

/// A colour: red, green and blue, from 0 to 255.
pub type Color = [u8; 3];

impl Components {
    /// Returns the components of a colour.
    fn of(self, color: Color) -> [u8; 3] {
        let Components::Yuv420 = self else {
            return color;
        };
        let [red, green, blue] = color.map(|value| f32::from(value) / 255.0);
        // Source: ITU-R BT.709-6, items 3.2 to 3.5.
        let luma = 0.2126 * red + 0.7152 * green + 0.0722 * blue;
        let (cb, cr) = ((blue - luma) / 1.8556, (red - luma) / 1.5748);
        [16.0 + 219.0 * luma, 128.0 + 224.0 * cb, 128.0 + 224.0 * cr]
            .map(|value| value.round() as u8)
    }

    /// Returns the width and height, in pixels of the picture, of a pixel of a plane.
    fn pixel(self, plane: usize) -> usize {
        match (self, plane) {
            (Components::Yuv420, 1 | 2) => 2,
            _ => 1,
        }
    }
}

/// A part of a picture, in pixels.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rect {
    /// The left edge of the rectangle.
    pub x: usize,
    /// The upper edge of the rectangle.
    pub y: usize,
    /// The width of the rectangle.
    pub width: usize,
    /// The height of the rectangle.
    pub height: usize,
}

/// One component of all pixels, row by row from the top.
#[derive(Debug, Clone)]
struct Plane {
    width: usize,
    data: Vec<u8>,
}

/// A picture.
#[derive(Debug, Clone)]
pub struct Picture {
    components: Components,
    planes: [Plane; 3],
    /// Scratch memory: the upper and lower edge of a wave in each column.
    edges: Vec<(f32, f32)>,
}

/// The look of a wave.
#[derive(Debug, Clone, Copy)]
pub struct Stroke {
    /// The colour.
    pub color: Color,
    /// The thickness of the line, in pixels.
    pub thickness: f32,
}

impl Picture {
    /// Creates a picture of one colour. With [`Components::Yuv420`], `width` and `height` must be
    /// even.
    pub fn new((width, height): (usize, usize), components: Components, color: Color) -> Self {
        let values = components.of(color);
        let plane = |place: usize| {
            let pixel = components.pixel(place);
            let (width, height) = (width / pixel, height / pixel);
            Plane {
                width,
                data: vec![values[place]; width * height],
            }
        };
        Picture {
            components,
            planes: [plane(0), plane(1), plane(2)],
            edges: Vec::new(),
        }
    }

    /// Makes this picture a copy of `other`, which must have the same size. It does not allocate.
    pub fn copy_from(&mut self, other: &Picture) {
        for (own, other) in self.planes.iter_mut().zip(&other.planes) {
            own.data.copy_from_slice(&other.data);
        }
    }

    /// Returns the three planes.
    pub fn planes(&self) -> [&[u8]; 3] {
        [0, 1, 2].map(|plane| &self.planes[plane].data[..])
    }

    /// Fills a rectangle.
    pub fn fill(&mut self, rect: Rect, color: Color) {
        let values = self.components.of(color);
        for (place, plane) in self.planes.iter_mut().enumerate() {
            let pixel = self.components.pixel(place);
            let columns = rect.x / pixel..(rect.x + rect.width).div_ceil(pixel).min(plane.width);
            for row in rect.y / pixel..(rect.y + rect.height).div_ceil(pixel) {
                let row = plane.data.chunks_exact_mut(plane.width).nth(row);
                if let Some(part) = row.and_then(|row| row.get_mut(columns.clone())) {
                    part.fill(values[place]);
                }
            }
        }
    }

    /// Writes text whose upper left corner is at (`x`, `y`), with square dots of `dot` pixels.
    pub fn write(&mut self, (x, y): (usize, usize), text: &str, dot: usize, color: Color) {
        for (place, letter) in text.chars().enumerate() {
            for (row, dots) in font::glyph(letter).into_iter().enumerate() {
                for column in (0..font::WIDTH).filter(|column| dots >> column & 1 == 1) {
                    let rect = Rect {
                        x: x + (place * font::ADVANCE + column) * dot,
                        y: y + row * dot,
                        width: dot,
                        height: dot,
                    };
                    self.fill(rect, color);
                }
            }
        }
    }

    /// Draws a wave across a rectangle. The samples from the position `start`, `length` of them,
    /// take the whole width. A sample of 1 is at the upper edge and -1 at the lower edge.
    ///
    /// For each column of pixels, we fill the range from the lowest to the highest point of the
    /// wave, with soft ends.
    pub fn draw_wave(
        &mut self,
        rect: Rect,
        (samples, start, length): (&[f32], f64, f64),
        stroke: Stroke,
    ) {
        let values = self.components.of(stroke.color);
        let mut edges = std::mem::take(&mut self.edges);
        let mut pixel_of_edges = 0;
        for (place, plane) in self.planes.iter_mut().enumerate() {
            let pixel = self.components.pixel(place);
            if pixel != pixel_of_edges {
                let wave = (samples, start, length);
                find_edges(rect, wave, stroke.thickness, pixel, &mut edges);
                pixel_of_edges = pixel;
            }
            for (column, (upper, lower)) in edges.iter().enumerate() {
                let column = rect.x / pixel + column;
                plane.blend_column(column, (*upper, *lower), values[place]);
            }
        }
        self.edges = edges;
    }
}

/// Computes the upper and lower edge of a wave in each column of a plane, in pixels of the plane.
fn find_edges(
    rect: Rect,
    (samples, start, length): (&[f32], f64, f64),
    thickness: f32,
    pixel: usize,
    edges: &mut Vec<(f32, f32)>,
) {
    let (half, scale) = (thickness * 0.5, rect.height as f32 * 0.5);
    let (top, bottom) = (rect.y as f32, (rect.y + rect.height) as f32);
    let (middle, per_pixel) = (top + scale, length / rect.width as f64);
    // A steep line is as thick as a flat one because neighbouring columns overlap.
    let overlap = f64::from((half - 0.5).max(0.0));
    edges.clear();
    for column in 0..rect.width / pixel {
        let left = (column * pixel) as f64;
        let from = start + (left - overlap) * per_pixel;
        let to = start + (left + pixel as f64 + overlap) * per_pixel;
        let (low, high) = range(samples, from, to);
        let upper = (middle - high * scale - half).clamp(top, bottom);
        let lower = (middle - low * scale + half).clamp(top, bottom);
        edges.push((upper / pixel as f32, lower / pixel as f32));
    }
}

/// Returns the lowest and the highest point of a wave between two positions.
fn range(samples: &[f32], from: f64, to: f64) -> (f32, f32) {
    let at = |place: f64| {
        let index = place.floor();
        let sample = |index: f64| match index >= 0.0 {
            true => samples.get(index as usize).copied().unwrap_or(0.0),
            false => 0.0,
        };
        let (a, b) = (sample(index), sample(index + 1.0));
        a + (b - a) * (place - index) as f32
    };
    let (a, b) = (at(from), at(to));
    let (mut low, mut high) = (a.min(b), a.max(b));
    let first = from.ceil().max(0.0) as usize;
    let end = (to.ceil().max(0.0) as usize).min(samples.len());
    for sample in samples.get(first..end).unwrap_or_default() {
        low = low.min(*sample);
        high = high.max(*sample);
    }
    (low, high)
}

impl Plane {
    /// Blends a column from one edge to another. A pixel that is partly between them changes
    /// partly.
    fn blend_column(&mut self, column: usize, (upper, lower): (f32, f32), value: u8) {
        let rows = upper as usize..lower.ceil() as usize;
        for row in rows {
            let Some(pixel) = self.data.get_mut(row * self.width + column) else {
                return;
            };
            let top = upper.max(row as f32);
            let cover = (lower.min(row as f32 + 1.0) - top).max(0.0);
            let old = f32::from(*pixel);
            *pixel = (old + (f32::from(value) - old) * cover + 0.5) as u8;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BLACK: Color = [0; 3];
    const WHITE: Color = [255; 3];

    fn rect(x: usize, y: usize, width: usize, height: usize) -> Rect {
        Rect {
            x,
            y,
            width,
            height,
        }
    }

    #[test]
    fn colors_have_the_components_of_bt709() {
        for (color, expected) in [
            (BLACK, [16, 128, 128]),
            (WHITE, [235, 128, 128]),
            ([255, 0, 0], [63, 102, 240]),
            ([0, 255, 0], [173, 42, 26]),
            ([0, 0, 255], [32, 240, 118]),
        ] {
            assert_eq!(Components::Yuv420.of(color), expected, "{color:?}");
            assert_eq!(Components::Rgb.of(color), color);
        }
    }

    #[test]
    fn a_flat_wave_is_a_line_in_the_middle() {
        let mut picture = Picture::new((8, 8), Components::Rgb, BLACK);
        let stroke = Stroke {
            color: WHITE,
            thickness: 2.0,
        };
        picture.draw_wave(rect(0, 0, 8, 8), (&[0.0; 20], 4.0, 8.0), stroke);
        let [red, ..] = picture.planes();
        for (row, pixels) in red.chunks(8).enumerate() {
            let expected = if (3..5).contains(&row) { 255 } else { 0 };
            assert_eq!(pixels, [expected; 8], "row {row}");
        }
    }

    #[test]
    fn a_wave_stays_in_its_rectangle() {
        let loud: Vec<f32> = (0..400)
            .map(|at| if at % 7 < 3 { 9.0 } else { -9.0 })
            .collect();
        let stroke = Stroke {
            color: WHITE,
            thickness: 3.0,
        };
        for components in [Components::Rgb, Components::Yuv420] {
            let mut picture = Picture::new((32, 32), components, BLACK);
            picture.draw_wave(rect(8, 8, 16, 16), (&loud, -10.0, 600.0), stroke);
            for (place, plane) in picture.planes().into_iter().enumerate() {
                let pixel = components.pixel(place);
                let width = 32 / pixel;
                let inside = 8 / pixel..24 / pixel;
                let background = components.of(BLACK)[place];
                for (at, value) in plane.iter().enumerate() {
                    let (x, y) = (at % width, at / width);
                    let is_inside = inside.contains(&x) && inside.contains(&y);
                    assert!(is_inside || *value == background, "{components:?} {x} {y}");
                }
            }
        }
    }

    #[test]
    fn rectangles_and_text_outside_of_the_picture_are_clipped() {
        let mut picture = Picture::new((16, 16), Components::Yuv420, BLACK);
        picture.fill(rect(12, 12, 100, 100), WHITE);
        picture.write((14, 14), "WIDE", 2, WHITE);
        let [luma, ..] = picture.planes();
        assert_eq!(luma[11 * 16 + 15], 16);
        assert_eq!(luma[12 * 16 + 12], 235);
    }
}
