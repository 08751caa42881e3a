//! GD3 tags: eleven UTF-16 strings about the song.
//!
//! Source: GD3 specification 1.00.

use super::bytes::u32_at;

/// The names of a song and of the people that made it.
///
/// If the tag is missing or damaged, the fields that could not be read are empty. If the tag is cut
/// short, its last field is cut short as well.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Gd3 {
    /// The track's name.
    pub track: String,
    /// The track's name as written in Japan.
    pub track_native: String,
    /// The game's name.
    pub game: String,
    /// The game's name as written in Japan.
    pub game_native: String,
    /// The name of the machine.
    pub system: String,
    /// The name of the machine as written in Japan.
    pub system_native: String,
    /// The composer.
    pub author: String,
    /// The composer's name as written in Japan.
    pub author_native: String,
    /// The release date of the game.
    pub date: String,
    /// The person who made the file.
    pub converted_by: String,
    /// Free-form notes.
    pub notes: String,
}

/// The number of fields of a tag.
const FIELDS: usize = 11;

/// The longest tag that is read, in bytes.
const GD3_BYTES_MAX: usize = 256 << 10;

impl Gd3 {
    /// Reads the tag at `offset` of a decompressed song. The tag is empty if there is none.
    pub fn parse(song: &[u8], offset: Option<usize>) -> Gd3 {
        let tag = offset.and_then(|offset| song.get(offset..)).unwrap_or(&[]);
        if !tag.starts_with(b"Gd3 ") {
            return Gd3::default();
        }
        let length = (u32_at(tag, 8) as usize).min(GD3_BYTES_MAX);
        let text = tag.get(12..).unwrap_or(&[]);
        let text = &text[..length.min(text.len())];
        let units: Vec<u16> = text
            .chunks_exact(2)
            .map(|pair| u16::from_le_bytes([pair[0], pair[1]]))
            .collect();
        let mut strings = units.split(|unit| *unit == 0).map(String::from_utf16_lossy);
        let mut next = || strings.next().unwrap_or_default();
        Gd3 {
            track: next(),
            track_native: next(),
            game: next(),
            game_native: next(),
            system: next(),
            system_native: next(),
            author: next(),
            author_native: next(),
            date: next(),
            converted_by: next(),
            notes: next(),
        }
    }

    /// Returns the defect of the tag at `offset` of a decompressed song, if it has one.
    ///
    /// A defect of the tag has no effect on the sound.
    pub fn defect(song: &[u8], offset: Option<usize>) -> Option<String> {
        let offset = offset?;
        let tag = song.get(offset..).unwrap_or(&[]);
        let length = u32_at(tag, 8) as usize;
        let text = tag.get(12..).unwrap_or(&[]);
        let read = &text[..length.min(GD3_BYTES_MAX).min(text.len())];
        let (units, odd_byte) = read.as_chunks::<2>();
        let strings = units.iter().filter(|unit| **unit == [0, 0]).count();
        if !tag.starts_with(b"Gd3 ") {
            Some(format!(
                "there are no tags at {offset:#x}, to which the header points"
            ))
        } else if read.len() < length {
            let kept = read.len();
            Some(format!(
                "the tags are cut short: {kept} of {length} bytes were read"
            ))
        } else if strings < FIELDS || !odd_byte.is_empty() {
            Some(format!(
                "the tags are damaged: {strings} of {FIELDS} fields are complete"
            ))
        } else {
            None
        }
    }

    /// Returns the tag with the Japanese text in every field whose other text is empty.
    pub fn with_fallback(&self) -> Gd3 {
        let or = |text: &String, native: &String| {
            if text.trim().is_empty() {
                native.clone()
            } else {
                text.clone()
            }
        };
        Gd3 {
            track: or(&self.track, &self.track_native),
            game: or(&self.game, &self.game_native),
            system: or(&self.system, &self.system_native),
            author: or(&self.author, &self.author_native),
            ..self.clone()
        }
    }

    /// Returns the bytes of the tag, as a song contains them.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut text = Vec::new();
        for string in [
            &self.track,
            &self.track_native,
            &self.game,
            &self.game_native,
            &self.system,
            &self.system_native,
            &self.author,
            &self.author_native,
            &self.date,
            &self.converted_by,
            &self.notes,
        ] {
            text.extend(string.encode_utf16().flat_map(u16::to_le_bytes));
            text.extend([0, 0]);
        }
        let mut tag = b"Gd3 \x00\x01\x00\x00".to_vec();
        tag.extend((text.len() as u32).to_le_bytes());
        tag.extend(text);
        tag
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gd3_round_trips_and_truncated_tag_keeps_its_front() {
        let tag = Gd3 {
            track: "Étude".into(),
            game_native: "糸".into(),
            notes: "line\nline".into(),
            ..Gd3::default()
        };
        let bytes = tag.to_bytes();
        assert_eq!(Gd3::parse(&bytes, Some(0)), tag);
        assert_eq!(
            (
                tag.with_fallback().game.as_str(),
                tag.with_fallback().track.as_str()
            ),
            ("糸", "Étude")
        );
        assert_eq!(Gd3::parse(&bytes[..30], Some(0)).track, "Étude");
        assert_eq!(Gd3::parse(&bytes, Some(4)), Gd3::default());
        assert_eq!(Gd3::parse(&bytes, Some(usize::MAX)), Gd3::default());
    }

    #[test]
    fn damaged_tags_have_a_defect() {
        let bytes = Gd3::default().to_bytes();
        let defect = |bytes: &[u8], offset| Gd3::defect(bytes, Some(offset)).unwrap_or_default();
        assert_eq!(Gd3::defect(&bytes, None), None);
        assert_eq!(defect(&bytes, 0), "");
        assert_eq!(defect(&[&bytes[..], &[1, 2, 3]].concat(), 0), "");
        assert!(defect(&bytes, 4).contains("no tags at 0x4"));
        assert!(defect(&bytes, usize::MAX).contains("no tags"));
        assert!(defect(&bytes[..20], 0).contains("cut short"));
        assert!(defect(&bytes[..6], 0).contains("damaged"));
        let mut short = bytes.clone();
        short[8] -= 2;
        assert!(defect(&short, 0).contains("10 of 11"));
        short[8] += 1;
        assert!(defect(&short, 0).contains("10 of 11"));
    }
}
