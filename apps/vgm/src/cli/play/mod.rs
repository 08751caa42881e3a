//! `creel-vgm play`: songs one after another, with an interface in the terminal.
//!
//! The renderer and the sink have a pool each, the interface the program's own thread; on one job the
//! first two share a worker. Nobody waits for the interface: what it has no time for is dropped.

mod keys;
mod screen;
mod terminal;
mod view;

use std::io::{self, IsTerminal};
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use anyhow::{Context, anyhow};
use clap::{Args, ValueEnum};
use creel::{JoinHandle, Observe, Pool, Wait};
use creel_console::{Common, Exit, Failure, Interrupt};
use creel_vgm::batch::{Source, find};
use creel_vgm::demo;
use creel_vgm::play::device::{Null, Open, PLAYERS, Pipe, WavFile};
use creel_vgm::play::{Device, News, Order, Parts, Queue, Repeat, parts};
use creel_vgm::render::Settings;

use super::plain::plain;
use super::tell_of_folders;
use keys::Wish;
use terminal::Terminal;
use view::View;

/// Play songs
///
/// In a terminal with an interface: ? shows its keys. Elsewhere, a line a song on stderr.
///
/// Exit codes: 0 played, 1 some songs could not be or there is no
/// sound device, 2 usage, 65 nothing but bad data, 130 interrupted.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  creel-vgm play album/                     an album, in the order of its files
  creel-vgm play --shuffle --repeat all -r music/
  creel-vgm play --loops 0 song.vgz         for ever
  creel-vgm play --sink - song.vgz | aplay -f cd")]
pub struct Play {
    /// Songs, folders of songs, playlists (M3U, XSPF, JSPF), - for standard input
    #[arg(required_unless_present = "demo", value_name = "PATH")]
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
    /// What comes after the last song
    #[arg(long, value_name = "WHAT", value_enum, default_value_t)]
    repeat: After,
    /// How often loops are played; 0 for ever
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u32).range(0..=1000))]
    loops: u32,
    /// How long songs that loop fade out, in seconds
    #[arg(long, value_name = "S", default_value_t = 5.0, value_parser = crate::cli::sound::seconds)]
    fade: f64,
    /// How loud, in percent, 0 to 400
    #[arg(long, value_name = "PERCENT", default_value_t = 100, value_parser = clap::value_parser!(u16).range(0..=400))]
    volume: u16,
    /// Frames a second
    #[arg(long, value_name = "HZ", default_value_t = 44_100, value_parser = clap::value_parser!(u32).range(8_000..=192_000))]
    sample_rate: u32,
    /// Where the sound goes: auto (pw-play, pacat or aplay, the first that is there), one of these,
    /// null (nowhere, in real time), wav:FILE, - (stdout, 16-bit stereo)
    #[arg(long, value_name = "SINK", default_value = "auto")]
    sink: String,
    /// No interface: a line a song
    #[arg(long)]
    plain: bool,
    /// Workers: with 1, rendering and sound share one
    #[arg(short, long, value_name = "N", default_value_t = 2, value_parser = creel_console::knobs::jobs)]
    jobs: usize,
    /// What others may do with the workers from outside: off, look (`creel top` shows them)
    #[arg(long, value_name = "O", default_value = "off")]
    observe: Observe,
}

/// What comes after the last song, by its name.
#[derive(ValueEnum, Clone, Copy, Debug, Default)]
enum After {
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
        let (songs, refused) = self.songs();
        if songs.is_empty() {
            let exit = if refused > 0 {
                Exit::BadData
            } else {
                Exit::Usage
            };
            return Err(Failure::new(exit, "there is nothing to play").into());
        }
        let interrupt = Interrupt::install().context("cannot take over Ctrl-C")?;
        let mut open = self.opener()?;
        let device = open().map_err(|error| {
            let message = format!(
                "--sink {}: {error}; --sink null plays without sound",
                self.sink
            );
            Failure::new(Exit::SomeFailed, message)
        })?;
        let settings = Settings {
            loops: if self.loops == 0 {
                u32::MAX
            } else {
                self.loops
            },
            fade_seconds: self.fade,
            sample_rate: self.sample_rate,
            ..Settings::default()
        };
        let mut queue = Queue::new(songs).seeded(seed());
        queue.set_repeat(match self.repeat {
            After::Off => Repeat::Off,
            After::All => Repeat::All,
            After::One => Repeat::One,
        });
        queue.shuffle_all(self.shuffle);
        let names: Vec<String> = queue.songs().iter().map(ToString::to_string).collect();
        let Parts {
            renderer,
            sink,
            desk,
            orders,
            news,
        } = parts(queue, settings, open);
        desk.set_volume(f32::from(self.volume) / 100.0);
        let rendering = self.pool("render")?;
        let sounding = if self.jobs > 1 {
            Some(self.pool("sound")?)
        } else {
            None
        };
        let ends = [
            rendering.spawn(renderer.run()),
            sounding
                .as_ref()
                .unwrap_or(&rendering)
                .spawn(sink.run(device)),
        ];
        let mut view = View::new(names, desk, orders, news, refused);
        let told = if self.has_interface() {
            interface(&mut view, &interrupt)
        } else {
            lines(&mut view, &interrupt, common.quiet)
        };
        view.orders.send(Order::Quit);
        view.desk.pause(false);
        finish(&rendering, ends);
        told?;
        interrupt.check()?;
        Ok(if view.failed > 0 {
            Exit::SomeFailed
        } else {
            Exit::Done
        })
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
    fn songs(&self) -> (Vec<Source>, usize) {
        if self.demo {
            return (demo::CARRIED.iter().map(Source::Carried).collect(), 0);
        }
        let found = find(&self.paths, self.recurse);
        tell_of_folders(&found.deeper, &found.barren);
        for (path, error) in &found.refused {
            eprintln!("creel-vgm: {}: {error}", plain(&path.display().to_string()));
        }
        let songs = found.songs.into_iter().map(|(song, _)| song).collect();
        (songs, found.refused.len())
    }

