//! The sinks that use sockets, pipes and programs.

use std::io;

use creel_vgm::play::Device;
use creel_vgm::play::device::{Open, PLAYERS, Pipe, Pulse};

use super::file;

/// Returns a function that opens the device of this name, or `None` if it is not one of these.
pub(super) fn opener(name: &str, rate: u32) -> Option<Open> {
    Some(match name {
        "-" => Box::new(|| Ok(Box::new(Pipe::to_stdout()?) as Box<dyn Device>)),
        "pulse" => Box::new(move || pulse(rate)),
        "auto" => Box::new(move || pulse(rate).or_else(|why| any_program(&why, rate))),
        _ => {
            if let Some(path) = file(name, "raw:") {
                Box::new(move || Ok(Box::new(Pipe::to_file(&path)?) as Box<dyn Device>))
            } else {
                let at = PLAYERS.iter().position(|player| player.0 == name)?;
                Box::new(move || program(&PLAYERS[at..=at], rate))
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
        "no program for sound output is installed: {}",
        names.join(", ")
    )))
}
