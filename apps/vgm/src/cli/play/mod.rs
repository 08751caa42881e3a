//! `creel-vgm play`: plays songs one after another, with an interface in the terminal.
//!
//! The renderer and the sink have one pool each, with one worker. With `--jobs 1` they share a
//! worker. The interface runs on the main thread. The renderer and the sink never wait for the
//! interface, because that could interrupt the sound. We drop data that the interface is too slow
//! to read.

// Without the remote control, nothing reads its commands.
#[cfg_attr(not(unix), allow(dead_code))]
mod action;
mod backend;
mod config;
mod gains;
mod keys;
mod main_loop;
#[cfg(all(feature = "mpris", unix, not(target_vendor = "apple")))]
mod mpris;
#[cfg(unix)]
mod remote;
#[cfg(not(unix))]
#[path = "remote_disabled.rs"]
mod remote;
mod resume;
mod screen;
// Without the remote control, nothing reads the status.
#[cfg_attr(not(unix), allow(dead_code))]
mod session;
mod sinks;
mod terminal;
mod titles;
#[cfg(unix)]
mod tty;
#[cfg(not(unix))]
#[path = "tty_windows.rs"]
mod tty;
mod view;

use std::io::{self, IsTerminal};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use anyhow::Context;
use clap::{Args, ValueEnum};
use creel::{JoinError, JoinHandle, Observe, Pool, Wait};
use creel_console::{Common, Exit, Failure, Interrupt, duration};
use creel_vgm::batch::{Source, find};
use creel_vgm::demo;
use creel_vgm::effects::Loudness;
use creel_vgm::play::{
    BUFFER, Command, PlaybackSettings, PlayerParts, Queue, Repeat, player_parts_ahead,
};
use creel_vgm::render::Settings;
use serde::{Deserialize, Serialize};

use super::report_skipped_folders;
use super::sound_flags::{EffectOptions, ReplayGain, Resampler};
use super::stderr::{escape_control, report};
pub use action::WORDS as ACTION_WORDS;
use config::{Config, SongRules, loop_count};
use gains::Gains;
use keys::UiRequest;
use main_loop::{interface, lines};
use remote::Remote;
pub use remote::{connect, default_socket};
use resume::{PositionSaver, current_position};
use session::PlayerSession;
use view::View;

/// Play songs
///
/// In a terminal, the player has an interface. Press ? to see its keys. Otherwise, it prints one
/// line per song on stderr.
///
/// Exit codes: 0 all songs were played, 1 some songs could not be played or there is no sound
/// device, 2 wrong usage, 65 all inputs are malformed. An interrupted player is ended by the signal
/// itself, which shells report as 129, 130 or 143.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  creel-vgm play album/                     # an album, in the order of its files
  creel-vgm play --shuffle --repeat all -r music/
  creel-vgm play --loops 0 song.vgz         # repeat one song until you quit
  creel-vgm play --sink - song.vgz | aplay -f cd")]
