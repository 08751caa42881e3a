//! Converts text encodings. Playlists and archives contain text in the encodings of other machines.
//! We also escape file names that are not UTF-8.

#[cfg(feature = "formats")]
use encoding_rs::{Encoding, SHIFT_JIS, UTF_8, UTF_16BE, UTF_16LE, WINDOWS_1252};

/// Converts UTF-16 to UTF-8, if it has a byte order mark or begins with two ASCII characters.
/// Returns other text unchanged, except that it removes the byte order mark of UTF-8.
#[cfg(feature = "formats")]
pub fn utf8(bytes: &[u8]) -> Vec<u8> {
    let marked = Encoding::for_bom(bytes).map(|(encoding, _)| encoding);
    // Most playlists begin with ASCII characters. The positions of the zeros then show the byte
    // order.
    let encoding = marked.or(match bytes {
        [first, 0, second, 0, ..] if *first != 0 && *second != 0 => Some(UTF_16LE),
        [0, first, 0, second, ..] if *first != 0 && *second != 0 => Some(UTF_16BE),
        _ => None,
    });
    match encoding {
        None => bytes.to_vec(),
        Some(encoding) if encoding == UTF_8 => bytes[3..].to_vec(),
        Some(encoding) => encoding.decode(bytes).0.into_owned().into_bytes(),
    }
}

/// Removes the byte order mark of UTF-8. Without the feature `formats` we know no other encoding.
#[cfg(not(feature = "formats"))]
pub fn utf8(bytes: &[u8]) -> Vec<u8> {
    bytes
        .strip_prefix(b"\xEF\xBB\xBF")
        .unwrap_or(bytes)
        .to_vec()
}

/// Returns the possible readings of a name: its bytes unchanged, and if they are not ASCII, also
/// decoded from Windows-1252 and from Shift JIS. The decoded readings need the feature `formats`.
pub fn readings(bytes: &[u8]) -> Vec<Vec<u8>> {
    #[allow(
        unused_mut,
        reason = "without the feature `formats`, we add no reading"
    )]
    let mut texts = vec![bytes.to_vec()];
    #[cfg(feature = "formats")]
    if !bytes.is_ascii() {
        for encoding in [WINDOWS_1252, SHIFT_JIS] {
            let (text, _, _) = encoding.decode(bytes);
            texts.push(text.into_owned().into_bytes());
        }
    }
    texts
}

/// Decodes a name that is UTF-8, or Shift JIS with Japanese text in it. Returns `None` if it is
/// neither.
///
/// Nearly all bytes of Western encodings are also valid Shift JIS, so validity alone does not show
/// that a name is Japanese. Western names mostly have single non-ASCII letters between ASCII
/// letters, which do not decode to two Japanese characters in a row. Therefore, we require two of
/// them in a row.
#[cfg(feature = "formats")]
pub fn japanese(bytes: &[u8]) -> Option<String> {
    if let Ok(text) = std::str::from_utf8(bytes) {
        return Some(text.into());
    }
    let (text, _, broken) = SHIFT_JIS.decode(bytes);
    let is_japanese = |c: &char| matches!(c, '\u{3000}'..='\u{9FFF}' | '\u{FF00}'..='\u{FF9F}');
    let chars: Vec<char> = text.chars().collect();
    let side_by_side = chars.windows(2).any(|pair| pair.iter().all(is_japanese));
    (!broken && side_by_side).then(|| text.into_owned())
}

/// Percent-escapes the bytes of a path as in a URI.
pub fn escaped(bytes: &[u8]) -> String {
    let one = |byte: &u8| match byte {
        b'/' | b'-' | b'.' | b'_' | b'~' => char::from(*byte).to_string(),
        byte if byte.is_ascii_alphanumeric() => char::from(*byte).to_string(),
        byte => format!("%{byte:02X}"),
    };
    bytes.iter().map(one).collect()
}

#[cfg(all(test, feature = "formats"))]
mod tests {
    use super::*;

    #[test]
    fn shift_jis_and_western_names_are_distinguished() {
        let (bytes, _, _) = SHIFT_JIS.encode("縦糸/01 タイトル.vgz");
        assert_eq!(japanese(&bytes).as_deref(), Some("縦糸/01 タイトル.vgz"));
        assert_eq!(japanese("é.vgm".as_bytes()).as_deref(), Some("é.vgm"));
        // These are the names "Pokémon" and "Übung" in the code page of DOS.
        assert_eq!(japanese(b"Pok\x82mon.vgm"), None);
        assert_eq!(japanese(b"\x9Abung.vgm"), None);
    }

    #[test]
    fn utf16_is_decoded_in_either_byte_order() {
        let text = "a.vgm\né";
        let units: Vec<u16> = text.encode_utf16().collect();
        let little: Vec<u8> = units.iter().flat_map(|unit| unit.to_le_bytes()).collect();
        let big: Vec<u8> = units.iter().flat_map(|unit| unit.to_be_bytes()).collect();
        for bytes in [
            little.clone(),
            big.clone(),
            [&b"\xFF\xFE"[..], &little].concat(),
            [&b"\xFE\xFF"[..], &big].concat(),
            [&b"\xEF\xBB\xBF"[..], text.as_bytes()].concat(),
            text.into(),
        ] {
            assert_eq!(utf8(&bytes), text.as_bytes(), "{bytes:?}");
        }
    }
}
