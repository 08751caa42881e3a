//! `creel-vgm play`: songs one after another, with an interface in the terminal.
//!
//! The renderer and the sink have a pool each, the interface the program's own thread; on one job the
//! first two share a worker. Nobody waits for the interface: what it has no time for is dropped.

mod action;
mod backend;
mod config;
mod gains;
mod keys;
#[cfg(feature = "mpris")]
mod mpris;
mod remote;
mod resume;
mod screen;
mod session;
mod sinks;
mod terminal;
mod titles;
mod view;

use std::env;
use std::io::{self, IsTerminal};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use anyhow::Context;
use clap::{Args, ValueEnum};
use creel::signal::{SIGHUP, SIGQUIT, signal};
use creel::{JoinError, JoinHandle, Observe, Pool, Wait};
use creel_console::{Common, Exit, Failure, Interrupt, is_ignored};
use creel_vgm::batch::{Source, find};
use creel_vgm::demo;
use creel_vgm::effects::Loudness;
use creel_vgm::play::{Command, PlaybackSettings, PlayerParts, Queue, Repeat, player_parts};
use creel_vgm::render::Settings;
use rustix::io::Errno;
use rustix::process::{Signal, kill_current_process_group};
use serde::{Deserialize, Serialize};

use super::report_skipped_folders;
use super::sound_flags::{EffectOptions, ReplayGain, Resampler};
use super::stderr::{escape_control, report, write_line};
pub use action::WORDS as ACTION_WORDS;
use config::{Config, SongRules, loop_count};
use gains::Gains;
use keys::UiRequest;
use remote::Remote;
pub use remote::default_socket;
use resume::{PositionSaver, current_position};
use session::PlayerSession;
use terminal::Terminal;
use view::View;

/// Play songs
///
/// In a terminal with an interface: ? shows its keys. Elsewhere, a line a song on stderr.
///
/// Exit codes: 0 played, 1 some songs could not be or there is no
/// sound device, 2 usage, 65 nothing but bad data; 129, 130 and 143
/// interrupted, by the signal itself.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  creel-vgm play album/                     an album, in the order of its files
  creel-vgm play --shuffle --repeat all -r music/
  creel-vgm play --loops 0 song.vgz         for ever
  creel-vgm play --sink - song.vgz | aplay -f cd")]
pub struct Play {
    /// Songs, folders of songs, playlists (M3U, XSPF, JSPF), - for standard input
    #[arg(required_unless_present_any = ["demo", "dump_config"], value_name = "PATH")]
    paths: Vec<PathBuf>,
    /// Play the songs that the program carries
    #[arg(long)]
    demo: bool,
    /// Look for songs in folders below the folders, too
    #[arg(short, long)]
    recurse: bool,
    /// Play them in a random order
    #[arg(short = 'z', long)]
    shuffle: bool,
    /// What comes after the last song [default: off]
    #[arg(long, value_name = "WHAT", value_enum)]
    repeat: Option<After>,
    /// How often loops are played; 0 for ever [default: 2]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(0..=1000))]
    loops: Option<u32>,
    /// How long songs that loop fade out, in seconds [default: 5]
    #[arg(long, value_name = "S", value_parser = crate::cli::sound_flags::seconds)]
    fade: Option<f64>,
    /// How loud, in percent, 0 to 400 [default: 100]
    #[arg(long, value_name = "PERCENT", value_parser = clap::value_parser!(u16).range(0..=400))]
    volume: Option<u16>,
    /// Frames a second [default: 44100]
    #[arg(long, value_name = "HZ", value_parser = clap::value_parser!(u32).range(8_000..=192_000))]
    sample_rate: Option<u32>,
    /// How native frames become output frames [default: band-limited]
    #[arg(long, value_name = "R", value_enum)]
    resampler: Option<Resampler>,
    /// Bring songs (track) or the songs of each folder together (album) to -18 LUFS, at most to full
    /// scale; a song is measured before it begins, an album before its first song does
    #[arg(long, value_name = "WHOSE", value_enum)]
    replay_gain: Option<ReplayGain>,
    /// Where the sound goes [default: auto]: auto (the first of the others that is there), pulse (a
    /// PulseAudio or PipeWire server), pw-play, pacat, aplay, null (nowhere, in real time), wav:FILE,
    /// raw:FILE (16-bit stereo; a FIFO, say), - (the same on stdout)
    #[arg(long, value_name = "SINK")]
    sink: Option<String>,
    /// Go on where these paths were left, and remember where they are left now
    #[arg(long)]
    resume: bool,
    /// Be told by `creel-vgm ctl`, at this socket; auto: $XDG_RUNTIME_DIR/creel-vgm.sock
    #[arg(long, value_name = "SOCKET")]
    listen: Option<PathBuf>,
    /// No interface: a line a song
    #[arg(long)]
    plain: bool,
    /// Leave the mouse to the terminal
    #[arg(long)]
    no_mouse: bool,
    /// Leave media keys to others: do not be told over D-Bus (MPRIS)
    #[arg(long)]
    no_mpris: bool,
    /// Read this file instead of $XDG_CONFIG_HOME/creel-vgm/config.toml
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Print what holds, of the file and the flags, as such a file, and end
    #[arg(long)]
    dump_config: bool,
    #[command(flatten)]
    tone: EffectOptions,
    /// Workers: with 1, rendering and sound share one [default: 2]
    #[arg(short, long, value_name = "N", value_parser = creel_console::knobs::jobs)]
    jobs: Option<usize>,
    /// What others may do with the workers from outside: off, look (`creel top` shows them)
    #[arg(long, value_name = "O", default_value = "off")]
    observe: Observe,
}

