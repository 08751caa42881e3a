//! Tests that the player restores the terminal regardless of how it ends.

use rustix::process::{Signal, WaitOptions, waitpid};

use crate::terminal::{PLAIN, PROGRAM, Terminal, shown};
use crate::{Folder, carried, demo};

fn player() -> Terminal {
    let mut terminal = Terminal::play(&demo(&[]), (24, 80), PLAIN);
    terminal.until_has("> 1 ");
    assert!(!terminal.is_cooked() && !terminal.is_restored());
    terminal
}

#[test]
fn terminal_is_restored_after_ctrl_c() {
    let mut it = player();
    it.press("\x03");
    assert_eq!(it.end(), Some(130), "as by the signal");
    assert!(it.is_restored());
}

#[test]
fn interrupt_exits_by_signal_so_that_shell_loops_end() {
    // A shell with job control, and one without it. The shell without job control gets the signal
    // because it is in the process group of the player.
    for jobs in ["set -m; ", ""] {
        let script = format!("{jobs}for n in 1 2 3; do echo begin $n; \"$@\"; done");
        let words = [&["-c", &script, "bash", PROGRAM, "play"][..], &demo(&[])].concat();
        let mut it = Terminal::start("bash", &words, (24, 80), PLAIN);
        it.until_has("> 1 ");
        it.press("\x03");
        // If the loop went on, the next player would play forever.
        it.end();
        assert!(it.is_restored() && it.text().contains("begin 1"));
        assert!(!it.text().contains("begin 2"), "{}", it.text());
    }
}

#[test]
fn terminal_is_restored_after_signals() {
    let ends = [
        (Signal::INT, 130),
        (Signal::TERM, 143),
        (Signal::HUP, 129),
        (Signal::QUIT, 130),
    ];
    for (signal, code) in ends {
        let mut it = player();
        it.signal(signal);
        assert_eq!(it.end(), Some(code));
        assert!(it.is_restored());
    }
}

#[test]
fn terminal_is_restored_while_the_player_is_stopped() {
    // We need a shell with job control, because it must resume the player.
    let script = "set -m; \"$@\"; echo \"stopped $?\"; read line; fg; echo \"ended $?\"";
    let words = [&["-c", script, "sh", PROGRAM, "play"][..], &demo(&[])].concat();
    let mut it = Terminal::start("sh", &words, (24, 80), PLAIN);
    it.until_has("> 1 ");
    assert!(!it.is_cooked() && !it.is_restored());
    it.press("\x1a");
    it.until_has("stopped 148");
    assert!(it.is_cooked() && it.is_restored());
    it.press("\n");
    it.until_has("> 1 ");
    assert!(!it.is_cooked() && !it.is_restored());
    it.press("q");
    it.until_has("ended 0");
    assert_eq!(it.end(), Some(0));
    assert!(it.is_restored());
}

#[test]
fn player_exits_if_nobody_reads_the_terminal() {
    let mut it = player();
    // The pty fills up, as if the terminal were stopped. The player continues and ends as usual.
    it.press("v");
    std::thread::sleep(std::time::Duration::from_secs(2));
    it.press("q");
    let ended = waitpid(Some(it.pid()), WaitOptions::empty())
        .unwrap()
        .unwrap();
    assert_eq!(ended.1.exit_status(), Some(0));
}

#[test]
fn player_exits_after_hangup() {
    // The shell makes the player ignore this signal.
    let script = "trap '' HUP; exec \"$@\"";
    let words = [&["-c", script, "sh", PROGRAM, "play"][..], &demo(&[])].concat();
    let mut it = Terminal::start("sh", &words, (24, 80), PLAIN);
    it.until_has("> 1 ");
    let ended = it.hang_up().wait().unwrap();
    assert_eq!(ended.code(), Some(0));
}

#[test]
fn position_is_saved_on_hangup() {
    let folder = Folder::new("closed");
    let (state, song) = (folder.path("state"), folder.put("song.vgz", carried(0)));
    let words = ["--sink", "null", "--resume", &song];
    let vars = [PLAIN, &[("XDG_STATE_HOME", &*state)]].concat();
    let mut it = Terminal::play(&words, (24, 80), &vars);
    it.until_has("0:01");
    let ended = it.hang_up().wait().unwrap();
    // The player ends by the signal, or as after the key `q`, because it may notice the closed
    // terminal first.
    assert!(matches!(shown(ended), Some(0 | 129)), "{ended:?}");
    let left = std::fs::read_to_string(folder.path("state/creel-vgm/positions.json"));
    assert!(left.unwrap().contains("\"ms\""));
}

#[test]
fn background_player_does_not_touch_the_terminal() {
    // `xargs` starts a program like this, with stdin from /dev/null.
    let start = |script: &str, words: &[&str]| {
        let words = [&["-c", script, "sh", PROGRAM, "play"][..], words].concat();
        Terminal::start("sh", &words, (24, 80), PLAIN)
    };
    let mut it = start("exec \"$@\" </dev/null", &demo(&[]));
    it.until_has("> 1 ");
    it.press("q");
    assert_eq!(it.end(), Some(0));
    // A shell with job control starts a background program like this. If the player used the
    // terminal, the kernel would stop it.
    let script = "set -m; \"$@\" & read line; kill $!; wait $!; echo ended by $?";
    let mut it = start(script, &demo(&[]));
    it.until_has("(Creel)");
    assert!(!it.screen.screen().alternate_screen());
    it.press("\n");
    it.until_has("ended by 143");
}
