//! `creel-vgm ctl`: tells a running player something, or asks how it stands.

use std::io::{BufRead, BufReader, ErrorKind, Write};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context;
use clap::Args;
use creel_console::{Common, Exit, Failure, Format};
use serde_json::Value;

use super::play::{ACTION_WORDS, default_socket};

/// Tell a player something, or ask how it stands
///
/// The player is one that was started with --listen. Its commands:
/// next, previous, pause, resume, toggle, seek, jump, volume, tempo, pitch, mute, solo, hear-all,
/// loop, repeat, shuffle, status, quit.
///
/// Exit codes: 0 done, 1 the player refused, 2 usage, 75 no player listens there.
#[derive(Args, Debug)]
#[command(after_help = after_help())]
pub struct Ctl {
    /// Where the player listens; without it $XDG_RUNTIME_DIR/creel-vgm.sock
    #[arg(long, value_name = "SOCKET")]
    socket: Option<PathBuf>,
    /// For status: JSON instead of lines
    #[arg(long)]
    json: bool,
    /// What to tell, with its value
    #[arg(required = true, value_name = "COMMAND", allow_hyphen_values = true)]
    command: Vec<String>,
}

fn after_help() -> String {
    let mut text = String::from("Commands:\n");
    for (word, what) in ACTION_WORDS {
        text.push_str(&format!("  {word:24} {what}\n"));
    }
    text.push_str("\nExamples:\n  creel-vgm play --listen /tmp/player.sock album/ &\n  creel-vgm ctl --socket /tmp/player.sock next\n  creel-vgm ctl --json status");
    text
}

/// How long an answer is waited for.
const PATIENCE: Duration = Duration::from_secs(5);

impl Ctl {
    /// Sends the command, prints the answer.
    pub fn run(&self, common: &Common) -> anyhow::Result<Exit> {
        let socket = match &self.socket {
            Some(socket) => socket.clone(),
            None => default_socket().map_err(|error| Failure::new(Exit::Usage, error))?,
        };
        // A flag may stand behind the command, too.
        let is_json = |word: &&String| *word == "--json";
        let json = self.json
            || common.format == Format::Json
            || self.command.iter().any(|word| is_json(&word));
        if common.format == Format::Csv {
            let message = "--format csv: there is text and JSON";
            return Err(Failure::new(Exit::Usage, message).into());
        }
        let words: Vec<&str> = self
            .command
            .iter()
            .filter(|word| !is_json(word))
            .map(String::as_str)
            .collect();
        let line = words.join(" ");
        let name = socket.display().to_string();
        let mut stream = UnixStream::connect(&socket).map_err(|error| {
            Failure::new(
                Exit::TryAgain,
                format!("{name}: no player listens there ({error})"),
            )
        })?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        stream.write_all(format!("{}\n", line.replace('\n', " ")).as_bytes())?;
        let mut answer = String::new();
        match BufReader::new(stream).read_line(&mut answer) {
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                let message = format!("{name}: the player there does not answer; is it stopped?");
                return Err(Failure::new(Exit::TryAgain, message).into());
            }
            read => read.with_context(|| format!("{name}: no answer"))?,
        };
        let answer: Value =
            serde_json::from_str(&answer).with_context(|| format!("{name}: no player's answer"))?;
        if let Some(error) = answer["error"].as_str() {
            return Err(Failure::new(Exit::SomeFailed, error).into());
        }
        let mut out = std::io::stdout().lock();
        if line.trim() == "status" && json {
            writeln!(out, "{answer}")?;
        } else if line.trim() == "status" {
            print_status(&mut out, &answer)?;
        }
        Ok(Exit::Done)
    }
}

/// A line a fact, for people; what is not known is left out.
fn print_status(out: &mut impl Write, status: &Value) -> std::io::Result<()> {
    let is_endless = status["queue_position"].is_u64() && status["length_s"].is_null();
    for (name, value) in status.as_object().into_iter().flatten() {
        match value {
            Value::Null if name == "length_s" && is_endless => writeln!(out, "{name}: for ever")?,
            Value::Array(voices) => {
                for voice in voices {
                    let state = if voice["audible"] == true {
                        "audible"
                    } else {
                        "muted"
                    };
                    writeln!(
                        out,
                        "voice: {} ({state})",
                        voice["name"].as_str().unwrap_or("")
                    )?;
                }
            }
            Value::Null | Value::Object(_) => {}
            Value::String(text) if text.is_empty() => {}
            Value::String(text) => writeln!(out, "{name}: {text}")?,
            other => writeln!(out, "{name}: {other}")?,
        }
    }
    Ok(())
}
