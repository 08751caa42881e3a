//! `creel-vgm ctl`: sends a command to a running player, or prints the player's status.

use std::io::{BufRead, BufReader, ErrorKind, Write};
use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context;
use clap::Args;
use creel_console::{Common, Exit, Failure, Format};
use serde_json::Value;

use super::play::{ACTION_WORDS, connect, default_socket};

/// Control a running player, or print its status
///
/// Start the player with `creel-vgm play --listen auto`. The list below shows the commands.
///
/// Exit codes: 0 done, 1 the player rejected the command, 2 wrong usage, 75 no player is listening
/// on the socket.
#[derive(Args, Debug)]
#[command(after_help = after_help())]
pub struct Ctl {
    /// Connect to the player at SOCKET [default: $XDG_RUNTIME_DIR/creel-vgm.sock]
    #[arg(long, value_name = "SOCKET")]
    socket: Option<PathBuf>,
    /// Print the status as JSON, like --format json
    #[arg(long)]
    json: bool,
    /// Send this command, followed by its value if it has one
    #[arg(required = true, value_name = "COMMAND", allow_hyphen_values = true)]
    command: Vec<String>,
}

fn after_help() -> String {
    let mut text = String::from("Commands:\n");
    for (word, meaning) in ACTION_WORDS {
        text.push_str(&format!("  {word:30}  {meaning}\n"));
    }
    text.push_str("\nExamples:\n  creel-vgm play --listen /tmp/player.sock album/ &\n  creel-vgm ctl --socket /tmp/player.sock next\n  creel-vgm ctl status --format json");
    text
}

/// The longest time that we wait for the answer of the player.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(5);

impl Ctl {
    /// Sends the command and prints the answer.
    pub fn run(&self, common: &Common) -> anyhow::Result<Exit> {
        let socket = match &self.socket {
            Some(socket) => socket.clone(),
            None => default_socket().map_err(|error| Failure::new(Exit::Usage, error))?,
        };
        let (line, format_after) = split_format(&self.command);
        let format = format_after.unwrap_or(match common.format {
            Format::Text => "text",
            Format::Json => "json",
            Format::Csv => "csv",
        });
        if !["text", "json"].contains(&format) {
            let message = format!("ctl cannot print {format}: use --format text or --format json");
            return Err(Failure::new(Exit::Usage, message).into());
        }
        let json = self.json || format == "json";
        let name = socket.display().to_string();
        let mut stream = connect(&socket, ANSWER_TIMEOUT).map_err(|error| match error.kind() {
            ErrorKind::Unsupported => Failure::new(Exit::Usage, error.to_string()),
            _ => Failure::new(
                Exit::TryAgain,
                format!(
                    "no player is listening on {name} ({error}). \
                     Start one with: creel-vgm play --listen {name} PATH"
                ),
            ),
        })?;
        stream.write_all(format!("{}\n", line.replace('\n', " ")).as_bytes())?;
        let mut answer = String::new();
        match BufReader::new(stream).read_line(&mut answer) {
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                let message = format!(
                    "the player on {name} did not answer within {} s. Its process may be stopped",
                    ANSWER_TIMEOUT.as_secs()
                );
                return Err(Failure::new(Exit::TryAgain, message).into());
            }
            read => read.with_context(|| format!("cannot read the answer of {name}"))?,
        };
        let answer: Value = serde_json::from_str(&answer)
            .with_context(|| format!("the answer of {name} is not the answer of a player"))?;
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

/// Separates the command from the flags for the format, which may also follow the command. clap does
/// not parse flags there, because a value such as -5 may begin with a hyphen.
fn split_format(words: &[String]) -> (String, Option<&str>) {
    let (mut command, mut format) = (Vec::new(), None);
    let mut words = words.iter().map(String::as_str);
    while let Some(word) = words.next() {
        match word.strip_prefix("--format=") {
            Some(value) => format = Some(value),
            None if word == "--format" => format = words.next(),
            None if word == "--json" => format = Some("json"),
            None => command.push(word),
        }
    }
    (command.join(" "), format)
}

/// Prints the status as text with one line per value. Unknown values are left out.
fn print_status(out: &mut impl Write, status: &Value) -> std::io::Result<()> {
    let is_endless = status["queue_position"].is_u64() && status["length_s"].is_null();
    for (name, value) in status.as_object().into_iter().flatten() {
        match value {
            Value::Null if name == "length_s" && is_endless => writeln!(out, "{name}: endless")?,
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
