//! Names of sound files by a pattern, for example `{game}/{track:02} {title}`.
//!
//! A `/` in the pattern creates a folder below the folder in which the file would be. We replace a
//! `/` in a tag, control characters, and on Windows also the characters that its file systems do
//! not allow. A folder with an empty name is left out.
//!
//! Invariant: regardless of the tags, a name stays below the output folder. No component is hidden,
//! empty, or too long for file systems.

use std::path::PathBuf;

use creel::Pool;

use super::{Plan, Unit, number_tracks};
use crate::error::{Error, Result};
use crate::format::Gd3;

/// The maximum size of a component in bytes, without its extension.
const BYTES_MAX: usize = 200;

/// A pattern for names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Naming(Vec<PatternPart>);

#[derive(Debug, Clone, PartialEq, Eq)]
enum PatternPart {
    Text(String),
    /// A field and its minimum number of digits.
    Field(Field, usize),
}

/// The fields of a pattern.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Field {
    Track,
    Title,
    Game,
    System,
    Author,
    Date,
    File,
}

const FIELDS: [(&str, Field); 7] = [
    ("track", Field::Track),
    ("title", Field::Title),
    ("game", Field::Game),
    ("system", Field::System),
    ("author", Field::Author),
    ("date", Field::Date),
    ("file", Field::File),
];

impl std::str::FromStr for Naming {
    type Err = String;

    /// Parses a pattern of text and fields in braces. A number can have a minimum number of digits,
    /// for example `{track:02}`.
    ///
    /// ```
    /// use creel_vgm::batch::Naming;
    ///
    /// assert!("{track:02} {title}".parse::<Naming>().is_ok());
    /// assert!("{name}".parse::<Naming>().is_err());
    /// ```
    fn from_str(pattern: &str) -> std::result::Result<Self, String> {
        let known = "{track} {title} {game} {system} {author} {date} {file}";
        let mut pieces = Vec::new();
        let mut rest = pattern;
        while let Some((text, after)) = rest.split_once('{') {
            let (field, after) = after
                .split_once('}')
                .ok_or_else(|| format!("a brace is not closed in the pattern {pattern:?}"))?;
            let (name, digits) = field.split_once(':').unwrap_or((field, "0"));
            let found = FIELDS.iter().find(|known| known.0 == name);
            let (_, found) =
                found.ok_or_else(|| format!("unknown field {{{field}}}: use one of {known}"))?;
            let digits = digits.parse().ok().filter(|digits| *digits <= 9);
            let digits = digits.ok_or_else(|| {
                format!(
                    "the field {{{field}}} must have a number of digits up to 9, for example \
                     {{track:02}}"
                )
            })?;
            pieces.extend([
                PatternPart::Text(text.into()),
                PatternPart::Field(*found, digits),
            ]);
            rest = after;
        }
        pieces.push(PatternPart::Text(rest.into()));
        if pattern.starts_with('/') || pattern.split('/').any(|part| part.trim() == "..") {
            return Err(format!(
                "the pattern {pattern:?} leads out of the output folder"
            ));
        }
        if pattern.ends_with('/') {
            return Err(format!(
                "the pattern {pattern:?} has no file name after the last /"
            ));
        }
        if !pieces
            .iter()
            .any(|piece| matches!(piece, PatternPart::Field(..)))
        {
            return Err(format!(
                "all songs would have the name {pattern:?}: use fields such as {known}"
            ));
        }
        Ok(Naming(pieces))
    }
}

impl Naming {
    /// Names the songs of a plan, below their folders. It reads the tags of all songs on the pool.
    /// Songs that cannot be read keep their names, and fail when they are rendered.
    ///
    /// The track number counts the songs of each original folder in the order of the input.
    pub fn apply(&self, plan: &mut Plan, pool: &Pool) {
        self.rename(plan, pool);
        plan.reject_duplicates();
    }

    /// Names the songs like [`apply`](Self::apply), but several songs may get the same name.
    pub(super) fn rename(&self, plan: &mut Plan, pool: &Pool) {
        number_tracks(&mut plan.units);
        let names = pool.map_indexed(&plan.units, |_, unit| {
            self.name(unit, unit.track.unwrap_or(1)).ok()
        });
        for (unit, name) in plan.units.iter_mut().zip(names) {
            if let Some(name) = name {
                let ending = unit.output.extension().unwrap_or_default().to_os_string();
                // We cannot use `with_extension`, because titles may contain dots.
                let mut name = name.into_os_string();
                name.push(".");
                name.push(ending);
                unit.output.pop();
                unit.output.push(name);
            }
        }
    }

