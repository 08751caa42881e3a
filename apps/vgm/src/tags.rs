//! Writes the tags of a song to sound files, under the field names of each tag format.
//!
//! | format | fields |
//! |---|---|
//! | Vorbis comments | any name is allowed |
//! | ID3 | fixed names. Other fields go to `TXXX`, which has a name and free text |
//! | INFO list of WAV | fixed names. Other fields go to the comment |
//! | AU | a single text, for which we use one line per field as in Vorbis comments |
//!
//! Source: xiph.org, "Ogg Vorbis I format specification: comment field"; id3.org, "ID3 tag version
//! 2.4.0"; Microsoft and IBM, "Multimedia Programming Interface and Data Specifications 1.0"
//! (INFO).

use crate::format::Gd3;

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

/// Returns the fields of a song. It leaves out native (Japanese) fields with the same text as
/// another field.
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
pub fn vorbis(tags: &Gd3) -> Vec<String> {
    let comment = |field: &Field| format!("{}={}", field.vorbis, field.text);
    fields(tags).iter().map(comment).collect()
}

/// Returns the names and texts of an INFO list.
pub fn info(tags: &Gd3) -> Vec<([u8; 4], String)> {
    let (named, nameless): (Vec<_>, Vec<_>) = fields(tags)
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
    list
}

/// Returns an ID3 tag, or nothing if there are no fields.
pub fn id3(tags: &Gd3) -> Vec<u8> {
    let mut frames = Vec::new();
    for field in fields(tags) {
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

    fn all() -> Gd3 {
        let text = |text: &str| String::from(text);
        Gd3 {
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
        }
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
        let expected = ["TITLE=縦糸", "SYSTEM=Jacquard", "SYSTEM-NATIVE=紋織"];
        assert_eq!(vorbis(&tags), expected);
        let comment = (*b"ICMT", "SYSTEM-NATIVE=紋織".into());
        assert_eq!(info(&tags).last(), Some(&comment));
        assert!(id3(&Gd3::default()).is_empty() && info(&Gd3::default()).is_empty());
    }
}
