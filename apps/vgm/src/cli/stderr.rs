//! Messages on stderr. Text from songs and file names is escaped for the terminal.

use std::io::{self, Write};

/// Prints a message on stderr. We ignore errors, because stderr may be closed.
pub fn report(text: &str) {
    write_line(&format!("creel-vgm: {text}"));
}

/// Writes a line to stderr without a prefix.
pub fn write_line(text: &str) {
    let _ = writeln!(io::stderr(), "{text}");
}

/// Returns the text with its control characters escaped, because a tag or a file name must not move
/// the cursor or break a line.
pub fn escape_control(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    for c in text.chars() {
        // Bidirectional control characters can also garble the text that follows.
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
