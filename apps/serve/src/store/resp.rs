//! The part of the Redis protocol that we use.
//!
//! The parser takes a reply from the bytes that have arrived so far, or waits for more. A malformed
//! reply ends the connection, and so does a reply that is longer than any answer to our commands.
//!
//! Source: "Redis serialization protocol specification", RESP2.

use bytes::{Buf, Bytes, BytesMut};

/// The maximum length of a line in a reply, and of the data in a reply.
const LINE_MAX: usize = 64 << 10;
const DATA_MAX: usize = 1 << 20;

/// A reply of the server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Reply {
    /// `+`: the command is done.
    Done(Bytes),
    /// `-`: the command failed. The text is the reason.
    Error(String),
    /// `:`: a number.
    Number(i64),
    /// `$`: data, or `None` if there is no value.
    Data(Option<Bytes>),
}

/// The error of a server that does not speak this protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Malformed;

/// Removes the first reply from the bytes. Returns `None` if it is not complete yet.
pub(super) fn take(bytes: &mut BytesMut) -> Result<Option<Reply>, Malformed> {
    let Some(end) = bytes.iter().take(LINE_MAX).position(|byte| *byte == b'\n') else {
        return if bytes.len() < LINE_MAX {
            Ok(None)
        } else {
            Err(Malformed)
        };
    };
    let line = bytes[..end].strip_suffix(b"\r").ok_or(Malformed)?;
    let (kind, text) = line.split_first().ok_or(Malformed)?;
    let number = || std::str::from_utf8(text).ok()?.parse::<i64>().ok();
    let reply = match kind {
        b'+' => Reply::Done(Bytes::copy_from_slice(text)),
        b'-' => Reply::Error(String::from_utf8_lossy(text).into_owned()),
        b':' => Reply::Number(number().ok_or(Malformed)?),
        b'$' => match number().ok_or(Malformed)? {
            -1 => Reply::Data(None),
            length => {
                let length = usize::try_from(length).map_err(|_| Malformed)?;
                if length > DATA_MAX {
                    return Err(Malformed);
                }
                let all = end + 1 + length + 2;
                if bytes.len() < all {
                    return Ok(None);
                }
                if &bytes[all - 2..all] != b"\r\n" {
                    return Err(Malformed);
                }
                bytes.advance(end + 1);
                let data = bytes.split_to(length).freeze();
                bytes.advance(2);
                return Ok(Some(Reply::Data(Some(data))));
            }
        },
        _ => return Err(Malformed),
    };
    bytes.advance(end + 1);
    Ok(Some(reply))
}

/// Appends a command to a buffer.
pub(super) fn put(words: &[&[u8]], into: &mut Vec<u8>) {
    let size = |kind: u8, size: usize, into: &mut Vec<u8>| {
        into.push(kind);
        into.extend_from_slice(size.to_string().as_bytes());
        into.extend_from_slice(b"\r\n");
    };
    size(b'*', words.len(), into);
    for word in words {
        size(b'$', word.len(), into);
        into.extend_from_slice(word);
        into.extend_from_slice(b"\r\n");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: &[u8] = b"+OK\r\n-ERR no\r\n:-12\r\n$5\r\na\r\nbc\r\n$-1\r\n$0\r\n\r\n";

    fn replies() -> Vec<Reply> {
        vec![
            Reply::Done("OK".into()),
            Reply::Error("ERR no".into()),
            Reply::Number(-12),
            Reply::Data(Some("a\r\nbc".into())),
            Reply::Data(None),
            Reply::Data(Some(Bytes::new())),
        ]
    }

    #[test]
    fn replies_are_parsed_from_chunks_of_any_size() {
        for size in 1..=ALL.len() {
            let (mut bytes, mut read) = (BytesMut::new(), Vec::new());
            for chunk in ALL.chunks(size) {
                bytes.extend_from_slice(chunk);
                while let Some(reply) = take(&mut bytes).unwrap() {
                    read.push(reply);
                }
            }
            assert_eq!(read, replies(), "in chunks of {size}");
            assert!(bytes.is_empty());
        }
    }

    #[test]
    fn malformed_and_oversized_replies_are_rejected() {
        for bad in [
            "OK\r\n",
            "\r\n",
            "+OK\n",
            ":x\r\n",
            "$-2\r\n",
            "$99999999\r\n",
            "$1\r\nab\r\n",
            "*1\r\n",
        ] {
            assert_eq!(take(&mut BytesMut::from(bad)), Err(Malformed), "{bad:?}");
        }
        assert_eq!(
            take(&mut BytesMut::from(&[b'+'; LINE_MAX][..])),
            Err(Malformed)
        );
    }

    #[test]
    fn a_command_is_an_array_of_bulk_strings() {
        let mut bytes = Vec::new();
        put(&[b"SET", b"a", b""], &mut bytes);
        assert_eq!(bytes, b"*3\r\n$3\r\nSET\r\n$1\r\na\r\n$0\r\n\r\n");
    }
}
