//! The protocols that each server implements itself, without a library: how the bytes of a request
//! become those of a response.
//!
//! All runtimes use this code, so that they only differ in how they move the bytes.

use std::collections::HashMap;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};

use serde::{Deserialize, Serialize};

/// A protocol without a library.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Protocol {
    /// HTTP/1 with a fixed response. Only the end of a request's head is looked for.
    Plaintext,
    /// The bytes come back as they are.
    Echo,
    /// `GET` and `SET` of a key-value server, in the protocol of Redis that mini-redis uses.
    KeyValue,
}

const HELLO: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 13\r\n\r\nHello, World!";
/// The longest request. A connection with a longer one fails.
const REQUEST_MAX: usize = 64 << 10;

/// The data of a key-value server. One lock protects it, as in mini-redis.
pub type Store = Arc<Mutex<HashMap<Vec<u8>, Vec<u8>>>>;

/// The server's side of one connection.
pub struct Talk {
    protocol: Protocol,
    store: Store,
    /// The beginning of a request that is not complete.
    rest: Vec<u8>,
}

impl Talk {
    /// Begins a connection.
    pub fn new(protocol: Protocol, store: &Store) -> Self {
        Talk {
            protocol,
            store: Arc::clone(store),
            rest: Vec::new(),
        }
    }

    /// Returns a buffer to read into, and one for the responses.
    pub fn buffers(&self) -> (Vec<u8>, Vec<u8>) {
        let size = match self.protocol {
            Protocol::Echo => 64 << 10,
            Protocol::Plaintext | Protocol::KeyValue => 4 << 10,
        };
        (vec![0; size], Vec::new())
    }

    /// Takes bytes from the client. Replaces the content of `output` by the responses to the
    /// requests that are now complete.
    pub fn answer(&mut self, read: &[u8], output: &mut Vec<u8>) -> io::Result<()> {
        output.clear();
        if self.protocol == Protocol::Echo {
            output.extend_from_slice(read);
            return Ok(());
        }
        if self.rest.is_empty() {
            let taken = self.requests(read, output)?;
            self.rest.extend_from_slice(&read[taken..]);
        } else {
            let mut input = std::mem::take(&mut self.rest);
            input.extend_from_slice(read);
            let taken = self.requests(&input, output)?;
            input.drain(..taken);
            self.rest = input;
        }
        match self.rest.len() {
            0..REQUEST_MAX => Ok(()),
            _ => Err(invalid("the request is too long")),
        }
    }

    /// Answers all complete requests. Returns their length.
    fn requests(&self, input: &[u8], output: &mut Vec<u8>) -> io::Result<usize> {
        let mut taken = 0;
        loop {
            let left = &input[taken..];
            let length = match self.protocol {
                Protocol::Echo | Protocol::Plaintext => {
                    let end = left.windows(4).position(|four| four == b"\r\n\r\n");
                    end.map(|end| {
                        output.extend_from_slice(HELLO);
                        end + 4
                    })
                }
                Protocol::KeyValue => command(left)?.map(|(words, length)| {
                    self.execute(&words, output);
                    length
                }),
            };
            match length {
                Some(length) => taken += length,
                None => return Ok(taken),
            }
        }
    }

    fn execute(&self, words: &[&[u8]], output: &mut Vec<u8>) {
        let mut store = self.store.lock().unwrap_or_else(PoisonError::into_inner);
        match *words {
            [name, key, value] if name.eq_ignore_ascii_case(b"SET") => {
                store.insert(key.to_vec(), value.to_vec());
                output.extend_from_slice(b"+OK\r\n");
            }
            [name, key] if name.eq_ignore_ascii_case(b"GET") => match store.get(key) {
                Some(value) => push_bulk(output, value),
                None => output.extend_from_slice(b"$-1\r\n"),
            },
            _ => output.extend_from_slice(b"-ERR unknown command\r\n"),
        }
    }
}

/// The words of a command, and its length in bytes.
type Command<'a> = (Vec<&'a [u8]>, usize);

