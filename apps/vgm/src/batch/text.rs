//! Text from other machines, in whatever encoding they had: of playlists, and names in archives; and
//! names that are no text, written as one.

use encoding_rs::{Encoding, SHIFT_JIS, UTF_8, UTF_16BE, UTF_16LE, WINDOWS_1252};

/// The text as UTF-8 if it was UTF-16, with a mark of its order or without; else its bytes as they
/// are, but for UTF-8's own mark.
pub fn utf8(bytes: &[u8]) -> Vec<u8> {
    let marked = Encoding::for_bom(bytes).map(|(encoding, _)| encoding);
    // What every list begins with is ASCII.
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

/// The bytes as they are, and as Windows wrote them in the West and in Japan.
pub fn readings(bytes: &[u8]) -> Vec<Vec<u8>> {
    let mut texts = vec![bytes.to_vec()];
    if !bytes.is_ascii() {
        for encoding in [WINDOWS_1252, SHIFT_JIS] {
            let (text, _, _) = encoding.decode(bytes);
            texts.push(text.into_owned().into_bytes());
        }
    }
    texts
}

/// A name that is UTF-8, or else Shift JIS with Japanese text in it; none if it is neither.
///
/// Nearly all bytes of the West are Shift JIS, too, but single letters among ASCII make no two
/// Japanese ones side by side.
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

/// The bytes of a path as a URI has them, percent-escaped but for what needs none.
pub fn escaped(bytes: &[u8]) -> String {
    let one = |byte: &u8| match byte {
        b'/' | b'-' | b'.' | b'_' | b'~' => char::from(*byte).to_string(),
        byte if byte.is_ascii_alphanumeric() => char::from(*byte).to_string(),
        byte => format!("%{byte:02X}"),
    };
    bytes.iter().map(one).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shift_jis_and_western_names_are_distinguished() {
        let (bytes, _, _) = SHIFT_JIS.encode("縦糸/01 タイトル.vgz");
        assert_eq!(japanese(&bytes).as_deref(), Some("縦糸/01 タイトル.vgz"));
        assert_eq!(japanese("é.vgm".as_bytes()).as_deref(), Some("é.vgm"));
        // "Pokémon" and "Übung" of DOS.
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