pub struct Play {
    /// Play these songs, folders, archives (zip, 7z) and playlists (M3U, XSPF, JSPF); - reads one
    /// of them from standard input
    #[arg(required_unless_present_any = ["demo", "dump_config"], value_name = "PATH")]
    paths: Vec<PathBuf>,
    /// Play the built-in demo songs
    #[arg(long, help_heading = "Queue")]
    demo: bool,
    /// Also search the subfolders of the folders
    #[arg(short, long, help_heading = "Queue")]
    recurse: bool,
    /// Play the songs in a random order
    #[arg(short = 'z', long, help_heading = "Queue")]
    shuffle: bool,
    /// Repeat the queue or each song [default: off]
    #[arg(long, value_name = "MODE", value_enum, help_heading = "Queue")]
    repeat: Option<After>,
    /// Start with the song and the time at which you last stopped playing the same paths, and save
    /// the position at the end
    #[arg(long, help_heading = "Queue")]
    resume: bool,
    /// Send the sound to SINK [default: auto]. The sinks of Linux and macOS are pulse (a PulseAudio
    /// or PipeWire server), pw-play, pacat and aplay. system is the sound output of Windows and
    /// macOS. auto is system there, and otherwise the first of pulse, pw-play, pacat and aplay that
    /// is available. null plays in real time without output. wav:FILE writes a WAV file. raw:FILE
    /// and - write 16-bit stereo samples to FILE (for example a FIFO) or to stdout. Windows has
    /// only auto, system, null and wav:FILE
    #[arg(long, value_name = "SINK", help_heading = "Sound")]
    sink: Option<String>,
    /// Play loops N times; 0 repeats them until you skip the song [default: 2]
    #[arg(
        long,
        value_name = "N",
        value_parser = clap::value_parser!(u32).range(0..=1000),
        help_heading = "Sound"
    )]
    loops: Option<u32>,
    /// Fade out looping songs for TIME [default: 5s]
    #[arg(
        long,
        value_name = "TIME",
        value_parser = duration::value_parser,
        help_heading = "Sound"
    )]
    fade: Option<Duration>,
    /// Set the volume in percent, from 0 to 400 [default: 100]
    #[arg(
        long,
        value_name = "PERCENT",
        value_parser = clap::value_parser!(u16).range(0..=400),
        help_heading = "Sound"
    )]
    volume: Option<u16>,
    /// Play HZ frames per second [default: 44100]
    #[arg(
        long,
        value_name = "HZ",
        value_parser = clap::value_parser!(u32).range(8_000..=192_000),
        help_heading = "Sound"
    )]
    sample_rate: Option<u32>,
    /// Render sound up to TIME before it is heard, from 20ms to 10s. A longer buffer helps if the
    /// sound is interrupted [default: 200ms]
    #[arg(long, value_name = "TIME", value_parser = buffer, help_heading = "Sound")]
    buffer: Option<Duration>,
    /// Choose the filter R that converts the sample rates of the chips to the output rate [default:
    /// band-limited]
    #[arg(long, value_name = "R", value_enum, help_heading = "Sound")]
    resampler: Option<Resampler>,
    /// Bring each song (track), or all songs of a folder together (album), to -18 LUFS, but not
    /// beyond full scale. The player measures a song before it starts, and an album before its
    /// first song starts
    #[arg(long, value_name = "SCOPE", value_enum, help_heading = "Sound")]
    replay_gain: Option<ReplayGain>,
    #[command(flatten)]
    tone: EffectOptions,
    /// Accept commands of `creel-vgm ctl` on SOCKET; auto is $XDG_RUNTIME_DIR/creel-vgm.sock
    #[arg(long, value_name = "SOCKET", help_heading = "Control")]
    listen: Option<PathBuf>,
    /// Print one line per song instead of showing the interface
    #[arg(long, help_heading = "Control")]
    plain: bool,
    /// Do not use the mouse, so that the terminal can select text
    #[arg(long, help_heading = "Control")]
    no_mouse: bool,
    /// Do not react to media keys and other MPRIS commands over D-Bus
    #[arg(long, help_heading = "Control")]
    no_mpris: bool,
    /// Read FILE instead of $XDG_CONFIG_HOME/creel-vgm/config.toml
    #[arg(long, value_name = "FILE", help_heading = "Configuration")]
    config: Option<PathBuf>,
    /// Print the settings in effect, from the file and the flags, as a configuration file and exit
    #[arg(long, help_heading = "Configuration")]
    dump_config: bool,
    /// Use N workers. With 1, rendering and sound output share a worker. More than 2 have no effect
    /// [default: 2]
    #[arg(
        short,
        long,
        value_name = "N",
        value_parser = creel_console::knobs::jobs,
        help_heading = "Pool settings"
    )]
    jobs: Option<usize>,
    /// Let other programs observe the workers: off or look (`creel top` shows the workers)
    #[arg(
        long,
        value_name = "O",
        default_value = "off",
        help_heading = "Pool settings"
    )]
    observe: Observe,
}

/// The behaviour at the end of the queue, as the user names it.
#[derive(ValueEnum, Clone, Copy, Debug, Default, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum After {
    /// Stop after the last song
    #[default]
    Off,
    /// Start again with the first song
    All,
    /// Repeat each song
    One,
}

/// Parses a duration from 20 ms to 10 s.
fn buffer(text: &str) -> Result<Duration, String> {
    let parsed = duration::parse_duration(text)?;
    if (Duration::from_millis(20)..=Duration::from_secs(10)).contains(&parsed) {
        Ok(parsed)
    } else {
        Err("expected a duration from 20ms to 10s".into())
    }
}

