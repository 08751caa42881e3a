//! Tests the renderer and the sink of the player on two pools, with a device that the test
//! controls.

use std::cell::RefCell;
use std::io;
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use creel::Pool;
use creel_vgm::batch::Source;
use creel_vgm::demo;
use creel_vgm::effects::Effects;
use creel_vgm::format::Song;
use creel_vgm::play::{
    Command, CommandSender, Device, MeterMode, PlaybackSettings, PlayerControls, PlayerEvent,
    PlayerParts, Queue, TapBlock, Track, player_parts,
};
use creel_vgm::render::{Buffers, Player, Settings};

/// A device that accepts as many frames as the test allows.
#[derive(Default)]
struct Tape {
    state: Mutex<State>,
    moved: Condvar,
}

#[derive(Default)]
struct State {
    given: Vec<[f32; 2]>,
    /// The number of frames that the device still accepts.
    room: usize,
    gone: bool,
    /// The number of times that frames were offered to the device.
    offers: u64,
}

impl Tape {
    /// Lets the device accept this number of further frames, and waits until it has.
    fn take(&self, frames: usize) -> Vec<[f32; 2]> {
        self.state.lock().unwrap().room += frames;
        self.wait_until(|state| state.given.len() >= frames);
        std::mem::take(&mut self.state.lock().unwrap().given)
    }

    /// Waits until the sink has read the controls again, so that it offers blocks of the current
    /// generation.
    fn settle(&self) {
        let seen = self.state.lock().unwrap().offers;
        self.wait_until(|state| state.offers >= seen + 2);
    }

    fn wait_until(&self, done: impl Fn(&State) -> bool) {
        let state = self.state.lock().unwrap();
        let waiting = |state: &mut State| !done(state);
        let minute = Duration::from_secs(60);
        let wait = self.moved.wait_timeout_while(state, minute, waiting);
        assert!(
            !wait.unwrap().1.timed_out(),
            "the state did not change for a minute"
        );
    }
}

struct Recorder(Arc<Tape>);

impl Device for Recorder {
    fn write(&mut self, frames: &[[f32; 2]]) -> io::Result<usize> {
        let mut state = self.0.state.lock().unwrap();
        if state.gone {
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        let taken = frames.len().min(state.room);
        state.given.extend(&frames[..taken]);
        state.room -= taken;
        state.offers += 1;
        self.0.moved.notify_all();
        Ok(taken)
    }

    fn queued_frames(&mut self) -> usize {
        0
    }
}

struct TestPlayer {
    tape: Arc<Tape>,
    controls: Arc<PlayerControls>,
    commands: CommandSender,
    events: creel::channel::bounded::Receiver<PlayerEvent>,
    taps: creel::channel::bounded::Receiver<TapBlock>,
    begun: RefCell<Option<Arc<Track>>>,
    ends: Vec<creel::task::JoinHandle<()>>,
    // Fields are dropped in their order, and the pools must be dropped last.
    pools: [Pool; 2],
}

impl TestPlayer {
    fn new(songs: Vec<Source>, settings: &Settings) -> TestPlayer {
        let tape = Arc::new(Tape::default());
        let again = Arc::clone(&tape);
        let open = Box::new(move || {
            again.state.lock().unwrap().gone = false;
            Ok(Box::new(Recorder(Arc::clone(&again))) as Box<dyn Device>)
        });
        let settings = settings.clone();
        let rate = settings.sample_rate;
        let choose = Box::new(move |_: &Source, _: Option<&Source>| PlaybackSettings {
            settings: settings.clone(),
            // The DC filter depends on the sound before a seek, which the expected samples of the
            // tests do not contain.
            effects: Effects {
                dc_filter: false,
                ..Effects::default()
            },
            ..PlaybackSettings::default()
        });
        let PlayerParts {
            renderer,
            sink,
            controls,
            commands,
            events,
            taps,
        } = player_parts(Queue::new(songs), rate, choose, open);
        controls.set_meter_mode(MeterMode::Levels);
        let pool = || Pool::builder().workers(1).build().unwrap();
        let pools = [pool(), pool()];
        let device = Box::new(Recorder(Arc::clone(&tape)));
        let ends = vec![
            pools[0].spawn(renderer.run()),
            pools[1].spawn(sink.run(device, true)),
        ];
        TestPlayer {
            tape,
            controls,
            commands,
            events,
            taps,
            begun: RefCell::default(),
            ends,
            pools,
        }
    }

    /// Waits for the next song to start.
    fn track(&self) -> Arc<Track> {
        match self.events.recv_blocking().unwrap() {
            PlayerEvent::Started(_, track) => track,
            PlayerEvent::Failed(place, why) => panic!("song {place}: {why}"),
        }
    }

    /// Sends a command, and waits for the first rendered block for which `made` returns true.
    fn send_until(&self, command: Command, made: impl Fn(&TapBlock) -> bool) {
        // The controls show the audible position.
        self.tape.settle();
        while self.events.try_recv().is_ok() {}
        while self.taps.try_recv().is_ok() {}
        self.send(command);
        while !made(&self.taps.recv_blocking().unwrap()) {}
        while let Ok(PlayerEvent::Started(_, track)) = self.events.try_recv() {
            *self.begun.borrow_mut() = Some(track);
        }
        self.tape.settle();
    }

