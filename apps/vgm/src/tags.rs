//! Writes the tags of a song to sound files, under the field names of each tag format.
//!
//! | format | fields |
//! |---|---|
//! | Vorbis comments | any name is allowed |
//! | ID3 | fixed names. Other fields go to `TXXX`, which has a name and free text |
//! | INFO list of WAV | fixed names. Other text goes to the comment, and other numbers are left out |
//! | AU | a single text, for which we use one line per field as in Vorbis comments |
//!
//! Source: xiph.org, "Ogg Vorbis I format specification: comment field"; id3.org, "ID3 tag version
//! 2.4.0"; Microsoft and IBM, "Multimedia Programming Interface and Data Specifications 1.0"
//! (INFO).

use crate::format::Gd3;

/// The tags of a sound file.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct FileTags {
    /// The names of the song and of the people that made it.
    pub names: Gd3,
    /// The number of the song in its folder, from 1.
    pub track: Option<usize>,
    /// The first frame of the loop, and its length in frames.
    pub loop_frames: Option<(u64, u64)>,
    /// The ReplayGain in dB, and the peak of the samples, where full scale is 1.
    pub replay_gain: Option<(f64, f32)>,
}

impl From<Gd3> for FileTags {
    fn from(names: Gd3) -> Self {
        FileTags {
            names,
            ..FileTags::default()
        }
    }
}

impl FileTags {
    /// Returns the fields that are numbers: the name, the ID3 frame, the INFO name and the value.
    fn numbers(&self) -> Vec<Field> {
        let field = |vorbis, id3, info, text| Field {
            vorbis,
            id3,
            info,
            text,
        };
        let mut fields = Vec::new();
        if let Some(track) = self.track {
            let info = Some(*b"ITRK");
            fields.push(field("TRACKNUMBER", *b"TRCK", info, track.to_string()));
        }
        if let Some((start, length)) = self.loop_frames {
            fields.push(field("LOOPSTART", FREE, None, start.to_string()));
            fields.push(field("LOOPLENGTH", FREE, None, length.to_string()));
        }
        if let Some((decibels, peak)) = self.replay_gain {
            let gain = format!("{decibels:.2} dB");
            fields.push(field("REPLAYGAIN_TRACK_GAIN", FREE, None, gain));
            let peak = format!("{peak:.6}");
            fields.push(field("REPLAYGAIN_TRACK_PEAK", FREE, None, peak));
        }
        fields
    }
}

/// A non-empty field.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Field {
    vorbis: &'static str,
    id3: [u8; 4],
    /// The name in an INFO list, or `None` if INFO does not have this field.
    info: Option<[u8; 4]>,
    text: String,
}

/// The ID3 frame for user-defined fields.
const FREE: [u8; 4] = *b"TXXX";
/// The names of the comment in ID3 and in an INFO list.
const COMMENTS: ([u8; 4], [u8; 4]) = (*b"COMM", *b"ICMT");

/// Returns the fields of a song. It leaves out empty fields, and native (Japanese) fields with the
/// same text as another field.
fn fields(tags: &Gd3) -> Vec<Field> {
    let Gd3 {
        track_native,
        game_native,
        system_native,
        author_native,
        ..
    } = tags;
    let preferred = tags.with_fallback();
    let date = preferred.date.replace('/', "-");
    let info = |name: &[u8; 4]| Some(*name);
    let all = [
        ("TITLE", *b"TIT2", info(b"INAM"), &preferred.track),
        ("ALBUM", *b"TALB", info(b"IPRD"), &preferred.game),
        ("ARTIST", *b"TPE1", info(b"IART"), &preferred.author),
        ("DATE", *b"TDRC", info(b"ICRD"), &date),
        // INFO has the fields "source form" and "technician", which fit the system and the person
        // who converted the song.
        ("SYSTEM", FREE, info(b"ISRF"), &preferred.system),
        (
            "ENCODED-BY",
            *b"TENC",
            info(b"ITCH"),
            &preferred.converted_by,
        ),
        (
            "DESCRIPTION",
            COMMENTS.0,
            Some(COMMENTS.1),
            &preferred.notes,
        ),
        ("TITLE-NATIVE", FREE, None, track_native),
        ("ALBUM-NATIVE", FREE, None, game_native),
        ("ARTIST-NATIVE", FREE, None, author_native),
        ("SYSTEM-NATIVE", FREE, None, system_native),
    ];
    let mut fields: Vec<Field> = Vec::new();
    for (vorbis, id3, info, text) in all {
        let text = text.trim_matches(|c: char| c.is_whitespace() || c == '\0');
        let is_present = fields
            .iter()
            .any(|field| info.is_none() && field.text == text);
        if !text.is_empty() && !is_present {
            fields.push(Field {
                vorbis,
                id3,
                info,
                text: text.into(),
            });
        }
    }
    fields
}

/// Returns the tags as Vorbis comments of the form `NAME=text`.
pub fn vorbis(tags: &FileTags) -> Vec<String> {
    let comment = |field: Field| format!("{}={}", field.vorbis, field.text);
    let all = fields(&tags.names).into_iter().chain(tags.numbers());
    all.map(comment).collect()
}

