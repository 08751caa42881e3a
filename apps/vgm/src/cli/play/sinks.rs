//! The sinks to which the player can send sound, by the names on the command line.

use std::io;
use std::path::PathBuf;

use creel_console::{Exit, Failure};
use creel_vgm::play::Device;
use creel_vgm::play::device::{Null, Open, PLAYERS, Pipe, Pulse, WavFile};

/// The list of all sinks, for error messages.
pub const SINKS: &str =
    "use one of auto, pulse, pw-play, pacat, aplay, null, wav:FILE, raw:FILE, -";

/// Returns whether a sink has this name.
pub fn is_sink(name: &str) -> bool {
    opener(name, 44_100).is_ok()
}

/// Returns a function that opens the device of this name.
///
/// # Errors
///
/// Fails if no sink has this name.
pub fn opener(name: &str, rate: u32) -> anyhow::Result<Open> {
    let file = |kind: &str| {
        name.strip_prefix(kind)
            .filter(|file| !file.is_empty())
            .map(PathBuf::from)
    };
    Ok(match name {
        "null" => Box::new(move || Ok(Box::new(Null::new(rate)) as Box<dyn Device>)),
        "-" => Box::new(|| Ok(Box::new(Pipe::to_stdout()?) as Box<dyn Device>)),
        "pulse" => Box::new(move || pulse(rate)),
        "auto" => Box::new(move || pulse(rate).or_else(|why| any_program(&why, rate))),
        _ => {
            if let Some(path) = file("wav:") {
                Box::new(move || Ok(Box::new(WavFile::create(&path, rate)?) as Box<dyn Device>))
            } else if let Some(path) = file("raw:") {
                Box::new(move || Ok(Box::new(Pipe::to_file(&path)?) as Box<dyn Device>))
            } else if let Some(at) = PLAYERS.iter().position(|player| player.0 == name) {
                Box::new(move || program(&PLAYERS[at..=at], rate))
            } else {
                let message = format!("unknown sink {name}: {SINKS}");
                return Err(Failure::new(Exit::Usage, message).into());
            }
        }
    })
}

fn pulse(rate: u32) -> io::Result<Box<dyn Device>> {
    match Pulse::connect(rate) {
        Ok(pulse) => Ok(Box::new(pulse)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Err(io::Error::other(
            "no PulseAudio or PipeWire server is running",
        )),
        Err(error) => Err(io::Error::other(format!(
            "cannot use the PulseAudio server: {error}"
        ))),
    }
}

/// Starts a program that plays sound. `why` is the reason why the sound server could not be used.
fn any_program(why: &io::Error, rate: u32) -> io::Result<Box<dyn Device>> {
    program(PLAYERS, rate).map_err(|error| io::Error::other(format!("{why}, {error}")))
}

/// Starts the first of these programs that is installed and keeps running.
fn program(programs: &[(&str, &[&str])], rate: u32) -> io::Result<Box<dyn Device>> {
    let mut refused = Vec::new();
    for (name, arguments) in programs {
        match Pipe::to_program(name, arguments, rate) {
            Ok(pipe) => return Ok(Box::new(pipe)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => refused.push(format!("{name}: {error}")),
        }
    }
    if !refused.is_empty() {
        return Err(io::Error::other(refused.join(", ")));
    }
    let names: Vec<&str> = programs.iter().map(|program| program.0).collect();
    Err(io::Error::other(format!(
        "not installed: {}",
        names.join(", ")
    )))
}