    fn send(&self, command: Command) {
        assert!(self.commands.send(command));
    }

    fn end(self) {
        self.send(Command::Quit);
        // The sink may be waiting for room.
        self.tape.state.lock().unwrap().room = usize::MAX / 2;
        for end in self.ends {
            self.pools[0].block_on(end).unwrap();
        }
    }
}

fn carried(count: usize) -> Vec<Source> {
    demo::CARRIED
        .iter()
        .take(count)
        .map(Source::Carried)
        .collect()
}

fn whole(source: &Source, settings: &Settings) -> Vec<[f32; 2]> {
    let song = source.load().unwrap();
    let mut buffers = Buffers::default();
    let mut player = Player::new(&song, settings, &mut buffers).unwrap();
    let mut out = vec![[0.0; 2]; player.frames() as usize];
    let mut at = 0;
    while at < out.len() {
        at += player.fill(&mut buffers, &mut out[at..]);
    }
    out
}

/// Returns settings with which the built-in songs are long enough.
fn long() -> Settings {
    Settings {
        loops: 8,
        ..Settings::default()
    }
}

#[test]
fn player_output_is_gapless_and_matches_render() {
    let songs = carried(3);
    let session = TestPlayer::new(songs.clone(), &Settings::default());
    for source in &songs {
        let whole = whole(source, &Settings::default());
        assert!(session.tape.take(whole.len()) == whole, "{source}");
    }
    session.end();
}

#[test]
fn commands_take_effect_on_the_next_block() {
    let songs = carried(2);
    let session = TestPlayer::new(songs.clone(), &long());
    let (first, second) = (whole(&songs[0], &long()), whole(&songs[1], &long()));
    let has = |song: &[[f32; 2]], frame: usize, frames: usize| {
        session.tape.take(frames) == song[frame..frame + frames]
    };
    let second_of = |frame: u64| move |tap: &TapBlock| tap.frame == frame;
    assert!(has(&first, 0, 5000));
    session.send_until(Command::SeekTo(1000), second_of(44_100));
    assert!(has(&first, 44_100, 3000), "forward");
    session.send_until(Command::Seek(-500), second_of(47_100 - 22_050));
    assert!(has(&first, 47_100 - 22_050, 3000), "back");
    session.send_until(Command::Next, second_of(0));
    assert_eq!(session.begun.take().unwrap().place, 1);
    assert!(has(&second, 0, 3000), "next");
    session.send_until(Command::Previous, second_of(0));
    assert_eq!(session.begun.take().unwrap().place, 0);
    assert!(has(&first, 0, 3000), "previous");
    session.send_until(Command::SoloVoice(40), second_of(3000));
    let silent = session.tape.take(3000);
    assert!(
        silent.iter().all(|frame| *frame == [0.0; 2]),
        "a solo of an unknown voice must silence all voices"
    );
    assert_eq!(session.controls.voice_mask() & 1, 0);
    session.send_until(Command::UnmuteAll, second_of(6000));
    assert_eq!(session.controls.voice_mask(), u64::MAX);
    assert!(
        has(&first, 6000, 3000),
        "the song must continue while its voices are muted"
    );
    session.controls.set_volume(0.5);
    session.tape.settle();
    let half = session.tape.take(1000);
    assert_eq!(half[999], first[9999].map(|sample| sample * 0.5));
    session.controls.set_volume(1.0);
    session.send_until(Command::Pitch(2000), second_of(10_000));
    assert!(!has(&first, 10_000, 3000), "the pitch did not change");
    session.end();
}

#[test]
fn lost_device_is_reopened_at_the_same_position() {
    let songs = carried(1);
    let session = TestPlayer::new(songs.clone(), &long());
    let song = whole(&songs[0], &long());
    assert!(session.tape.take(2000) == song[..2000]);
    session.tape.state.lock().unwrap().gone = true;
    assert!(session.tape.take(2000) == song[2000..4000]);
    assert!(!session.controls.is_device_lost());
    session.end();
}

/// A device of the test, with a settable buffer level. It may refuse frames.
#[derive(Default)]
struct Bench {
    held: usize,
    takes: bool,
    /// Whether a call blocks for a while, as on a busy machine.
    is_slow: bool,
    taken: usize,
    refused: u64,
}

struct Server(Arc<Mutex<Bench>>);

impl Device for Server {
    fn write(&mut self, frames: &[[f32; 2]]) -> io::Result<usize> {
        let mut bench = self.0.lock().unwrap();
        if !bench.takes {
            bench.refused += 1;
            return Ok(0);
        }
        bench.taken += frames.len();
        Ok(frames.len())
    }

