//! What a player can be told, by a key or by a line: one meaning for both.

use creel_vgm::play::{Command, Repeat};

use super::session::PlayerSession;

/// Something that a player can be told.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Action {
    Next,
    Previous,
    /// None: the other way round.
    Pause(Option<bool>),
    Seek(i64),
    SeekTo(u64),
    Volume(Change),
    Tempo(Change),
    Pitch(Change),
    /// By its place, the first is 0.
    Jump(usize),
    Toggle(usize),
    Solo(usize),
    UnmuteAll,
    LoopForever(Option<bool>),
    /// None: the next of off, all, one.
    Repeat(Option<Repeat>),
    Shuffle(Option<bool>),
    Quit,
}

/// A value in percent, or what is added to the one that holds.
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

/// The words of the remote control, each with what may follow, for its help and the guide.
pub const WORDS: &[(&str, &str)] = &[
    ("next", "the next song"),
    (
        "previous",
        "this song's start, within 2 s of it the song before",
    ),
    ("pause", "stop the sound"),
    ("resume", "let it go on"),
    ("toggle", "the one or the other"),
    (
        "seek +S | -S | S | M:S | H:M:S",
        "so many seconds on or back, or to this time",
    ),
    ("jump N", "the song with this place in the queue"),
    ("volume P | +P | -P", "in percent, 0 to 400"),
    ("tempo P | +P | -P", "in percent, 25 to 400"),
    ("pitch P | +P | -P", "in percent, 25 to 400"),
    ("mute N", "voice N is heard, or not"),
    ("solo N", "voice N alone, or all again"),
    ("hear-all", "all voices"),
    (
        "loop on | off",
        "songs that loop play for ever, or as often as was set",
    ),
    ("repeat off | all | one", "what comes after the last song"),
    (
        "shuffle on | off",
        "the rest of the queue in a random order",
    ),
    ("status", "how it stands"),
    ("quit", "the end"),
];

/// Tempo and pitch, in percent.
const TEMPO_PERCENT: std::ops::RangeInclusive<f32> = 25.0..=400.0;

impl Action {
    /// Reads a line of the remote control.
    ///
    /// # Errors
    ///
    /// Why it is none.
    pub fn read(line: &str) -> Result<Action, String> {
        let mut words = line.split_whitespace();
        let word = words.next().ok_or("nothing is asked for")?;
        let rest: Vec<&str> = words.collect();
        let one = || match rest[..] {
            [only] => Ok(only),
            [] => Err(format!("{word}: wants a value")),
            _ => Err(format!("{word}: wants one value")),
        };
        let none = |action| match rest.is_empty() {
            true => Ok(action),
            false => Err(format!("{word}: takes no value")),
        };
        let switch = || match one()? {
            "on" => Ok(Some(true)),
            "off" => Ok(Some(false)),
            other => Err(format!("{word} {other}: on or off")),
        };
        let place = || match one()?.parse::<usize>() {
            Ok(number) if number > 0 => Ok(number - 1),
            _ => Err(format!("{word}: wants a number from 1 on")),
        };
        let change = |within: std::ops::RangeInclusive<f32>| {
            let text = one()?;
            let number = text.parse::<f32>().ok().filter(|number| number.is_finite());
            let number = number.ok_or_else(|| format!("{word} {text}: not a number of percent"))?;
            Ok::<Change, String>(match text.starts_with(['+', '-']) {
                true if number.abs() > within.end() - within.start() => {
                    let most = within.end() - within.start();
                    return Err(format!("{word} {text}: {most} at most"));
                }
                true => Change::By(number),
                false if within.contains(&number) => Change::To(number),
                false => {
                    let (low, high) = (within.start(), within.end());
                    return Err(format!("{word} {text}: not from {low} to {high}"));
                }
            })
        };
        match word {
            "next" => none(Action::Next),
            "previous" => none(Action::Previous),
            "pause" => none(Action::Pause(Some(true))),
            "resume" => none(Action::Pause(Some(false))),
            "toggle" => none(Action::Pause(None)),
            "seek" => seek(one()?).ok_or_else(|| format!("seek {}: not a time", rest[0])),
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
                other => Err(format!("repeat {other}: off, all or one")),
            },
            "quit" => none(Action::Quit),
            "status" => Err("status: takes no value".into()),
            other => Err(format!("{other}: no such command")),
        }
    }

    /// Does it.
    ///
    /// # Errors
    ///
    /// Why it cannot be done.
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
                false => Err(format!("there are {voices} voices")),
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
            Action::Jump(_) => Err(format!("there are {} songs", session.labels.len())),
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

/// Seconds, or minutes and hours before them; with a sign from where the song is.
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
