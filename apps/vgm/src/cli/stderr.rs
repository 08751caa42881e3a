//! Text from files and file names, made fit for a terminal.

use std::io::{self, Write};

/// Says something on stderr; who has closed it has heard enough.
pub fn report(text: &str) {
    write_line(&format!("creel-vgm: {text}"));
}

/// Writes a line to stderr, as it is.
pub fn write_line(text: &str) {
    let _ = writeln!(io::stderr(), "{text}");
}

/// The text with its control characters written as escapes: a tag or a file's name must not move
/// the cursor, nor break a line.
pub fn escape_control(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    for c in text.chars() {
        // Those that change the direction of what follows do harm, too.
        if c.is_control() || matches!(c, '\u{202A}'..='\u{202E}' | '\u{2066}'..='\u{2069}') {
            plain.extend(c.escape_default());
        } else {
            plain.push(c);
        }
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_control_characters_are_escaped() {
        assert_eq!(
            escape_control("糸 é\u{1b}[2J\n\u{202E}x"),
            "糸 é\\u{1b}[2J\\n\\u{202e}x"
        );
    }
}
