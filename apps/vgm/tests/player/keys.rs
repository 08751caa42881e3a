//! Tests of all keys, the mouse, and resizing the terminal.

use crate::demo;
use crate::terminal::{PLAIN, Terminal};

fn player() -> Terminal {
    let mut terminal = Terminal::play(&demo(&[]), (24, 80), PLAIN);
    terminal.until_has("vol 100%");
    // The first song is audible, and its voices are on the screen.
    terminal.until_has("> 1 ");
    terminal
}

/// Returns the position of the song in seconds.
pub fn seconds(screen: &str) -> Option<u32> {
    let line = screen.lines().find(|line| line.contains("endless"))?;
    let (minutes, rest) = line.trim_start().split_once(':')?;
    Some(minutes.parse::<u32>().ok()? * 60 + rest.get(..2)?.parse::<u32>().ok()?)
}

#[test]
fn every_key_matches_the_help() {
    let mut it = player();
    it.press("?");
    it.until_has("this help; quit");
    it.press("?");
    it.until_gone("this help; quit");
    it.press(" ");
    it.until_has("paused");
    // The keys for songs. We pause, so that the positions do not change.
    let first = it.text().lines().next().unwrap().to_owned();
    it.press("n");
    it.until("another song", |screen| {
        screen.lines().next() != Some(&first)
    });
    it.until("its start", |screen| seconds(screen) == Some(0));
    it.press("p");
    it.until("the first again", |screen| {
        screen.lines().next() == Some(&first) && seconds(screen) == Some(0)
    });
    // The positions exclude the buffer of the device.
    for (keys, whole) in [
        ("\x1b[1;2C", 30),
        ("\x1b[C", 35),
        ("\x1b[1;2D", 5),
        ("\x1b[D", 0),
        ("\x1b[C", 5),
        ("\x1b[H", 0),
    ] {
        it.press(keys);
        it.until(keys, |screen| {
            seconds(screen).is_some_and(|s| s == whole || s + 1 == whole)
        });
    }
    it.press(" ");
    it.until_gone("paused");
    it.until("it goes on", |screen| seconds(screen) > Some(0));
    // The keys for the volume.
    it.press("\x1b[A");
    it.until_has("vol 105%");
    it.press("\x1b[B\x1b[B-");
    it.until_has("vol 90%");
    it.press("++");
    it.until_has("vol 100%");
    // The keys for voices.
    it.press("\t");
    it.until_has("> 2 ");
    it.press("jk\x1b[Z");
    it.until_has("> 1 ");
    it.press("m");
    it.until("muted", |screen| {
        screen
            .lines()
            .any(|line| line.starts_with("> 1") && line.contains(" M "))
    });
    it.press("1");
    it.until("heard", |screen| {
        !screen
            .lines()
            .any(|line| line.starts_with("> 1") && line.contains(" M "))
    });
    it.press("s");
    it.until("solo", |screen| {
        screen
            .lines()
            .any(|line| line.starts_with("  2") && line.contains(" M "))
    });
    it.press("a");
    it.until("all", |screen| !screen.contains(" M "));
    // The keys for modes.
    it.press("l");
    it.until_has(" loop ");
    it.press("z");
    it.until_has(" shuffle");
    it.press("r");
    it.until_has(" repeat");
    it.press("r");
    it.until_has(" repeat one");
    it.press("rz");
    it.until("off", |screen| {
        !screen.contains(" repeat") && !screen.contains(" shuffle")
    });
    it.press("]}");
    it.until("faster and higher", |screen| {
        screen.contains("tempo 105%") && screen.contains("pitch 105%")
    });
    it.press("[[{");
    it.until("slower", |screen| {
        screen.contains("tempo 95%") && !screen.contains("pitch")
    });
    it.press("=");
    it.until_gone("tempo");
    // The keys for the view.
    it.press("v");
    it.until("waves", |screen| {
        screen.contains('\u{2812}')
            || screen.contains('\u{2809}')
            || screen.contains('\u{28C0}')
            || screen.contains('\u{2824}')
    });
    it.press("vf");
    it.until("no waves", |screen| {
        !screen
            .chars()
            .any(|c| ('\u{2801}'..='\u{28FF}').contains(&c))
    });
    it.press("t");
    it.until_has("title ");
    it.press("\x1b");
    it.until_gone("title ");
    it.press("q");
    assert_eq!(it.end(), Some(0));
    assert!(it.is_restored());
}