impl Play {
    /// Plays until the queue ends or the user quits.
    pub fn run(&self, common: &Common) -> anyhow::Result<Exit> {
        let config = self.over(Config::read(self.config.as_deref())?);
        if self.dump_config {
            print!("{}", toml::to_string(&whole(config))?);
            return Ok(Exit::Done);
        }
        let config = whole(config);
        let (songs, refused) = self.songs(config.recurse == Some(true));
        if songs.is_empty() {
            let exit = if refused > 0 {
                Exit::BadData
            } else {
                Exit::Usage
            };
            let message = "nothing to play: the paths contain no songs";
            return Err(Failure::new(exit, message).into());
        }
        let interrupt = Interrupt::install().context("cannot install a handler for Ctrl-C")?;
        let (rate, name) = (
            config.sample_rate.unwrap_or(44_100),
            config.sink.as_deref().unwrap_or("auto"),
        );
        let mut open = sinks::opener(name, rate)?;
        let device = open().map_err(|error| {
            let message = format!(
                "cannot open the sound output {name}: {error}. \
                 Use --sink null to play without sound"
            );
            Failure::new(Exit::SomeFailed, message)
        })?;
        let settings = Settings {
            loops: loop_count(config.loops.unwrap_or(2)),
            fade_seconds: config.fade.unwrap_or(5.0),
            sample_rate: rate,
            quality: config.resampler.unwrap_or_default().quality(),
            ..Settings::default()
        };
        let (queue, start) = self.queue(songs, &config);
        let names: Vec<String> = queue
            .songs()
            .iter()
            .map(|song| escape_control(&song.to_string()))
            .collect();
        let listed = queue.songs().to_vec();
        let rules = SongRules::new(&config.song)?;
        let effects = config.effects();
        let wanted = config
            .replay_gain
            .map_or(Loudness::AsIs, ReplayGain::loudness);
        let gains = Gains::new(wanted, &effects, &settings, queue.songs())?;
        let measured = gains.clone();
        let choose = Box::new(
            move |song: &Source, next: Option<&Source>| PlaybackSettings {
                settings: rules.of(song, &settings),
                effects: effects.clone(),
                gain: gains.of(song, next),
            },
        );
        let PlayerParts {
            renderer,
            sink,
            controls,
            commands,
            events,
            taps,
        } = player_parts_ahead(queue, rate, choose, open, self.buffer.unwrap_or(BUFFER));
        controls.set_volume(f32::from(config.volume.unwrap_or(100)) / 100.0);
        let has_two = config.jobs.unwrap_or(2) > 1;
        let rendering = self.pool("render")?;
        let sounding = if has_two {
            Some(self.pool("sound")?)
        } else {
            None
        };
        let session = Arc::new(PlayerSession::new(controls, commands, names, refused));
        if start > 0 {
            session.commands.send(Command::SeekTo(start));
        }
        let remote = self.remote(&config, &session, &rendering)?;
        #[cfg(all(feature = "mpris", unix, not(target_vendor = "apple")))]
        if config.mpris != Some(false) {
            mpris::serve(&session, &rendering);
        }
        let ends = [
            rendering.spawn(renderer.run()),
            sounding
                .as_ref()
                .unwrap_or(&rendering)
                .spawn(sink.run(device, has_two)),
        ];
        end_by_signals(&interrupt, &rendering)?;
        let mut view = View::new(Arc::clone(&session), events, taps);
        let mut saver = PositionSaver::new(&self.paths, config.resume == Some(true));
        let events = if self.has_interface(name) {
            titles::read(listed, &session)?;
            interface(
                &mut view,
                &interrupt,
                &mut saver,
                config.mouse != Some(false),
            )
        } else {
            lines(&mut view, &interrupt, &mut saver, common.quiet)
        };
        let left = current_position(&saver.paths, &session);
        measured.stop();
        session.commands.send(Command::Quit);
        session.controls.pause(false);
        let limit = if session.controls.is_drained() {
            DRAIN_TIMEOUT
        } else {
            QUIT_TIMEOUT
        };
        let ended = finish(&rendering, ends, limit);
        drop(remote);
        let panicked = ended.unwrap_or_else(|| {
            // The device stalls, so dropping the pools would wait for it. We leave their threads to
            // the end of the program.
            std::mem::forget((rendering, sounding));
            None
        });
        let request = events?;
        if let Some(panic) = panicked {
            // The panic hook has already printed the message.
            std::panic::resume_unwind(panic.into_payload());
        }
        if config.resume == Some(true)
            && let Some(left) = left
        {
            resume::save(left).context("cannot save the position for --resume")?;
        }
        if request == Some(UiRequest::Interrupt) {
            // The signal ends the player as well.
            tty::interrupt_group()?;
        }
        interrupt.check()?;
        match session.controls.failure() {
            // A closed pipe is not an error, because its reader may stop at any time.
            Some(error) if error.kind() != io::ErrorKind::BrokenPipe => {
                let message = format!("cannot write to the sound output {name}: {error}");
                return Err(Failure::new(Exit::SomeFailed, message).into());
            }
            _ => {}
        }
        Ok(match (session.failed(), session.controls.played()) {
            (0, _) => Exit::Done,
            (_, 0) => Exit::BadData,
            _ => Exit::SomeFailed,
        })
    }

