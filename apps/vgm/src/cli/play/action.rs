//! The actions of the player. Keys, remote commands and MPRIS share them, so that each action has
//! the same effect everywhere.

use creel_vgm::play::{Command, Repeat};

use super::session::PlayerSession;

/// An action that the player can perform.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Action {
    Next,
    Previous,
    /// Pauses or resumes. `None` toggles.
    Pause(Option<bool>),
    Seek(i64),
    SeekTo(u64),
    Volume(Change),
    Tempo(Change),
    Pitch(Change),
    /// Plays the song with this index in the queue, from 0.
    Jump(usize),
    Toggle(usize),
    Solo(usize),
    UnmuteAll,
    LoopForever(Option<bool>),
    /// Sets the repeat mode. `None` selects the next one in the order off, all, one.
    Repeat(Option<Repeat>),
    Shuffle(Option<bool>),
    Quit,
}

/// A new value in percent, or a difference that is added to the current value.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Change {
    To(f32),
    By(f32),
}

impl Change {
    fn of(self, now: f32) -> f32 {
        match self {
            Change::To(percent) => percent,
            Change::By(percent) => now + percent,
        }
    }
}

/// The commands of the remote control with their arguments and meanings, for the help.
pub const WORDS: &[(&str, &str)] = &[
    ("next", "play the next song"),
    (
        "previous",
        "go to the start of the song, or within its first 2 s to the previous song",
    ),
    ("pause", "pause"),
    ("resume", "continue after a pause"),
    ("toggle", "pause, or continue"),
    (
        "seek +S | -S | S | M:S | H:M:S",
        "go S seconds forward or back, or to this time",
    ),
    ("jump N", "play song N of the queue"),
    (
        "volume P | +P | -P",
        "set or change the volume in percent, 0 to 400",
    ),
    (
        "tempo P | +P | -P",
        "set or change the tempo in percent, 25 to 400",
    ),
    (
        "pitch P | +P | -P",
        "set or change the pitch in percent, 25 to 400",
    ),
    ("mute N", "mute voice N, or unmute it"),
    ("solo N", "play only voice N, or all again"),
    ("hear-all", "unmute all voices"),
    (
        "loop on | off",
        "repeat loops endlessly, or as often as --loops says",
    ),
    ("repeat off | all | one", "repeat the queue or each song"),
    (
        "shuffle on | off",
        "play the rest of the queue in a random order",
    ),
    ("status", "print the status"),
    ("quit", "end the player"),
];

/// The range of tempo and pitch, in percent.
const TEMPO_PERCENT: std::ops::RangeInclusive<f32> = 25.0..=400.0;

impl Action {
    /// Parses a line of the remote control.
    ///
    /// # Errors
    ///
    /// Returns the reason if the line is not a valid command.
    pub fn read(line: &str) -> Result<Action, String> {
        let mut words = line.split_whitespace();
        let word = words.next().ok_or("empty command")?;
        let rest: Vec<&str> = words.collect();
        let one = || match rest[..] {
            [only] => Ok(only),
            [] => Err(format!("the command {word} needs a value")),
            _ => Err(format!("the command {word} accepts only one value")),
        };
        let none = |action| match rest.is_empty() {
            true => Ok(action),
            false => Err(format!("the command {word} does not accept a value")),
        };
        let switch = || match one()? {
            "on" => Ok(Some(true)),
            "off" => Ok(Some(false)),
            other => Err(format!("{word} {other}: expected on or off")),
        };
        let place = || match one()?.parse::<usize>() {
            Ok(number) if number > 0 => Ok(number - 1),
            _ => Err(format!("the command {word} needs a number of 1 or more")),
        };
        let change = |within: std::ops::RangeInclusive<f32>| {
            let text = one()?;
            let number = text.parse::<f32>().ok().filter(|number| number.is_finite());
            let number = number.ok_or_else(|| format!("{word} {text}: expected a percentage"))?;
            Ok::<Change, String>(match text.starts_with(['+', '-']) {
                true if number.abs() > within.end() - within.start() => {
                    let most = within.end() - within.start();
                    return Err(format!("{word} {text}: a change can be {most} at most"));
                }
                true => Change::By(number),
                false if within.contains(&number) => Change::To(number),
                false => {
                    let (low, high) = (within.start(), within.end());
                    return Err(format!(
                        "{word} {text}: expected a number from {low} to {high}"
                    ));
                }
            })
        };
        match word {
            "next" => none(Action::Next),
            "previous" => none(Action::Previous),
            "pause" => none(Action::Pause(Some(true))),
            "resume" => none(Action::Pause(Some(false))),
            "toggle" => none(Action::Pause(None)),
            "seek" => seek(one()?).ok_or_else(|| {
                format!(
                    "seek {}: expected a time, for example 90, 1:30 or +5",
                    rest[0]
                )
            }),
            "jump" => place().map(Action::Jump),
            "volume" => change(0.0..=400.0).map(Action::Volume),
            "tempo" => change(TEMPO_PERCENT).map(Action::Tempo),
            "pitch" => change(TEMPO_PERCENT).map(Action::Pitch),
            "mute" => place().map(Action::Toggle),
            "solo" => place().map(Action::Solo),
            "hear-all" => none(Action::UnmuteAll),
            "loop" => switch().map(Action::LoopForever),
            "shuffle" => switch().map(Action::Shuffle),
            "repeat" => match one()? {
                "off" => Ok(Action::Repeat(Some(Repeat::Off))),
                "all" => Ok(Action::Repeat(Some(Repeat::All))),
                "one" => Ok(Action::Repeat(Some(Repeat::One))),
                other => Err(format!("repeat {other}: expected off, all or one")),
            },
            "quit" => none(Action::Quit),
            "status" => Err("the command status does not accept a value".into()),
            other => Err(format!(
                "unknown command {other}: `creel-vgm ctl --help` lists them"
            )),
        }
    }

