//! A small font for the labels: capital letters, digits and some signs, of 5 by 7 dots.

/// The width of a letter, in dots.
pub(super) const WIDTH: usize = 5;
/// The height of a letter, in dots.
pub(super) const HEIGHT: usize = 7;
/// The distance from one letter to the next, in dots.
pub(super) const ADVANCE: usize = WIDTH + 1;

/// Returns the rows of a letter from the top. The lowest bit of a row is its left dot. Lower-case
/// letters look like capital ones, and unknown letters like a box.
pub(super) fn glyph(letter: char) -> [u8; HEIGHT] {
    let letter = letter.to_ascii_uppercase();
    let found = GLYPHS.iter().find(|(own, _)| *own == letter);
    let rows = found.map_or(UNKNOWN, |(_, rows)| rows);
    let mut glyph = [0; HEIGHT];
    for (row, dots) in glyph.iter_mut().zip(rows.split(' ')) {
        for (column, dot) in dots.bytes().enumerate() {
            *row |= u8::from(dot == b'#') << column;
        }
    }
    glyph
}

const UNKNOWN: &str = "##### #...# #...# #...# #...# #...# #####";

/// Each letter, with its rows from the top.
const GLYPHS: &[(char, &str)] = &[
    (' ', "..... ..... ..... ..... ..... ..... ....."),
    ('A', "..#.. .#.#. #...# #...# ##### #...# #...#"),
    ('B', "####. #...# #...# ####. #...# #...# ####."),
    ('C', ".###. #...# #.... #.... #.... #...# .###."),
    ('D', "####. #...# #...# #...# #...# #...# ####."),
    ('E', "##### #.... #.... ####. #.... #.... #####"),
    ('F', "##### #.... #.... ####. #.... #.... #...."),
    ('G', ".###. #...# #.... #.### #...# #...# .####"),
    ('H', "#...# #...# #...# ##### #...# #...# #...#"),
    ('I', ".###. ..#.. ..#.. ..#.. ..#.. ..#.. .###."),
    ('J', "..### ...#. ...#. ...#. ...#. #..#. .##.."),
    ('K', "#...# #..#. #.#.. ##... #.#.. #..#. #...#"),
    ('L', "#.... #.... #.... #.... #.... #.... #####"),
    ('M', "#...# ##.## #.#.# #.#.# #...# #...# #...#"),
    ('N', "#...# ##..# ##..# #.#.# #..## #..## #...#"),
    ('O', ".###. #...# #...# #...# #...# #...# .###."),
    ('P', "####. #...# #...# ####. #.... #.... #...."),
    ('Q', ".###. #...# #...# #...# #.#.# #..#. .##.#"),
    ('R', "####. #...# #...# ####. #.#.. #..#. #...#"),
    ('S', ".#### #.... #.... .###. ....# ....# ####."),
    ('T', "##### ..#.. ..#.. ..#.. ..#.. ..#.. ..#.."),
    ('U', "#...# #...# #...# #...# #...# #...# .###."),
    ('V', "#...# #...# #...# #...# #...# .#.#. ..#.."),
    ('W', "#...# #...# #...# #.#.# #.#.# ##.## #...#"),
    ('X', "#...# #...# .#.#. ..#.. .#.#. #...# #...#"),
    ('Y', "#...# #...# .#.#. ..#.. ..#.. ..#.. ..#.."),
    ('Z', "##### ....# ...#. ..#.. .#... #.... #####"),
    ('0', ".###. #...# #..## #.#.# ##..# #...# .###."),
    ('1', "..#.. .##.. #.#.. ..#.. ..#.. ..#.. #####"),
    ('2', ".###. #...# ....# ..##. .#... #.... #####"),
    ('3', "####. ....# ....# .###. ....# ....# ####."),
    ('4', "...#. ..##. .#.#. #..#. ##### ...#. ...#."),
    ('5', "##### #.... ####. ....# ....# #...# .###."),
    ('6', ".###. #.... #.... ####. #...# #...# .###."),
    ('7', "##### ....# ...#. ...#. ..#.. ..#.. ..#.."),
    ('8', ".###. #...# #...# .###. #...# #...# .###."),
    ('9', ".###. #...# #...# .#### ....# ....# .###."),
    ('-', "..... ..... ..... .###. ..... ..... ....."),
    ('+', "..... ..#.. ..#.. ##### ..#.. ..#.. ....."),
    ('.', "..... ..... ..... ..... ..... .##.. .##.."),
    (',', "..... ..... ..... ..... .##.. ..#.. .#..."),
    (':', "..... .##.. .##.. ..... .##.. .##.. ....."),
    ('/', "....# ....# ...#. ..#.. .#... #.... #...."),
    ('#', ".#.#. .#.#. ##### .#.#. ##### .#.#. .#.#."),
    ('(', "...#. ..#.. .#... .#... .#... ..#.. ...#."),
    (')', ".#... ..#.. ...#. ...#. ...#. ..#.. .#..."),
    ('\'', "..#.. ..#.. ..... ..... ..... ..... ....."),
    ('&', ".#... #.#.. #.#.. .#... #.#.# #..#. .##.#"),
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chips::registry::CHIPS;
    use crate::chips::voices;

    #[test]
    fn all_letters_have_five_by_seven_dots() {
        for (letter, rows) in GLYPHS {
            let rows: Vec<&str> = rows.split(' ').collect();
            assert_eq!(rows.len(), HEIGHT, "{letter}");
            let is_whole =
                |row: &&str| row.len() == WIDTH && row.bytes().all(|dot| b".#".contains(&dot));
            assert!(rows.iter().all(is_whole), "{letter}");
        }
    }

    #[test]
    fn every_label_of_a_voice_can_be_written() {
        for row in CHIPS {
            let voices = 0..voices::count(row.chip);
            let names = voices.map(|voice| voices::name(row.chip, voice));
            for letter in names
                .chain([row.chip.name().into()])
                .flat_map(|name| name.chars().collect::<Vec<_>>())
            {
                let known = GLYPHS
                    .iter()
                    .any(|(own, _)| *own == letter.to_ascii_uppercase());
                assert!(known, "{letter} of {}", row.name);
            }
        }
    }
}
