//! The sinks to which the player can send sound. We find a sink by its name on the command line.

#[cfg(unix)]
mod unix;

use std::path::PathBuf;

use creel_console::{Exit, Failure};
use creel_vgm::play::Device;
#[cfg(any(windows, target_os = "macos"))]
use creel_vgm::play::device::System;
use creel_vgm::play::device::{Null, Open, WavFile};

/// The list of all sinks, for error messages.
pub const SINKS: &str = if cfg!(windows) {
    "use one of auto, system, null, wav:FILE"
} else if cfg!(target_os = "macos") {
    "use one of auto, system, pulse, pw-play, pacat, aplay, null, wav:FILE, raw:FILE, -"
} else {
    "use one of auto, pulse, pw-play, pacat, aplay, null, wav:FILE, raw:FILE, -"
};

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
    let of_system = of_system(name, rate);
    #[cfg(unix)]
    let of_system = of_system.or_else(|| unix::opener(name, rate));
    let open = of_system.or_else(|| portable(name, rate));
    open.ok_or_else(|| {
        let message = format!("unknown sink {name}: {SINKS}");
        Failure::new(Exit::Usage, message).into()
    })
}

/// Returns the sinks that every system has.
fn portable(name: &str, rate: u32) -> Option<Open> {
    if name == "null" {
        let open = move || Ok(Box::new(Null::new(rate)) as Box<dyn Device>);
        return Some(Box::new(open));
    }
    let path = file(name, "wav:")?;
    let open = move || Ok(Box::new(WavFile::create(&path, rate)?) as Box<dyn Device>);
    Some(Box::new(open))
}

/// Returns the file of a sink like `wav:FILE`.
fn file(name: &str, kind: &str) -> Option<PathBuf> {
    let file = name.strip_prefix(kind).filter(|file| !file.is_empty());
    file.map(PathBuf::from)
}

/// Returns the sinks that use the sound output of the system.
#[cfg(any(windows, target_os = "macos"))]
fn of_system(name: &str, rate: u32) -> Option<Open> {
    let open = move || Ok(Box::new(System::open(rate)?) as Box<dyn Device>);
    matches!(name, "auto" | "system").then(|| Box::new(open) as Open)
}

/// Returns `None`, because the other sinks also reach the sound output of the system.
#[cfg(not(any(windows, target_os = "macos")))]
fn of_system(_: &str, _: u32) -> Option<Open> {
    None
}