/// What comes after the last song, by its name.
#[derive(ValueEnum, Clone, Copy, Debug, Default, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum After {
    /// The end
    #[default]
    Off,
    /// The first song again
    All,
    /// Each song is followed by itself
    One,
}

impl Play {
    /// Plays until the queue's end or until the user has had enough.
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
            return Err(Failure::new(exit, "there is nothing to play").into());
        }
        let interrupt = Interrupt::install().context("cannot take over Ctrl-C")?;
        let (rate, name) = (
            config.sample_rate.unwrap_or(44_100),
            config.sink.as_deref().unwrap_or("auto"),
        );
        let mut open = sinks::opener(name, rate)?;
        let device = open().map_err(|error| {
            let message = format!("--sink {name}: {error}; --sink null plays without sound");
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
        } = player_parts(queue, rate, choose, open);
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
        #[cfg(feature = "mpris")]
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
            ENDS
        } else {
            QUITS
        };
        let ended = finish(&rendering, ends, limit);
        drop(remote);
        let panicked = ended.unwrap_or_else(|| {
            // Nor are its threads waited for: the program's end takes them with it.
            std::mem::forget((rendering, sounding));
            None
        });
        let request = events?;
        if let Some(panic) = panicked {
            // It said what it was about when it happened.
            std::panic::resume_unwind(panic.into_payload());
        }
        if config.resume == Some(true)
            && let Some(left) = left
        {
            resume::save(left).context("cannot remember where it was left")?;
        }
        if request == Some(UiRequest::Interrupt) {
            // As the terminal would have, had it not been asked for keys: a script that waits for the
            // player is told, too. The player ends by it.
            kill_current_process_group(Signal::INT)?;
        }
        interrupt.check()?;
        match session.controls.failure() {
            // Who reads has had enough.
            Some(error) if error.kind() != io::ErrorKind::BrokenPipe => {
                let message = format!("--sink {name}: {error}");
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

    /// What the file says, where no flag says something else.
    fn over(&self, file: Config) -> Config {
        let flag = |set: bool| set.then_some(true);
        Config {
            sink: self.sink.clone().or(file.sink),
            jobs: self.jobs.or(file.jobs),
            recurse: flag(self.recurse).or(file.recurse),
            shuffle: flag(self.shuffle).or(file.shuffle),
            repeat: self.repeat.or(file.repeat),
            loops: self.loops.or(file.loops),
            fade: self.fade.or(file.fade),
            volume: self.volume.or(file.volume),
            sample_rate: self.sample_rate.or(file.sample_rate),
            resampler: self.resampler.or(file.resampler),
            replay_gain: self.replay_gain.or(file.replay_gain),
            dc_filter: flag(self.tone.dc_filter).or(file.dc_filter),
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

    /// The queue in its order, at the song that it was left at, and how far into it, in ms.
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
                .map_err(|why| Failure::new(Exit::Usage, format!("--listen auto: {why}")))?,
            _ => path.clone(),
        };
        let remote = Remote::listen(&path, session, pool);
        let remote = remote.with_context(|| format!("--listen {}", path.display()))?;
        Ok(Some(remote))
    }

    fn pool(&self, name: &str) -> anyhow::Result<Pool> {
        let pool = Pool::builder()
            .name(name)
            .workers(1)
            .wait(Wait::Park)
            .observe(self.observe)
            .build();
        pool.with_context(|| format!("cannot make the pool {name}"))
    }

    /// The songs of the paths, and how many paths were refused, each of which was told of.
    fn songs(&self, recurse: bool) -> (Vec<Source>, usize) {
        if self.demo {
            return (demo::CARRIED.iter().map(Source::Carried).collect(), 0);
        }
        // Before there is a sink, which may be what is missed, too.
        let mut missing = 0;
        let mut paths = self.paths.clone();
        paths.retain(|path| match path.metadata() {
            Err(error) if path.as_os_str() != "-" => {
                report(&format!(
                    "{}: {error}",
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
                "{}: {error}",
                escape_control(&path.display().to_string())
            ));
        }
        let songs = found.songs.into_iter().map(|(song, _)| song).collect();
        (songs, missing + found.refused.len())
    }

    fn has_interface(&self, sink: &str) -> bool {
        // Emacs' shell, say, has no screen.
        let is_screen = env::var_os("TERM").is_some_and(|term| !term.is_empty() && term != "dumb");
        !self.plain
            && is_screen
            && sink != "-"
            && io::stdout().is_terminal()
            && terminal::is_foreground()
    }
}

/// With what holds where neither a flag nor the file says something.
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

/// Lets a terminal that goes away, and ^\, be an end as others are: the place is remembered, the
/// terminal given back. One that is told to ignore the first (`nohup`) does.
fn end_by_signals(interrupt: &Interrupt, pool: &Pool) -> anyhow::Result<()> {
    for number in [SIGHUP, SIGQUIT]
        .into_iter()
        .filter(|number| !is_ignored(*number))
    {
        let (mut events, interrupt) = (signal(number)?, interrupt.clone());
        pool.spawn(async move {
            match events.recv().await {
                Ok(()) if number == SIGHUP => interrupt.hang_up(),
                // ^\ would leave a core behind.
                Ok(()) => interrupt.request(),
                Err(_) => {}
            }
        });
    }
    Ok(())
}

/// Something else each time.
fn seed() -> u64 {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    now.map_or(1, |time| time.as_nanos() as u64)
}

/// How long a device has to play what it has, and to take notice that somebody quits.
const ENDS: Duration = Duration::from_secs(5);
const QUITS: Duration = Duration::from_secs(3);

/// Waits for the renderer and the sink, and gives what one of them panicked with; none if they have
/// not ended in time, because a device stands still.
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

/// How often the screen is drawn while there is sound.
const FRAME: Duration = Duration::from_millis(50);
/// And while there is none, and how often is looked without a screen.
const FRAME_PAUSED: Duration = Duration::from_millis(500);
const LOOK: Duration = Duration::from_millis(50);

/// The interface, until the end; what the user wished for, if he ended it.
fn interface(
    view: &mut View,
    interrupt: &Interrupt,
    saver: &mut PositionSaver,
    mouse: bool,
) -> anyhow::Result<Option<UiRequest>> {
    let mut terminal = Terminal::enter(mouse).context("the terminal")?;
    loop {
        view.update();
        if view.is_finished() || interrupt.requested() {
            return Ok(None);
        }
        saver.save_if_due(&view.session);
        view.request_metering();
        view.heard_songs.clear();
        match terminal.draw(|frame| screen::draw(frame, view)) {
            // Its window was closed.
            Err(error) if error.raw_os_error() == Some(Errno::IO.raw_os_error()) => {
                return Ok(None);
            }
            drawn => drawn?,
        }
        let wait = if view.session.controls.is_paused() {
            FRAME_PAUSED
        } else {
            FRAME
        };
        let Some(request) = keys::next_event(terminal.keys(), wait, view)? else {
            continue;
        };
        match request {
            UiRequest::Quit => return Ok(Some(request)),
            UiRequest::Interrupt => {
                interrupt.request();
                return Ok(Some(request));
            }
            UiRequest::Redraw => terminal.invalidate()?,
            UiRequest::Suspend => {
                let paused = view.session.controls.is_paused();
                view.session.controls.pause(true);
                terminal.suspend()?;
                view.session.controls.pause(paused);
            }
        }
    }
}

/// A line a song, until the end.
fn lines(
    view: &mut View,
    interrupt: &Interrupt,
    saver: &mut PositionSaver,
    quiet: bool,
) -> anyhow::Result<Option<UiRequest>> {
    loop {
        view.update();
        for track in view.heard_songs.drain(..).filter(|_| !quiet) {
            write_line(&view::title(&track));
        }
        for message in view.messages.drain(..) {
            report(&escape_control(&message));
        }
        if view.is_finished() || interrupt.requested() {
            return Ok(None);
        }
        saver.save_if_due(&view.session);
        std::thread::sleep(LOOK);
    }
}