#[test]
fn search_finds_and_plays_a_song() {
    let mut it = player();
    let wanted = creel_vgm::demo::CARRIED[6].name;
    it.press("/");
    it.until_has("enter plays");
    it.press(wanted);
    it.until("it alone", |screen| {
        let listed = screen.lines().filter(|line| line.contains("(built-in)"));
        listed.count() == 1
    });
    it.press("zzzz");
    it.until_has("no song matches");
    it.press("\x7f\x7f\x7f\x7f");
    it.until_has(wanted);
    it.press("\r");
    it.until_gone("enter plays");
    // The list shows the seventh song, which is now the current one.
    it.until("its voices", |screen| screen.contains("   7  "));
    it.press("/");
    it.press("\x1b");
    it.until_gone("enter plays");
    it.press("\x1b[5~\x1b[5~\r");
    it.until("the first again", |screen| screen.contains("   1  "));
    it.press("q");
    assert_eq!(it.end(), Some(0));
}

#[test]
fn search_matches_titles() {
    let mut it = player();
    let song = creel_vgm::format::Song::parse(crate::carried(6).to_vec()).unwrap();
    let title = &song.tags.track;
    it.press("/");
    it.press(title);
    it.until("it alone", |screen| {
        let mut listed = screen.lines().filter(|line| line.contains("(built-in)"));
        listed.next().is_some_and(|line| line.contains(title)) && listed.next().is_none()
    });
    it.press("\r");
    it.until("its voices", |screen| screen.starts_with(title));
    it.press("q");
    assert_eq!(it.end(), Some(0));
}

#[test]
fn overlay_scrolls_if_it_does_not_fit() {
    let mut it = Terminal::play(&demo(&[]), (12, 40), PLAIN);
    it.until_has("? help");
    it.press("?");
    it.until_has("pause, continue");
    for keys in [
        "\x1b[B\x1b[B\x1b[B",
        "jjj",
        "\x1b[6~",
        "\x1b[6~\x1b[6~\x1b[6~\x1b[6~",
    ] {
        assert!(!it.text().contains("voice: mute"), "{}", it.text());
        it.press(keys);
        it.until_gone("pause, continue");
    }
    it.until_has("voice: mute");
    // Scrolling stops at the end of the text, so the way back is not longer.
    it.press("\x1b[5~\x1b[5~\x1b[5~\x1b[5~\x1b[5~\x1b[5~");
    it.until_has("pause, continue");
    it.press("?");
    it.until_gone("pause, continue");
    it.until_has("vol 100%");
    it.press("q");
    assert_eq!(it.end(), Some(0));
}

#[test]
fn mouse_mutes_seeks_and_selects() {
    let mut it = player();
    let lane = it.row_of("  2 ");
    it.click(0, (10, lane));
    it.until("muted", |screen| {
        screen
            .lines()
            .any(|line| line.starts_with("> 2") && line.contains(" M "))
    });
    it.click(0, (10, lane));
    it.until("heard", |screen| !screen.contains(" M "));
    it.click(2, (10, lane));
    it.until("solo", |screen| {
        screen
            .lines()
            .any(|line| line.starts_with("  1") && line.contains(" M "))
    });
    it.click(1, (10, lane));
    it.until("all", |screen| !screen.contains(" M "));
    it.click(64, (10, lane));
    it.until_has("vol 105%");
    let song = it.row_of("   2  ");
    let first = it.text().lines().next().unwrap().to_owned();
    it.click(0, (10, song));
    it.until("the second song", |screen| {
        screen.lines().next() != Some(&first)
    });
    it.press("q");
    assert_eq!(it.end(), Some(0));
    assert!(it.is_restored());
}

#[test]
fn click_on_the_progress_bar_seeks() {
    // For an endless song, the bar shows the first pass.
    for loops in ["50", "0"] {
        let words = ["--sink", "null", "--loops", loops, "--demo"];
        let mut it = Terminal::play(&words, (24, 80), PLAIN);
        it.until_has("> 1 ");
        // The screen may update late, but within the first minute.
        let is_early = |line: &str| line.trim_start().starts_with("0:");
        let row = it.text().lines().position(is_early).unwrap() as u16;
        let time = |screen: &str| screen.lines().nth(row.into()).map(str::to_owned);
        it.click(0, (40, row));
        it.until("the middle", |screen| {
            let line = time(screen).unwrap_or_default();
            !is_early(&line) || line.trim_start() >= "0:10"
        });
        it.press("q");
        assert_eq!(it.end(), Some(0));
    }
}