/// Parses a command: an array of bulk strings. Returns its words and its length, or `None` if it is
/// not complete.
///
/// Source: "Redis serialization protocol specification", sections "Arrays" and "Bulk strings".
fn command(input: &[u8]) -> io::Result<Option<Command<'_>>> {
    let mut at = 0;
    let Some(count) = number(input, &mut at, b'*')? else {
        return Ok(None);
    };
    let mut words = Vec::with_capacity(count.min(8));
    for _ in 0..count {
        let Some(length) = number(input, &mut at, b'$')? else {
            return Ok(None);
        };
        let Some(word) = input.get(at..at + length) else {
            return Ok(None);
        };
        words.push(word);
        // The line break after the word.
        at += length + 2;
    }
    Ok((at <= input.len()).then_some((words, at)))
}

/// Parses a line that consists of a sign and a number, and moves `at` behind it. Returns `None` if
/// the line is not complete.
fn number(input: &[u8], at: &mut usize, sign: u8) -> io::Result<Option<usize>> {
    let line = input.get(*at..).unwrap_or_default();
    let Some(end) = line.windows(2).position(|two| two == b"\r\n") else {
        return Ok(None);
    };
    let text = line[..end].strip_prefix(&[sign]);
    let number = text.and_then(|text| std::str::from_utf8(text).ok()?.parse().ok());
    let number = number.filter(|number| *number <= REQUEST_MAX);
    *at += end + 2;
    number
        .map(Some)
        .ok_or_else(|| invalid("expected an array of bulk strings"))
}

fn invalid(message: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, message)
}

/// Appends a bulk string.
fn push_bulk(output: &mut Vec<u8>, bytes: &[u8]) {
    output.extend_from_slice(format!("${}\r\n", bytes.len()).as_bytes());
    output.extend_from_slice(bytes);
    output.extend_from_slice(b"\r\n");
}

/// Returns a request of the key-value server that sets a value of 64 bytes and reads it, and the
/// length of the responses.
pub fn set_and_get() -> (Vec<u8>, usize) {
    let value = [b'v'; 64];
    let mut request = Vec::new();
    for words in [&[&b"SET"[..], b"key", &value][..], &[b"GET", b"key"]] {
        request.extend_from_slice(format!("*{}\r\n", words.len()).as_bytes());
        words.iter().for_each(|word| push_bulk(&mut request, word));
    }
    let mut response = b"+OK\r\n".to_vec();
    push_bulk(&mut response, &value);
    (request, response.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Sends `input` in pieces of `size` bytes, and returns all responses.
    fn answers(protocol: Protocol, input: &[u8], size: usize) -> Vec<u8> {
        let mut talk = Talk::new(protocol, &Store::default());
        let (mut all, mut output) = (Vec::new(), Vec::new());
        for piece in input.chunks(size) {
            talk.answer(piece, &mut output).unwrap();
            all.extend_from_slice(&output);
        }
        all
    }

    #[test]
    fn requests_in_pieces_get_the_same_responses() {
        let (request, length) = set_and_get();
        let twice = [&request[..], &request].concat();
        for size in 1..=twice.len() {
            let response = answers(Protocol::KeyValue, &twice, size);
            assert_eq!(response.len(), 2 * length);
            assert!(response.starts_with(b"+OK\r\n$64\r\nvvv"));
            let heads = b"GET / HTTP/1.1\r\na: b\r\n\r\nGET / HTTP/1.1\r\n\r\n";
            let response = answers(Protocol::Plaintext, heads, size.min(heads.len()));
            assert_eq!(response, [HELLO, HELLO].concat());
            assert_eq!(answers(Protocol::Echo, &twice, size), twice);
        }
    }

    #[test]
    fn a_missing_key_an_unknown_command_and_garbage_do_not_end_the_server() {
        let commands = b"*2\r\n$3\r\nget\r\n$1\r\nx\r\n*1\r\n$4\r\nPING\r\n";
        assert_eq!(
            answers(Protocol::KeyValue, commands, 100),
            b"$-1\r\n-ERR unknown command\r\n"
        );
        let mut talk = Talk::new(Protocol::KeyValue, &Store::default());
        for garbage in [&b"PING\r\n"[..], b"*1\r\n$x\r\n", b"*1\r\n$99999999\r\n"] {
            assert!(talk.answer(garbage, &mut Vec::new()).is_err());
        }
    }
}
