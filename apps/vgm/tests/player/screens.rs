//! Tests of the player's screen: sizes, colours and symbols.

use crate::demo;
use crate::terminal::{PLAIN, Terminal};

#[test]
fn screen_draws_at_any_size_and_after_resize() {
    let mut it = Terminal::play(&demo(&[]), (24, 80), PLAIN);
    it.until_has("> 1 ");
    for (rows, columns) in [
        (60, 200),
        (24, 80),
        (12, 40),
        (5, 20),
        (2, 8),
        (1, 1),
        (1, 80),
        (40, 3),
    ] {
        it.written.clear();
        it.resize(rows, columns);
        // The player draws everything again for the new size.
        it.until("a sign", |screen| {
            screen.chars().any(|c| !c.is_whitespace())
        });
        // The overlays must also fit.
        it.press("?");
        it.press("?");
        it.press("v");
        it.press("t");
        it.press("t");
    }
    it.resize(24, 80);
    it.until_has("? help  q quit");
    it.press("q");
    assert_eq!(it.end(), Some(0));
}

#[test]
fn key_during_resize_is_handled() {
    let mut it = Terminal::play(&demo(&[]), (24, 80), PLAIN);
    it.until_has("> 1 ");
    for round in 0..60 {
        it.resize(24, 80 + round % 2);
        it.press("?");
        it.until_has("this help");
        it.press("?");
        it.until_gone("this help");
    }
    it.press("q");
    assert_eq!(it.end(), Some(0));
}

#[test]
fn eighty_columns_show_song_voices_position_and_queue() {
    let mut it = Terminal::play(&demo(&[]), (24, 80), PLAIN);
    it.until("all of it", |screen| {
        screen.contains("> 1 ")
            && crate::keys::seconds(screen) > Some(0)
            && screen.contains("   1  ")
            && screen.contains("? help")
    });
    let song = creel_vgm::format::Song::parse(crate::carried(0).to_vec()).unwrap();
    assert!(it.text().starts_with(&song.tags.track), "{}", it.text());
    assert!(it.text().contains(&song.tags.author), "{}", it.text());
    println!("{}", it.text());
    it.press("q");
    assert_eq!(it.end(), Some(0));
}

#[test]
fn the_search_hides_lanes_to_show_more_songs() {
    let mut it = Terminal::play(&demo(&[]), (24, 80), PLAIN);
    it.until_has("> 1 ");
    let all = creel_vgm::demo::CARRIED.len();
    assert!(
        !it.text().contains(&format!("\n{all:>4}  ")),
        "{}",
        it.text()
    );
    it.press("?");
    it.until_has("this help");
    it.press("/");
    it.until_gone("this help");
    it.until_has(&format!("\n{all:>4}  "));
    it.until_has(&format!("{all} of {all}, enter plays"));
    // Some of the lanes are visible during the search, and all of them after it.
    assert!(
        it.text().contains("> 1 ") && !it.text().contains("\n  9 "),
        "{}",
        it.text()
    );
    it.press("\x1b");
    it.until_has("\n  9 ");
    it.press("q");
    assert_eq!(it.end(), Some(0));
}

#[test]
fn non_unicode_locale_uses_ascii() {
    let vars = [("LC_ALL", "C"), ("TERM", "xterm")];
    let mut it = Terminal::play(&demo(&[]), (30, 80), &vars);
    it.until_has("##");
    for keys in ["v", "?", "t", "t"] {
        it.press(keys);
        it.until_has("vol 100%");
    }
    it.press("q");
    assert_eq!(it.end(), Some(0));
    let strange: Vec<_> = it.written.iter().filter(|byte| !byte.is_ascii()).collect();
    assert!(
        strange.is_empty(),
        "{} bytes that are not ASCII",
        strange.len()
    );
}

#[test]
fn narrow_lists_keep_distinguishing_suffixes() {
    let folder = crate::Folder::new("narrow");
    let deep = "a folder with a long name";
    std::fs::create_dir(folder.path(deep)).unwrap();
    for name in ["first.vgm", "second.vgm"] {
        folder.put(&format!("{deep}/{name}"), b"not read before it is played");
    }
    let good = folder.put("good.vgz", crate::carried(0));
    let words = ["--sink", "null", "--loops", "0", &good, &folder.path(deep)];
    let mut it = Terminal::play(&words, (24, 40), PLAIN);
    it.until("both", |screen| {
        screen.contains("name/first.vgm\n") && screen.contains("name/second.vgm\n")
    });
    it.press("q");
    assert_eq!(it.end(), Some(0));
}

#[test]
fn dumb_terminal_gets_plain_lines() {
    let mut it = Terminal::play(&demo(&[]), (24, 80), &[("TERM", "dumb")]);
    let song = creel_vgm::format::Song::parse(crate::carried(0).to_vec()).unwrap();
    it.until_has(&song.tags.track);
    assert!(!it.written.contains(&0x1b), "{}", it.text());
    it.signal(rustix::process::Signal::INT);
    assert_eq!(it.end(), Some(130));
}

#[test]
fn colors_follow_the_terminal() {
    let written = |vars: &[(&str, &str)]| {
        let mut it = Terminal::play(&demo(&[]), (24, 80), vars);
        it.until_has("> 1 ");
        it.until("a bar", |screen| screen.contains('█'));
        it.press("q");
        assert_eq!(it.end(), Some(0));
        String::from_utf8_lossy(&it.written).into_owned()
    };
    let all = written(&[PLAIN, &[("COLORTERM", "truecolor")]].concat());
    assert!(all.contains("[38;2;"), "shades");
    let some = written(PLAIN);
    assert!(
        !some.contains("[38;2;") && some.contains("[38;5;"),
        "sixteen"
    );
    let none = written(&[PLAIN, &[("NO_COLOR", "1")]].concat());
    assert!(!none.contains("[38;") && !none.contains("[32m"), "none");
}

#[test]
#[ignore = "prints screens for a person to check"]
fn screens_are_printed_for_a_person_to_check() {
    let show = |size: (u16, u16), keys: &str, vars: &[(&str, &str)]| {
        let mut it = Terminal::play(&demo(&[]), size, vars);
        it.until("a voice", |screen| screen.contains("> 1 ") || size.1 < 30);
        it.press("n\x1b[1;2C");
        it.press(keys);
        let begin = std::time::Instant::now();
        while begin.elapsed().as_secs_f64() < 2.0 {
            it.poll(std::time::Duration::from_millis(50));
        }
        println!("== {size:?} {keys:?}\n{}", it.text());
    };
    for keys in ["", "v", "?", "t", "/opl"] {
        show((24, 80), keys, PLAIN);
    }
    show((40, 100), "v", PLAIN);
    show((14, 40), "", PLAIN);
    show((8, 24), "", PLAIN);
    show((24, 80), "v", &[("LC_ALL", "C"), ("TERM", "xterm")]);
}