    fn name(&self, unit: &Unit, track: usize) -> Result<PathBuf> {
        let tags = unit.input.load()?.tags.with_fallback();
        let file = unit.output.file_stem().unwrap_or_default();
        let file = file.to_string_lossy();
        let name = self.expand(&tags, &file, track);
        name.ok_or_else(|| {
            Error::NotVgm("the pattern of --name gives an empty file name for this song".into())
        })
    }

    /// Returns the path that the pattern produces, or `None` if the file name after its last `/`
    /// would be empty.
    fn expand(&self, tags: &Gd3, file: &str, track: usize) -> Option<PathBuf> {
        let mut components = vec![String::new()];
        for piece in &self.0 {
            let mut push = |text: &str| {
                components
                    .last_mut()
                    .expect("there is at least one component")
                    .push_str(text)
            };
            match piece {
                PatternPart::Text(text) => {
                    let mut parts = text.split('/');
                    push(parts.next().unwrap_or_default());
                    components.extend(parts.map(String::from));
                }
                PatternPart::Field(Field::Track, digits) => push(&format!("{track:0digits$}")),
                PatternPart::Field(field, _) => {
                    let text = match field {
                        Field::Title => &tags.track,
                        Field::Game => &tags.game,
                        Field::System => &tags.system,
                        Field::Author => &tags.author,
                        Field::Date => &tags.date,
                        Field::File | Field::Track => "",
                    };
                    // For a song without a title, we use the name of its file.
                    let of_file =
                        *field == Field::File || (*field == Field::Title && text.trim().is_empty());
                    push(if of_file { file } else { text.trim() });
                }
            }
        }
        let name = components.pop().map(|name| sanitize(&name))?;
        if name.is_empty() {
            return None;
        }
        let folders = components.iter().map(|folder| sanitize(folder));
        let folders = folders.filter(|folder| !folder.is_empty());
        Some(folders.collect::<PathBuf>().join(name))
    }
}

/// Converts text to one component of a path. The result may be empty.
fn sanitize(text: &str) -> String {
    let replaced = |c: char| match c {
        '/' => '_',
        '\\' | ':' | '*' | '?' | '"' | '<' | '>' | '|' if cfg!(windows) => '_',
        c if c.is_control() => '_',
        c => c,
    };
    let name: String = text.trim().chars().map(replaced).collect();
    let name = name.trim_start_matches('.').trim_end_matches(['.', ' ']);
    let end = (0..=name.len().min(BYTES_MAX)).rev();
    let end = end.into_iter().find(|end| name.is_char_boundary(*end));
    name[..end.unwrap_or(0)].to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn expanded(pattern: &str, tags: &Gd3, file: &str, track: usize) -> Option<String> {
        let naming: Naming = pattern.parse().unwrap();
        let path = naming.expand(tags, file, track)?;
        Some(path.to_str().unwrap().into())
    }

    #[test]
    fn names_are_sanitized_path_components() {
        let tags = Gd3 {
            track: "../a/b\u{1b}".into(),
            game: "糸".repeat(100),
            ..Gd3::default()
        };
        let pattern = "{track:02} {title} - {game}";
        let name = expanded(pattern, &tags, "file", 7).unwrap();
        assert!(name.starts_with("07 .._a_b_ - 糸"), "{name}");
        assert!(name.len() <= BYTES_MAX);
        let none = Gd3::default();
        assert_eq!(expanded(pattern, &none, "file", 123).unwrap(), "123 file -");
        assert_eq!(expanded("{game}{file}", &none, "...x.", 1).unwrap(), "x");
    }

    #[test]
    fn slash_in_pattern_creates_a_folder() {
        let tags = Gd3 {
            track: "a/b".into(),
            game: "..".into(),
            system: "Loom/Jacquard".into(),
            ..Gd3::default()
        };
        let of = |pattern: &str| expanded(pattern, &tags, "file", 1);
        let folder = of("{system}/{game}/{track:02} {title}").unwrap();
        assert_eq!(folder, "Loom_Jacquard/01 a_b");
        assert_eq!(of(".//{file}").unwrap(), "file");
        assert_eq!(of("{file}/{game}"), None);
    }

    #[test]
    fn invalid_patterns_are_reported() {
        for (pattern, reason) in [
            ("{name}", "{name}"),
            ("{title", "not closed"),
            ("{title}/", "no file name"),
            ("song", "all songs"),
            ("/music/{title}", "leads out"),
            ("{game}/../{title}", "leads out"),
            ("{track:x}", "digits"),
        ] {
            let error = pattern.parse::<Naming>().unwrap_err();
            assert!(error.contains(reason), "{error}");
        }
    }
}