    /// Returns the configuration of the file, overridden by the flags.
    fn over(&self, file: Config) -> Config {
        let flag = |set: bool| set.then_some(true);
        Config {
            sink: self.sink.clone().or(file.sink),
            jobs: self.jobs.or(file.jobs),
            recurse: flag(self.recurse).or(file.recurse),
            shuffle: flag(self.shuffle).or(file.shuffle),
            repeat: self.repeat.or(file.repeat),
            loops: self.loops.or(file.loops),
            fade: self.fade.map(|fade| fade.as_secs_f64()).or(file.fade),
            volume: self.volume.or(file.volume),
            sample_rate: self.sample_rate.or(file.sample_rate),
            resampler: self.resampler.or(file.resampler),
            replay_gain: self.replay_gain.or(file.replay_gain),
            dc_filter: self.tone.dc_filter().or(file.dc_filter),
            eq: match self.tone.eq.is_empty() {
                true => file.eq,
                false => self.tone.eq.clone(),
            },
            reverb: Some(self.tone.reverb)
                .filter(|reverb| *reverb != 0.0)
                .or(file.reverb),
            width: Some(self.tone.width)
                .filter(|width| *width != 1.0)
                .or(file.width),
            soft_clip: flag(self.tone.soft_clip).or(file.soft_clip),
            resume: flag(self.resume).or(file.resume),
            mouse: self.no_mouse.then_some(false).or(file.mouse),
            mpris: self.no_mpris.then_some(false).or(file.mpris),
            listen: self.listen.clone().or(file.listen),
            song: file.song,
        }
    }

    /// Creates the queue, and moves it to the song at which the user left it. Also returns the
    /// saved position in that song, in ms.
    fn queue(&self, songs: Vec<Source>, config: &Config) -> (Queue, u64) {
        let mut queue = Queue::new(songs).seeded(seed());
        queue.set_repeat(match config.repeat.unwrap_or_default() {
            After::Off => Repeat::Off,
            After::All => Repeat::All,
            After::One => Repeat::One,
        });
        queue.shuffle_all(config.shuffle == Some(true));
        let left = (config.resume == Some(true))
            .then(|| resume::saved_position(&resume::absolute_paths(&self.paths)));
        let Some(left) = left.flatten() else {
            return (queue, 0);
        };
        let place = queue
            .songs()
            .iter()
            .position(|song| song.to_string() == left.source);
        match place {
            Some(place) => {
                queue.jump(place);
                (queue, left.ms)
            }
            None => (queue, 0),
        }
    }

    fn remote(
        &self,
        config: &Config,
        session: &Arc<PlayerSession>,
        pool: &Pool,
    ) -> anyhow::Result<Option<Remote>> {
        let Some(path) = &config.listen else {
            return Ok(None);
        };
        let path = match path.to_str() {
            Some("auto") => default_socket()
                .map_err(|why| Failure::new(Exit::Usage, format!("cannot listen: {why}")))?,
            _ => path.clone(),
        };
        let remote = Remote::listen(&path, session, pool);
        let remote = remote.with_context(|| format!("cannot listen on {}", path.display()))?;
        Ok(Some(remote))
    }

    fn pool(&self, name: &str) -> anyhow::Result<Pool> {
        let pool = Pool::builder()
            .name(name)
            .workers(1)
            .wait(Wait::Park)
            .observe(self.observe)
            .build();
        pool.with_context(|| format!("cannot start the pool {name}"))
    }