    fn queued_frames(&mut self) -> usize {
        let (held, is_slow) = {
            let bench = self.0.lock().unwrap();
            (bench.held, bench.is_slow)
        };
        if is_slow {
            std::thread::sleep(Duration::from_millis(3));
        }
        held
    }
}

#[test]
fn device_stalls_are_counted_apart_from_underruns() {
    let bench = Arc::new(Mutex::new(Bench {
        held: 1,
        takes: true,
        ..Bench::default()
    }));
    let open = Box::new(|| Err(io::ErrorKind::NotFound.into()));
    let choose = Box::new(|_: &Source, _: Option<&Source>| PlaybackSettings {
        settings: Settings {
            loops: u32::MAX,
            ..Settings::default()
        },
        ..PlaybackSettings::default()
    });
    let PlayerParts {
        renderer,
        sink,
        controls,
        commands,
        ..
    } = player_parts(Queue::new(carried(1)), 44_100, choose, open);
    let pools = [0; 2].map(|_| Pool::builder().workers(1).build().unwrap());
    let device = Box::new(Server(Arc::clone(&bench)));
    let ends = [
        pools[0].spawn(renderer.run()),
        pools[1].spawn(sink.run(device, false)),
    ];
    let until = |what: &str, done: &dyn Fn(&Bench) -> bool| {
        let begin = std::time::Instant::now();
        while !done(&bench.lock().unwrap()) {
            assert!(begin.elapsed().as_secs() < 60, "{what}");
            std::thread::sleep(Duration::from_millis(1));
        }
    };
    let set = |change: &dyn Fn(&mut Bench)| change(&mut bench.lock().unwrap());
    // The device always has sound left, so there is no underrun, whatever the clock says.
    until("it takes", &|bench| bench.taken > 10_000);
    assert_eq!(
        (controls.underruns(), controls.device_stalls()),
        ((0, 0), (0, 0))
    );
    let has_left = |held: usize| {
        set(&|bench| bench.held = held);
        let taken = bench.lock().unwrap().taken;
        until("it takes", &|bench| bench.taken > taken + 10_000);
    };
    let begin = std::time::Instant::now();
    // The device stalls: it has no sound left and accepts none. The sink may have checked just
    // before that, so we try again until it counts a stall.
    while controls.device_stalls().0 == 0 {
        set(&|bench| (bench.held, bench.takes, bench.refused) = (0, false, 0));
        until("it refuses", &|bench| bench.refused > 20);
        set(&|bench| bench.takes = true);
        has_left(0);
        has_left(1);
        assert!(begin.elapsed().as_secs() < 60, "no stall");
    }
    assert_eq!(controls.underruns(), (0, 0));
    assert_eq!(controls.device_stalls().0, 1);
    assert!(
        controls.device_stalls().1 >= 1000,
        "{:?}",
        controls.device_stalls()
    );
    // If the device accepts sound at once, the player itself was late.
    set(&|bench| bench.is_slow = true);
    while controls.underruns().0 == 0 {
        has_left(1);
        has_left(0);
        assert!(begin.elapsed().as_secs() < 60, "no underrun was counted");
    }
    assert_eq!(controls.device_stalls().0, 1);
    set(&|bench| bench.is_slow = false);
    assert!(commands.send(Command::Quit));
    for end in ends {
        pools[0].block_on(end).unwrap();
    }
}

#[test]
fn unplayable_song_is_reported_and_skipped() {
    let broken = Source::StandardInput(Arc::new(b"not a song".to_vec()));
    let songs = vec![broken, carried(1).remove(0)];
    let session = TestPlayer::new(songs.clone(), &Settings::default());
    let Ok(PlayerEvent::Failed(0, why)) = session.events.recv_blocking() else {
        panic!("the first song must fail");
    };
    assert!(why.contains("not a VGM song"), "{why}");
    assert_eq!(session.track().place, 1);
    let whole = whole(&songs[1], &Settings::default());
    assert!(session.tape.take(whole.len()) == whole);
    // At the end, the renderer waits, and plays again on a command. We empty the channel of events
    // first, because a full channel drops new ones.
    while session.events.try_recv().is_ok() {}
    session.send(Command::Jump(1));
    assert_eq!(session.track().place, 1);
    assert!(session.tape.take(500) == whole[..500]);
    session.end();
    let song = Song::parse(demo::CARRIED[0].packed.to_vec()).unwrap();
    assert!(song.repeat().is_some());
}

#[test]
fn renderer_panic_ends_the_player() {
    let queue = Queue::new(vec![Source::Carried(&demo::CARRIED[0])]);
    let choose = Box::new(|_: &Source, _: Option<&Source>| -> PlaybackSettings {
        panic!("a panic for the test")
    });
    let open = Box::new(|| Err(io::ErrorKind::NotFound.into()));
    let PlayerParts {
        renderer,
        sink,
        controls,
        ..
    } = player_parts(queue, 44_100, choose, open);
    let pool = Pool::builder().workers(1).build().unwrap();
    let renderer = pool.spawn(renderer.run());
    let tape = Arc::new(Tape::default());
    let sink = pool.spawn(sink.run(Box::new(Recorder(tape)), false));
    assert!(matches!(
        pool.block_on(renderer),
        Err(creel::JoinError::Panicked(_))
    ));
    assert!(controls.is_ended());
    pool.block_on(sink).unwrap();
}