    /// Performs the action.
    ///
    /// # Errors
    ///
    /// Returns the reason if the action is not possible.
    pub fn apply(self, session: &PlayerSession) -> Result<(), String> {
        let controls = &session.controls;
        let thousandths = |percent: f32| (percent * 10.0).round().clamp(0.0, 1e6) as u32;
        let voice = |voice: usize| {
            let voices = session
                .now_playing()
                .track
                .as_ref()
                .map_or(0, |track| track.voices.len());
            match voice < voices {
                true => Ok(voice),
                false => Err(format!(
                    "there is no voice {}: the song has {voices} voices",
                    voice + 1
                )),
            }
        };
        match self {
            Action::Next => session.send(Command::Next),
            Action::Previous => session.send(Command::Previous),
            Action::Pause(paused) => {
                controls.pause(paused.unwrap_or(!controls.is_paused()));
                Ok(())
            }
            Action::Seek(ms) => session.send(Command::Seek(ms)),
            Action::SeekTo(ms) => session.send(Command::SeekTo(ms)),
            Action::Volume(change) => {
                controls.set_volume(change.of(controls.volume() * 100.0) / 100.0);
                Ok(())
            }
            Action::Tempo(change) => {
                let percent = change.of(controls.tempo() as f32 / 10.0);
                session.send(Command::Tempo(thousandths(percent)))
            }
            Action::Pitch(change) => {
                let percent = change.of(controls.pitch() as f32 / 10.0);
                session.send(Command::Pitch(thousandths(percent)))
            }
            Action::Jump(place) if place < session.labels.len() => {
                session.send(Command::Jump(place))
            }
            Action::Jump(place) => Err(format!(
                "there is no song {} in the queue, which has {} songs",
                place + 1,
                session.labels.len()
            )),
            Action::Toggle(place) => session.send(Command::ToggleVoice(voice(place)?)),
            Action::Solo(place) => session.send(Command::SoloVoice(voice(place)?)),
            Action::UnmuteAll => session.send(Command::UnmuteAll),
            Action::LoopForever(forever) => session.send(Command::LoopForever(
                forever.unwrap_or(!controls.loops_forever()),
            )),
            Action::Repeat(repeat) => {
                let next = match controls.repeat() {
                    Repeat::Off => Repeat::All,
                    Repeat::All => Repeat::One,
                    Repeat::One => Repeat::Off,
                };
                session.send(Command::Repeat(repeat.unwrap_or(next)))
            }
            Action::Shuffle(shuffled) => session.send(Command::Shuffle(
                shuffled.unwrap_or(!controls.is_shuffled()),
            )),
            Action::Quit => {
                session.quit();
                Ok(())
            }
        }
    }
}

/// Parses a time: seconds, optionally after minutes and hours. With a sign, the time is relative to
/// the current position.
fn seek(text: &str) -> Option<Action> {
    let (sign, time) = match text.split_at_checked(1) {
        Some(("+", rest)) => (Some(1), rest),
        Some(("-", rest)) => (Some(-1), rest),
        _ => (None, text),
    };
    let (before, seconds) = time.rsplit_once(':').unwrap_or(("0", time));
    let (hours, minutes) = before.split_once(':').unwrap_or(("0", before));
    let (hours, minutes): (u32, u32) = (hours.parse().ok()?, minutes.parse().ok()?);
    let seconds: f64 = seconds.parse().ok()?;
    if time.contains(':') && seconds >= 60.0 || before.contains(':') && minutes >= 60 {
        return None;
    }
    let all = f64::from(hours) * 3600.0 + f64::from(minutes) * 60.0 + seconds;
    if !(0.0..1e9).contains(&all) {
        return None;
    }
    let ms = (all * 1000.0).round() as i64;
    Some(match sign {
        Some(sign) => Action::Seek(sign * ms),
        None => Action::SeekTo(ms as u64),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_parse_and_invalid_ones_are_reported() {
        let good = [
            ("next", Action::Next),
            (" seek  +5.5 ", Action::Seek(5500)),
            ("seek -1:00", Action::Seek(-60_000)),
            ("seek 2:03", Action::SeekTo(123_000)),
            ("seek 1:02:03", Action::SeekTo(3_723_000)),
            ("volume -5", Action::Volume(Change::By(-5.0))),
            ("tempo 80", Action::Tempo(Change::To(80.0))),
            ("mute 3", Action::Toggle(2)),
            ("loop on", Action::LoopForever(Some(true))),
            ("repeat one", Action::Repeat(Some(Repeat::One))),
        ];
        for (line, action) in good {
            assert_eq!(Action::read(line), Ok(action), "{line}");
        }
        for line in [
            "",
            "dance",
            "next 1",
            "seek",
            "seek x",
            "seek -",
            "seek é",
            "seek 1:60:03",
            "seek 1:2:3:4",
            "volume +500",
            "tempo -400",
            "status x",
            "volume NaN",
            "mute 0",
            "seek 1:60",
            "volume 401",
            "tempo 24",
            "pitch 0",
            "mute -1",
            "loop",
            "loop maybe",
            "jump 1 2",
            "seek +-5",
            "seek 1e30",
        ] {
            assert!(Action::read(line).is_err(), "{line}");
        }
    }
}
