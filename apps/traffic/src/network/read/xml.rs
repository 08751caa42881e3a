//! The small part of XML that road files use: elements with attributes, in order, and text.

use super::ReadError;
use quick_xml::escape::resolve_predefined_entity;
use quick_xml::events::{BytesStart, Event};
use quick_xml::{Reader, XmlVersion};
use std::str::FromStr;

/// The start tag of an element.
pub(crate) struct Element<'a> {
    start: BytesStart<'a>,
    at: u64,
}

/// The next part of a document.
pub(crate) enum Part<'a> {
    /// An element begins.
    Begin(Element<'a>),
    /// An element of this name ends. For an empty element (`<stop/>`), this part follows directly
    /// after [`Part::Begin`].
    End(String),
    /// Text between two tags, without comments.
    Text(String),
}

/// Returns whether a text contains a control character that XML forbids, such as NUL. The parser
/// accepts these characters, but a report with such a name would not be valid XML.
fn is_forbidden(text: &str) -> bool {
    text.contains(|letter: char| letter < ' ' && !matches!(letter, '\t' | '\n' | '\r'))
}

/// Calls `f` for each part of a document.
pub(crate) fn each(
    text: &str,
    mut f: impl FnMut(Part<'_>) -> Result<(), ReadError>,
) -> Result<(), ReadError> {
    let mut reader = Reader::from_str(text);
    reader.config_mut().check_end_names = true;
    let mut depth = 0_u32;
    // The parser splits a text at comments and at references such as `&amp;`. We collect the pieces,
    // because the caller needs the whole text.
    let mut collected = String::new();
    loop {
        let at = reader.buffer_position();
        let broken =
            |error: &dyn std::fmt::Display| ReadError::Malformed(format!("byte {at}: {error}"));
        let event = reader.read_event().map_err(|error| broken(&error))?;
        match &event {
            Event::Text(text) => {
                collected += &text.decode().map_err(|error| broken(&error))?;
                continue;
            }
            Event::CData(text) => {
                collected += &text.decode().map_err(|error| broken(&error))?;
                continue;
            }
            Event::GeneralRef(reference) => {
                let name = reference.decode().map_err(|error| broken(&error))?;
                let letter = reference.resolve_char_ref();
                match letter.map_err(|error| broken(&error))? {
                    Some(letter) => collected.push(letter),
                    None => {
                        let text = resolve_predefined_entity(&name);
                        collected += text.ok_or_else(|| {
                            broken(&format_args!("the entity &{name}; is not defined"))
                        })?;
                    }
                }
                continue;
            }
            _ if is_forbidden(&collected) => {
                return Err(broken(&"the text before it contains a control character"));
            }
            Event::Start(_) | Event::Empty(_) | Event::End(_) if !collected.is_empty() => {
                f(Part::Text(std::mem::take(&mut collected)))?;
            }
            _ => {}
        }
        match event {
            Event::Start(start) => {
                depth += 1;
                f(Part::Begin(Element { start, at }))?;
            }
            Event::Empty(start) => {
                let name = String::from_utf8_lossy(start.name().as_ref()).into_owned();
                f(Part::Begin(Element { start, at }))?;
                f(Part::End(name))?;
            }
            Event::End(end) => {
                depth = depth.saturating_sub(1);
                f(Part::End(
                    String::from_utf8_lossy(end.name().as_ref()).into_owned(),
                ))?;
            }
            Event::Eof if depth > 0 => {
                return Err(ReadError::Malformed(
                    "the file is cut off: an element has no end tag".into(),
                ));
            }
            Event::Eof => return Ok(()),
            _ => {}
        }
    }
}

impl Element<'_> {
    /// Returns the name of the element.
    pub fn name(&self) -> String {
        String::from_utf8_lossy(self.start.name().as_ref()).into_owned()
    }

    /// Returns an attribute, if it is present.
    pub fn get(&self, name: &str) -> Result<Option<String>, ReadError> {
        match self.start.try_get_attribute(name) {
            Ok(None) => Ok(None),
            Ok(Some(attribute)) => match attribute.normalized_value(XmlVersion::Implicit1_0) {
                Ok(value) if is_forbidden(&value) => {
                    Err(self.error(format!("{name} contains a control character")))
                }
                Ok(value) => Ok(Some(value.into_owned())),
                Err(error) => Err(self.error(error)),
            },
            Err(error) => Err(self.error(error)),
        }
    }

    /// Calls `f` with the name of each attribute.
    pub fn each_name(&self, mut f: impl FnMut(&str)) -> Result<(), ReadError> {
        for attribute in self.start.attributes() {
            let attribute = attribute.map_err(|error| self.error(error))?;
            f(&String::from_utf8_lossy(attribute.key.as_ref()));
        }
        Ok(())
    }

    /// Returns a required attribute.
    pub fn need(&self, name: &str) -> Result<String, ReadError> {
        self.get(name)?.ok_or_else(|| {
            self.error(format!(
                "the element <{}> has no attribute {name}",
                self.name()
            ))
        })
    }

    /// Returns an attribute as a number, if it is present.
    pub fn number<T: FromStr>(&self, name: &str) -> Result<Option<T>, ReadError> {
        let Some(text) = self.get(name)? else {
            return Ok(None);
        };
        // Rust parses "nan" as a number, but it has no meaning in any of our files.
        let number = match text.trim() {
            text if text.to_ascii_lowercase().contains("nan") => None,
            text => text.parse().ok(),
        };
        number.map(Some).ok_or_else(|| {
            self.error(format!(
                "<{}>: expected a number for {name}, but found '{text}'",
                self.name()
            ))
        })
    }

    /// Returns an error at the position of this element.
    pub fn error(&self, reason: impl std::fmt::Display) -> ReadError {
        ReadError::Malformed(format!("byte {}: {reason}", self.at))
    }
}

/// A map from names to consecutive numbers.
#[derive(Default)]
pub(crate) struct Numbers {
    numbers: std::collections::HashMap<String, u32>,
    names: Vec<Box<str>>,
}

impl Numbers {
    /// Adds a name and returns its number, or `None` if the name was already there.
    pub fn add(&mut self, name: String) -> Option<u32> {
        let number = self.names.len() as u32;
        self.names.push(name.as_str().into());
        self.numbers
            .insert(name, number)
            .is_none()
            .then_some(number)
    }

    /// Returns the number of a name.
    pub fn get(&self, name: &str) -> Option<u32> {
        self.numbers.get(name).copied()
    }

    /// Returns the name that has this number.
    pub fn name(&self, number: u32) -> &str {
        &self.names[number as usize]
    }

    /// Returns all names in the order of their numbers.
    pub fn into_names(self) -> Vec<Box<str>> {
        self.names
    }
}

/// Parses a time as `h:mm:ss`, `h:mm` or a number of seconds, and returns seconds.
pub(crate) fn seconds(text: &str) -> Option<f64> {
    let mut total = 0.0;
    for part in text.trim().split(':') {
        total = total * 60.0
            + part
                .parse::<f64>()
                .ok()
                .filter(|part| part.is_finite() && *part >= 0.0)?;
    }
    Some(if text.matches(':').count() == 1 {
        total * 60.0
    } else {
        total
    })
}
