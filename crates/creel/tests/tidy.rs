//! Checks the rules of the project that a program can check:
//!
//! - A file of the runtime imports only from its own layer and from the layers below it.
//! - Each file of the runtime is short, and begins with a comment about its purpose.
//! - A loop method passes on the place from which it was called.
//! - Comments and documents are written in plain English.
//! - Names that we have replaced do not come back.

use std::{
    fs,
    path::{Path, PathBuf},
};

/// The layers of the crate. Each entry has a folder or file, and the layers that it may import
/// from, in addition to itself and `sync`. For example, `task` may import from `worker` and `time`.
/// `loops/protocol` is a layer below the pool, and the rest of `loops` is above the pool.
const LAYERS: [(&str, &[&str]); 12] = [
    ("sync", &[]),
    ("blocking", &["worker"]),
    ("worker", &[]),
    ("time", &["worker"]),
    ("net", &["blocking", "worker", "time"]),
    ("signal", &["net"]),
    ("process", &["blocking", "net", "signal"]),
    ("loops/protocol", &["worker"]),
    ("task", &["worker", "time"]),
    ("channel", &["worker", "task"]),
    ("pool", &["worker", "time", "net", "loops/protocol", "task"]),
    ("loops", &["worker", "pool", "loops/protocol"]),
];

/// The maximum number of lines of code of a file, without comments and unit tests.
const LINES_MAX: usize = 600;

fn source() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("src")
}

fn files(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files(&path, found);
        } else if path.extension().is_some_and(|end| end == "rs") {
            found.push(path);
        }
    }
}

/// Returns the path below `src` and the text of each source file. We leave out the crate root,
/// files with tests, and the models.
fn all_files() -> Vec<(String, String)> {
    let mut paths = Vec::new();
    files(&source(), &mut paths);
    let place = |path: &Path| {
        let place = path.strip_prefix(source()).unwrap().to_str().unwrap();
        place.replace('\\', "/")
    };
    let of_tests = |place: &str| {
        let name = place.rsplit('/').next().unwrap();
        name == "model.rs" || name == "tests.rs" || place.starts_with("models/")
    };
    let all = paths.iter().map(|path| (place(path), path));
    all.filter(|(place, _)| place != "lib.rs" && !of_tests(place))
        .map(|(place, path)| (place, fs::read_to_string(path).unwrap()))
        .collect()
}

/// Returns the code of a file without comments and unit tests.
fn code(text: &str) -> String {
    let shipped = text.split("#[cfg(test)]\nmod").next().unwrap_or("");
    let shipped = shipped.split("#[cfg(all(test").next().unwrap_or("");
    let lines = shipped.lines();
    lines
        .filter(|line| !line.trim_start().starts_with("//"))
        .flat_map(|line| [line, "\n"])
        .collect()
}

/// Returns the layer of a file below `src` or of an imported path. The result is `None` for items
/// of the crate root.
fn layer(path: &str) -> Option<&'static str> {
    let of = |name: &&str| {
        let rest = path.strip_prefix(*name);
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(['/', '.']))
    };
    let names = LAYERS.iter().map(|(name, _)| *name);
    names.filter(of).max_by_key(|name| name.len())
}

/// Returns the path after each `crate::` in the code, with `/` instead of `::`. If a path contains
/// a list in braces, it is cut before the list. If the list follows `crate::` directly, each of its
/// entries is a path.
fn imports(code: &str) -> Vec<String> {
    let word = |c: char| c.is_alphanumeric() || c == '_' || c == ':';
    let path = |text: &str| {
        let end = text.find(|c| !word(c)).unwrap_or(text.len());
        text[..end].replace("::", "/")
    };
    let mut found = Vec::new();
    // This declares the visibility of an item and is not an import.
    let code = code.replace("pub(in crate::", "pub(in ");
    for rest in code.split("crate::").skip(1) {
        let Some(list) = rest.strip_prefix('{') else {
            found.push(path(rest));
            continue;
        };
        let (mut depth, mut begin) = (0, 0);
        for (at, c) in list.char_indices() {
            match c {
                '{' => depth += 1,
                '}' if depth == 0 => {
                    found.push(path(list[begin..at].trim()));
                    break;
                }
                '}' => depth -= 1,
                ',' if depth == 0 => {
                    found.push(path(list[begin..at].trim()));
                    begin = at + 1;
                }
                _ => {}
            }
        }
    }
    found.retain(|path| !path.is_empty());
    found
}