    fn has_interface(&self) -> bool {
        !self.plain && self.sink != "-" && io::stdout().is_terminal() && io::stdin().is_terminal()
    }

    /// How the device is opened.
    fn opener(&self) -> anyhow::Result<Open> {
        let rate = self.sample_rate;
        Ok(match self.sink.as_str() {
            "null" => Box::new(move || Ok(Box::new(Null::new(rate)) as Box<dyn Device>)),
            "-" => Box::new(|| Ok(Box::new(Pipe::to_stdout()?) as Box<dyn Device>)),
            "auto" => Box::new(move || program(PLAYERS, rate)),
            other => match (
                other.strip_prefix("wav:"),
                PLAYERS.iter().position(|p| p.0 == other),
            ) {
                (Some(path), _) => {
                    let path = PathBuf::from(path);
                    Box::new(move || Ok(Box::new(WavFile::create(&path, rate)?) as Box<dyn Device>))
                }
                (_, Some(at)) => Box::new(move || program(&PLAYERS[at..=at], rate)),
                _ => {
                    let message = format!(
                        "--sink {other}: no such sink; there are auto, null, wav:FILE, -, pw-play, pacat, aplay"
                    );
                    return Err(Failure::new(Exit::Usage, message).into());
                }
            },
        })
    }
}

/// Starts the first of these programs that is there.
fn program(programs: &[(&str, &[&str])], rate: u32) -> io::Result<Box<dyn Device>> {
    for (name, arguments) in programs {
        match Pipe::to_program(name, arguments, rate) {
            Ok(pipe) => return Ok(Box::new(pipe)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(io::Error::other(format!("{name}: {error}"))),
        }
    }
    let names: Vec<&str> = programs.iter().map(|program| program.0).collect();
    Err(io::Error::other(format!("no {} here", names.join(", "))))
}

/// Something else each time.
fn seed() -> u64 {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    now.map_or(1, |time| time.as_nanos() as u64)
}

/// Waits for the renderer and the sink; not for a device that takes nothing.
fn finish(pool: &Pool, ends: [JoinHandle<()>; 2]) {
    let all = async {
        for end in ends {
            let _ = end.await;
        }
    };
    let _ = pool.block_on(creel::time::timeout(Duration::from_secs(1), all));
}

/// How often the screen is drawn while there is sound.
const FRAME: Duration = Duration::from_millis(33);
/// And while there is none.
const FRAME_PAUSED: Duration = Duration::from_millis(250);

/// The interface, until the end.
fn interface(view: &mut View, interrupt: &Interrupt) -> anyhow::Result<()> {
    let mut terminal = Terminal::enter().context("the terminal")?;
    loop {
        view.look();
        if view.is_over() || interrupt.requested() {
            return Ok(());
        }
        terminal.draw(|frame| screen::draw(frame, view))?;
        let wait = if view.desk.is_paused() {
            FRAME_PAUSED
        } else {
            FRAME
        };
        let Some(wish) = keys::next(wait, view)? else {
            continue;
        };
        match wish {
            Wish::Quit => return Ok(()),
            Wish::Suspend => {
                let paused = view.desk.is_paused();
                view.desk.pause(true);
                terminal.suspend()?;
                view.desk.pause(paused);
            }
        }
    }
}

/// A line a song, until the end.
fn lines(view: &mut View, interrupt: &Interrupt, quiet: bool) -> anyhow::Result<()> {
    let mut told = None;
    loop {
        view.look();
        let begun = view
            .track
            .as_ref()
            .map(|(begin, track)| (*begin, track.clone()));
        if let Some((begin, track)) = begun.filter(|begun| told != Some(begun.0)) {
            told = Some(begin);
            if !quiet {
                eprintln!("{}", plain(&view::title(&track)));
            }
        }
        for message in view.messages.drain(..) {
            eprintln!("creel-vgm: {}", plain(&message));
        }
        if view.is_over() || interrupt.requested() {
            return Ok(());
        }
        std::thread::sleep(FRAME);
    }
}

/// An order that found no room is a defect that the user should hear of.
fn order(view: &View, order: Order) -> anyhow::Result<()> {
    let sent = view.orders.send(order) || view.desk.is_ended();
    sent.then_some(())
        .ok_or_else(|| anyhow!("the renderer does not take orders"))
}

/// What is told is for the view alone.
type Told = creel::channel::ring::Receiver<News>;