    /// Returns the songs of the paths and the number of rejected paths. It reports each rejected
    /// path.
    fn songs(&self, recurse: bool) -> (Vec<Source>, usize) {
        if self.demo {
            return (demo::CARRIED.iter().map(Source::Carried).collect(), 0);
        }
        // We check this before we open the sink, because a missing sink would hide these errors.
        let mut missing = 0;
        let mut paths = self.paths.clone();
        paths.retain(|path| match path.metadata() {
            Err(error) if path.as_os_str() != "-" => {
                report(&format!(
                    "cannot read {}: {error}",
                    escape_control(&path.display().to_string())
                ));
                missing += 1;
                false
            }
            _ => true,
        });
        let found = find(&paths, recurse);
        report_skipped_folders(&found.unsearched_folders, &found.empty_folders);
        for (path, error) in &found.refused {
            report(&format!(
                "cannot read {}: {error}",
                escape_control(&path.display().to_string())
            ));
        }
        let songs = found.songs.into_iter().map(|(song, _)| song).collect();
        (songs, missing + found.refused.len())
    }

    fn has_interface(&self, sink: &str) -> bool {
        !self.plain
            && tty::is_screen()
            && sink != "-"
            && io::stdout().is_terminal()
            && tty::is_foreground()
    }
}

/// Fills in the defaults for settings that neither a flag nor the file sets.
fn whole(config: Config) -> Config {
    Config {
        sink: config.sink.or(Some("auto".into())),
        jobs: config.jobs.or(Some(2)),
        recurse: config.recurse.or(Some(false)),
        shuffle: config.shuffle.or(Some(false)),
        repeat: config.repeat.or(Some(After::Off)),
        loops: config.loops.or(Some(2)),
        fade: config.fade.or(Some(5.0)),
        volume: config.volume.or(Some(100)),
        sample_rate: config.sample_rate.or(Some(44_100)),
        resampler: config.resampler.or(Some(Resampler::default())),
        resume: config.resume.or(Some(false)),
        mouse: config.mouse.or(Some(true)),
        mpris: config.mpris.or(Some(true)),
        ..config
    }
}

/// Ends the player normally on SIGHUP (the terminal was closed) and SIGQUIT (^\). It saves the
/// position and restores the terminal. Signals that are ignored stay ignored, for example SIGHUP
/// under `nohup`.
#[cfg(unix)]
fn end_by_signals(interrupt: &Interrupt, pool: &Pool) -> anyhow::Result<()> {
    use creel::signal::{SIGHUP, SIGQUIT, signal};
    use creel_console::is_ignored;

    for number in [SIGHUP, SIGQUIT]
        .into_iter()
        .filter(|number| !is_ignored(*number))
    {
        let (mut events, interrupt) = (signal(number)?, interrupt.clone());
        pool.spawn(async move {
            match events.recv().await {
                Ok(()) if number == SIGHUP => interrupt.hang_up(),
                // The default action of SIGQUIT would write a core file.
                Ok(()) => interrupt.request(),
                Err(_) => {}
            }
        });
    }
    Ok(())
}

/// Does nothing, because the system has neither SIGHUP nor SIGQUIT.
#[cfg(not(unix))]
#[expect(clippy::unnecessary_wraps)]
fn end_by_signals(_: &Interrupt, _: &Pool) -> anyhow::Result<()> {
    Ok(())
}

/// Returns a different seed for each run.
fn seed() -> u64 {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    now.map_or(1, |time| time.as_nanos() as u64)
}

/// The time that the device has to play its buffer after the end of the queue.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(5);
/// The time that the device has to stop after the user quits.
const QUIT_TIMEOUT: Duration = Duration::from_secs(3);

/// Waits for the renderer and the sink, and returns the panic of one of them, if any. Returns
/// `None` if they have not ended in time, for example because the device stalls.
fn finish(
    pool: &Pool,
    ends: [JoinHandle<()>; 2],
    limit: Duration,
) -> Option<Option<creel::task::Panic>> {
    let all = async {
        let mut panicked = None;
        for end in ends {
            if let Err(JoinError::Panicked(panic)) = end.await {
                panicked = Some(panic);
            }
        }
        panicked
    };
    pool.block_on(creel::time::timeout(limit, all)).ok()
}