#[test]
fn the_parser_finds_imports() {
    let code = "use crate::{\n a::{b, c},\n loops::protocol::{Protocol, call::Call},\n};\nuse crate::x::Y; crate::z()";
    assert_eq!(imports(code), ["a/", "loops/protocol/", "x/Y", "z"]);
    assert_eq!(layer("loops/protocol/"), Some("loops/protocol"));
    assert_eq!(layer("loops/run.rs"), Some("loops"));
    assert_eq!(layer("sync.rs"), Some("sync"));
    assert_eq!(layer("pinning"), None);
}

#[test]
fn no_file_imports_from_a_layer_above() {
    let mut wrong = Vec::new();
    let all = all_files();
    assert!(all.len() > 60, "found only {} source files", all.len());
    for (place, text) in &all {
        let Some(own) = layer(place) else {
            wrong.push(format!("{place} is in no layer. Add it to LAYERS"));
            continue;
        };
        let (_, below) = LAYERS.iter().find(|(name, _)| *name == own).unwrap();
        let code = code(text);
        let reaches_out = own == "loops/protocol" && code.contains("super::super");
        let strangers = imports(&code).into_iter().filter(|path| {
            layer(path)
                .is_none_or(|layer| layer != own && layer != "sync" && !below.contains(&layer))
        });
        wrong.extend(
            strangers.map(|path| format!("{place} imports {path}, which is in no layer below it")),
        );
        if reaches_out {
            wrong.push(format!("{place} imports from loops, which is above it"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn each_file_says_why_it_exists_and_is_short() {
    let mut wrong = Vec::new();
    for (place, text) in all_files() {
        if !text.starts_with("//!") {
            wrong.push(format!(
                "{place} does not begin with a comment (//!) about its purpose"
            ));
        }
        let lines = code(&text).lines().count();
        if lines > LINES_MAX {
            wrong.push(format!(
                "{place} has {lines} lines of code, and {LINES_MAX} are allowed"
            ));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Returns the names of the public methods that take a `Fn` closure and have no `#[track_caller]`.
/// Only loops take `Fn` closures, because `join` and others take `FnOnce`.
fn loops_without_call_site(code: &str) -> Vec<&str> {
    let mut found = Vec::new();
    for (at, _) in code.match_indices("    pub fn ") {
        let declaration = code[at..].split(" {\n").next().unwrap_or("");
        let attributes = code[..at].rsplit("\n\n").next().unwrap_or("");
        let takes_closure = ["impl Fn(", ": Fn("]
            .iter()
            .any(|it| declaration.contains(it));
        if takes_closure && !attributes.contains("#[track_caller]") {
            let name = declaration.trim_start().strip_prefix("pub fn ").unwrap();
            found.push(name.split(['<', '(']).next().unwrap());
        }
    }
    found
}

/// A pool measures loops by their call sites. Without `#[track_caller]`, all calls of a loop method
/// would be one site.
#[test]
fn each_loop_method_passes_on_its_call_site() {
    let code_of = |attribute| {
        format!(
            "{attribute}    pub fn visit<I>(&self, f: impl Fn(I)) {{\n    }}\n\n    pub fn a(&self) {{\n"
        )
    };
    assert_eq!(loops_without_call_site(&code_of("")), ["visit"]);
    assert!(loops_without_call_site(&code_of("    #[track_caller]\n")).is_empty());
    let all = all_files();
    let loops = all.iter().filter(|(place, _)| place.starts_with("loops/"));
    let mut wrong = Vec::new();
    for (place, text) in loops {
        let code = code(text);
        let names = loops_without_call_site(&code);
        wrong.extend(names.iter().map(|name| format!("{place}: {name}")));
    }
    assert!(wrong.is_empty(), "add #[track_caller] to {wrong:?}");
}

/// Cloning a waker runs code of the program, which must not run under a lock or in the middle of an
/// update. `worker/stored_waker.rs` describes how the runtime stores wakers instead.
#[test]
fn wakers_are_cloned_in_one_file() {
    let mut wrong = Vec::new();
    for (place, text) in all_files() {
        let code = code(&text);
        let clones = [".waker().clone()", "Waker::clone"];
        if place != "worker/stored_waker.rs" && clones.iter().any(|it| code.contains(it)) {
            wrong.push(place);
        }
    }
    assert!(wrong.is_empty(), "use StoredWaker in {wrong:?}");
}

/// The maximum number of occurrences of a discouraged word per 1,000 words of comments and
/// Markdown. We discourage words that a newcomer first has to translate, and use the terms of the
/// field instead (CONTRIBUTING.md).
const PER_1000_WORDS_MAX: f64 = 0.1;

/// The folders whose comments and documents we check.
const TEXT: [&str; 4] = ["apps", "crates", "docs", "packages"];

fn text_files(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if path.is_dir() {
            if !["target", "node_modules"].contains(&&*name) {
                text_files(&path, found);
            }
        } else if name.ends_with(".rs") || name.ends_with(".md") {
            found.push(path);
        }
    }
}

/// Returns the lines of prose of a file, without code blocks. These are the comments of a Rust
/// file, and all lines of a Markdown file.
fn prose(path: &Path) -> Vec<String> {
    let text = fs::read_to_string(path).unwrap();
    let is_rust = path.extension().is_some_and(|end| end == "rs");
    let mut in_code = false;
    let line = |line: &str| {
        let line = match is_rust {
            true => match line.trim_start().strip_prefix("//") {
                Some(comment) => comment.trim_start_matches(['/', '!']).trim(),
                None => {
                    in_code = false;
                    return None;
                }
            },
            false => line.trim(),
        };
        if line.starts_with("```") {
            in_code = !in_code;
            return None;
        }
        (!in_code).then(|| line.to_string())
    };
    text.lines().filter_map(line).collect()
}

/// Returns the discouraged patterns that a line contains, by the names that
/// `comments_and_documents_are_plain_english` uses.
fn unclear(line: &str) -> Vec<&'static str> {
    let words: Vec<&str> = line
        .split(|c: char| !c.is_alphanumeric() && c != '\'')
        .filter(|word| !word.is_empty())
        .collect();
    let mut found = Vec::new();
    for (at, word) in words.iter().enumerate() {
        let (next, after) = (words.get(at + 1).copied(), words.get(at + 2).copied());
        match *word {
            "told" | "tell" | "tells" | "telling" => found.push("told"),
            "beside" => found.push("beside"),
            "so" if ["many", "much", "long"].contains(&next.unwrap_or(""))
                && after != Some("as") =>
            {
                found.push("so many");
            }
            _ => {}
        }
    }
    let questions = line.contains('?');
    let starts = |word: &str| line.starts_with(word) || line.contains(&format!(". {word}"));
    if !questions && (starts("Who ") || starts("Whoever ")) {
        found.push("who without a noun");
    }
    found
}

#[test]
fn the_language_check_finds_each_pattern() {
    assert_eq!(
        unclear("Who waits is told of it."),
        ["told", "who without a noun"]
    );
    assert_eq!(
        unclear("It lies beside so many others."),
        ["beside", "so many"]
    );
    assert!(unclear("A worker that waits, as long as so much as one task is queued.").is_empty());
    assert!(unclear("Who needs this?").is_empty());
}

#[test]
fn comments_and_documents_are_plain_english() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    if !root.join("CONTRIBUTING.md").is_file() {
        eprintln!("skipped: not in the repository");
        return;
    }
    let mut paths: Vec<PathBuf> = ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md"]
        .map(|name| root.join(name))
        .into();
    TEXT.iter()
        .for_each(|folder| text_files(&root.join(folder), &mut paths));
    let (mut words, mut hits) = (0, Vec::new());
    for path in paths {
        // This file contains the discouraged words as examples.
        if path.ends_with("tests/tidy.rs") {
            continue;
        }
        for line in prose(&path) {
            words += line.split_whitespace().count();
            let wrong = unclear(&line);
            hits.extend(wrong.iter().map(|what| format!("{what}: {line}")));
        }
    }
    assert!(words > 100_000, "found only {words} words of text");
    for kind in ["told", "beside", "so many", "who without a noun"] {
        let of_kind = || hits.iter().filter(|hit| hit.starts_with(kind));
        let share = 1000.0 * of_kind().count() as f64 / words as f64;
        let examples: Vec<&String> = of_kind().take(20).collect();
        assert!(
            share <= PER_1000_WORDS_MAX,
            "{share:.2} of 1,000 words are \"{kind}\", for example {examples:#?}"
        );
    }
}

/// Identifiers of the runtime that we have replaced by terms of the field. They must not come back.
const FORMER_NAMES: [&str; 35] = [
    "Seat",
    "Seats",
    "Desk",
    "Held",
    "Here",
    "StandIn",
    "Laggard",
    "SitOut",
    "Offer",
    "Offers",
    "Known",
    "Was",
    "NoWayOut",
    "GivesItem",
    "GivesPart",
    "Addressed",
    "Post",
    "Loan",
    "Notes",
    "Behind",
    "see_to_a_watch",
    "uncall",
    "rouse",
    "rouses",
    "stand_in",
    "sit_out",
    "laggard",
    "hides",
    "gets_on",
    "told",
    "tell",
    "fold_in",
    "at_most",
    "former",
    "unbuilt",
];

#[test]
fn replaced_names_do_not_come_back() {
    let mut found = Vec::new();
    let mut paths = Vec::new();
    for folder in ["src", "tests", "examples"] {
        let folder = source().with_file_name(folder);
        folder.is_dir().then(|| files(&folder, &mut paths));
    }
    paths.retain(|path| !path.ends_with("tests/tidy.rs"));
    for path in paths {
        let names = identifiers(&path, &fs::read_to_string(&path).unwrap());
        let wrong = names.iter().filter(|name| FORMER_NAMES.contains(&&***name));
        found.extend(wrong.map(|name| format!("{}: {name}", path.display())));
    }
    assert!(found.is_empty(), "{found:#?}");
}

/// Words that we have replaced by terms of the field. No identifier may contain one of them. This
/// holds for crates, programs, tests, and the examples in the documentation. The list leaves out
/// words that we also use in their ordinary meaning, such as `call` or `note`.
const FORMER_WORDS: [&str; 28] = [
    "told",
    "tell",
    "tells",
    "telling",
    "untold",
    "seat",
    "seats",
    "desk",
    "desks",
    "rouse",
    "rouses",
    "laggard",
    "laggards",
    "uncall",
    "uncalled",
    "relieve",
    "relieves",
    "relieved",
    "lend",
    "lends",
    "guest",
    "guests",
    "urgent",
    "patience",
    "unbuilt",
    "whispers",
    "driveway",
    "yardstick",
];

/// The exceptions to [`FORMER_WORDS`]. Each entry has the end of a path, the word that files with
/// this path may contain, and the reason.
const FORMER_WORDS_KEPT: [(&str, &str, &str); 10] = [
    (
        "traffic/tests/demand_files.rs",
        "seats",
        "an attribute of MATSim's types of vehicles",
    ),
    ("protocol/forks.rs", "guest", GUEST),
    ("protocol/forks.rs", "guests", GUEST),
    ("forks/enter.rs", "guest", GUEST),
    ("forks/enter.rs", "guests", GUEST),
    ("bench/src/host.rs", "guest", "a guest of a hypervisor"),
    (
        "bench/src/report/html/mod.rs",
        "guest",
        "a guest of a hypervisor",
    ),
    ("protocol/forks.rs", "patience", PATIENCE),
    ("forks/hunt.rs", "patience", PATIENCE),
    (
        "serve/src/main.rs",
        "patience",
        "the old name of a flag is accepted for one version",
    ),
];
const GUEST: &str =
    "a thread from outside that borrows a forker; it was a caller of block_on before";
const PATIENCE: &str = "how long a thief waits before it gives up, which is not a time-out";

/// Returns the words of an identifier. For example, `was_told` and `WasTold` both have the words
/// `was` and `told`.
fn words_of(identifier: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut after_capital = false;
    for c in identifier.chars() {
        let begins = c == '_' || c.is_uppercase() && !after_capital;
        if begins && words.last().is_some_and(|word| !word.is_empty()) {
            words.push(String::new());
        }
        if c != '_' {
            words.last_mut().unwrap().extend(c.to_lowercase());
        }
        after_capital = c.is_uppercase();
    }
    words
}

/// Returns the identifiers of a file. For a Rust file, these are the words of its code, its tests
/// and the code blocks of its documentation, but not of its comments and strings. For a JSON
/// schema, they are the keys.
fn identifiers(path: &Path, text: &str) -> Vec<String> {
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    let split = |code: &str| -> Vec<String> {
        let words = code.split(|c| !is_word(c)).filter(|word| !word.is_empty());
        words.map(String::from).collect()
    };
    if path.extension().is_some_and(|end| end == "json") {
        let keys = text
            .lines()
            .filter_map(|line| line.trim().strip_prefix('"'));
        let keys = keys.filter_map(|line| line.split_once("\":"));
        return keys.map(|(key, _)| key.to_string()).collect();
    }
    let mut found = Vec::new();
    let mut in_example = false;
    for line in text.lines() {
        let comment = line.trim_start().strip_prefix("//");
        let code = match comment.map(|line| line.trim_start_matches(['/', '!']).trim()) {
            Some(line) if line.starts_with("```") => {
                in_example = !in_example;
                continue;
            }
            Some(_) if !in_example => continue,
            Some(line) => line,
            None => {
                in_example = false;
                line
            }
        };
        let code = code.split("//").next().unwrap_or("");
        // We split the text at quotes, so the parts with an even index are outside of strings.
        for part in code.split('"').step_by(2) {
            found.extend(split(part));
        }
    }
    found
}

#[test]
fn the_words_of_identifiers_are_found() {
    assert_eq!(words_of("was_told"), ["was", "told"]);
    assert_eq!(words_of("WasTold"), ["was", "told"]);
    assert_eq!(words_of("SEATS_MAX"), ["seats", "max"]);
    let text = "//! told\n/// ```\n/// let seat = 7; // told\n/// ```\nfn desk() { \"told\" }\n";
    let found = identifiers(Path::new("a.rs"), text);
    assert_eq!(found, ["let", "seat", "7", "fn", "desk"]);
    let found = identifiers(
        Path::new("a.json"),
        "{\n  \"seats\": {\"a\": \"told\"}\n}\n",
    );
    assert_eq!(found, ["seats"]);
}

#[test]
fn identifiers_contain_no_replaced_words() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    if !root.join("CONTRIBUTING.md").is_file() {
        eprintln!("skipped: not in the repository");
        return;
    }
    let mut paths = Vec::new();
    for folder in ["apps", "crates", "packages", "plugins"] {
        let folder = root.join(folder);
        folder.is_dir().then(|| text_files(&folder, &mut paths));
    }
    paths.retain(|path| path.extension().is_some_and(|end| end == "rs"));
    let schemas = fs::read_dir(root.join("docs/schema")).unwrap();
    paths.extend(schemas.map(|entry| entry.unwrap().path()));
    assert!(paths.len() > 500, "found only {} files", paths.len());
    let mut found = Vec::new();
    for path in paths {
        // This file contains the replaced words in its list.
        if path.ends_with("tests/tidy.rs") {
            continue;
        }
        let kept = |word: &str| {
            let kept = FORMER_WORDS_KEPT.iter();
            kept.clone()
                .any(|(end, name, _)| path.ends_with(end) && *name == word)
        };
        for identifier in identifiers(&path, &fs::read_to_string(&path).unwrap()) {
            let words = words_of(&identifier);
            if words
                .iter()
                .any(|word| FORMER_WORDS.contains(&&**word) && !kept(word))
            {
                found.push(format!("{}: {identifier}", path.display()));
            }
        }
    }
    assert!(found.is_empty(), "{found:#?}");
}