/// Returns the names and texts of an INFO list.
pub fn info(tags: &FileTags) -> Vec<([u8; 4], String)> {
    let (named, nameless): (Vec<_>, Vec<_>) = fields(&tags.names)
        .into_iter()
        .partition(|field| field.info.is_some());
    let mut list: Vec<_> = named
        .into_iter()
        .filter_map(|field| Some((field.info?, field.text)))
        .collect();
    if !nameless.is_empty() {
        if !list.iter().any(|(name, _)| *name == COMMENTS.1) {
            list.push((COMMENTS.1, String::new()));
        }
        // The comment is the last named field.
        if let Some((_, comment)) = list.last_mut() {
            for field in nameless {
                let line_break = if comment.is_empty() { "" } else { "\n" };
                comment.push_str(&format!("{line_break}{}={}", field.vorbis, field.text));
            }
        }
    }
    let numbers = tags.numbers().into_iter();
    list.extend(numbers.filter_map(|field| Some((field.info?, field.text))));
    list
}

/// Returns an ID3 tag, or nothing if there are no fields.
pub fn id3(tags: &FileTags) -> Vec<u8> {
    let mut frames = Vec::new();
    for field in fields(&tags.names).into_iter().chain(tags.numbers()) {
        // 3 means UTF-8. A comment also has a language and a heading, and a user-defined field has
        // a name.
        let head = match field.id3 {
            id3 if id3 == COMMENTS.0 => b"\x03eng\0".to_vec(),
            FREE => [&[3], field.vorbis.as_bytes(), &[0]].concat(),
            _ => vec![3],
        };
        frames.extend(field.id3);
        frames.extend(seven_bits(head.len() + field.text.len()));
        frames.extend([0; 2]);
        frames.extend([&head, field.text.as_bytes()].concat());
    }
    if frames.is_empty() {
        return frames;
    }
    [b"ID3\x04\x00\x00", &seven_bits(frames.len())[..], &frames].concat()
}

/// Returns a size in the format of ID3, with seven bits per byte and the highest bits first.
fn seven_bits(size: usize) -> [u8; 4] {
    [21, 14, 7, 0].map(|shift| (size >> shift) as u8 & 0x7F)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all() -> FileTags {
        let text = |text: &str| String::from(text);
        let names = Gd3 {
            track: text("Warp"),
            track_native: text("縦糸"),
            game: text("Loom"),
            game_native: text("織機"),
            system: text("Jacquard"),
            system_native: text("紋織"),
            author: text("A. Weaver"),
            author_native: text("織人"),
            date: text("1801/01/02"),
            converted_by: text("B. Spinner"),
            notes: text("two\nlines"),
        };
        names.into()
    }

    #[test]
    fn numbers_follow_the_names_in_every_tag_format() {
        let tags = FileTags {
            track: Some(7),
            loop_frames: Some((44_100, 44_100)),
            replay_gain: Some((-3.456, 0.5)),
            ..all()
        };
        let comments = vorbis(&tags);
        let expected = [
            "TRACKNUMBER=7",
            "LOOPSTART=44100",
            "LOOPLENGTH=44100",
            "REPLAYGAIN_TRACK_GAIN=-3.46 dB",
            "REPLAYGAIN_TRACK_PEAK=0.500000",
        ];
        assert_eq!(comments[11..], expected);
        assert_eq!(info(&tags).last(), Some(&(*b"ITRK", "7".into())));
        let id3 = String::from_utf8_lossy(&id3(&tags)).into_owned();
        assert!(
            id3.contains("TRCK") && id3.contains("LOOPLENGTH\x0044100"),
            "{id3}"
        );
    }

    #[test]
    fn every_tag_format_contains_every_field() {
        let tags = all();
        let comments = vorbis(&tags);
        assert_eq!(comments.len(), 11);
        assert!(
            comments.contains(&"ENCODED-BY=B. Spinner".into()),
            "{comments:?}"
        );
        let list: String = info(&tags)
            .into_iter()
            .map(|(_, text)| text + "\n")
            .collect();
        let id3 = String::from_utf8_lossy(&id3(&tags)).into_owned();
        for comment in comments {
            let (_, text) = comment.split_once('=').unwrap();
            assert!(list.contains(text), "{text} is not in {list}");
            assert!(id3.contains(text), "{text} is not in {id3}");
        }
        assert!(id3.contains("TXXX") && id3.contains("SYSTEM\0Jacquard"));
    }

    #[test]
    fn duplicate_tag_fields_are_omitted() {
        let tags = Gd3 {
            track_native: "縦糸".into(),
            system_native: "紋織".into(),
            system: "Jacquard".into(),
            ..Gd3::default()
        };
        let tags = FileTags::from(tags);
        let expected = ["TITLE=縦糸", "SYSTEM=Jacquard", "SYSTEM-NATIVE=紋織"];
        assert_eq!(vorbis(&tags), expected);
        let comment = (*b"ICMT", "SYSTEM-NATIVE=紋織".into());
        assert_eq!(info(&tags).last(), Some(&comment));
        assert!(id3(&FileTags::default()).is_empty() && info(&FileTags::default()).is_empty());
    }
}
