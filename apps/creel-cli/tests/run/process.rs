//! Checks that a program starts as without creel, and that wrong options have clear errors.

use crate::{CREEL, said};
use std::process::Command;

#[test]
fn an_ignored_signal_stays_ignored() {
    let ignored = |trap: &str| {
        let script = format!("{trap} exec \"$0\" run -- grep SigIgn /proc/self/status");
        let out = Command::new("sh")
            .args(["-c", &script, CREEL])
            .output()
            .unwrap();
        let text = String::from_utf8(out.stdout).unwrap();
        let hex = text.trim().rsplit('\t').next().unwrap();
        u64::from_str_radix(hex, 16).unwrap() & (1 << 12) != 0
    };
    assert!(ignored("trap '' PIPE;"));
    assert!(!ignored(""));
}

#[test]
fn program_options_are_not_parsed() {
    let run = |words: &[&str]| {
        let out = Command::new(CREEL).args(words).output().unwrap();
        let text = |bytes| String::from_utf8(bytes).unwrap();
        (out.status.code(), text(out.stdout), text(out.stderr))
    };
    let (_, output, _) = run(&["run", "-j3", "-n", "sh", "-x", "--dry-run"]);
    assert!(output.contains("usable:   3 workers"), "{output}");
    for words in [
        ["run", "--wrong", "true"],
        ["measure", "-z", "true"],
        ["top", "--wrong", "true"],
    ] {
        let (code, _, said) = run(&words);
        assert_eq!(code, Some(2), "{words:?}");
        assert!(said.contains(words[1]), "{said}");
        // clap would suggest to pass the option after `--`, where the name of a program belongs.
        assert!(!said.contains("as a value"), "{said}");
    }
    let (_, said, _) = run(&["run", "echo", "-j9", "--wrong", "--", "-n"]);
    assert_eq!(said, "-j9 --wrong -- -n\n");
    let (code, _, said) = run(&["run", "--cpus", "2", "true"]);
    assert_eq!(code, Some(2));
    assert!(
        said.contains("--jobs") && said.contains("--cpu-list"),
        "{said}"
    );
    let (_, json, _) = run(&["run", "-n", "--format", "json", "true"]);
    let document: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(document["command"], serde_json::json!(["true"]));
    let (code, _, said) = run(&["run", "-n", "--rounding", "up", "true"]);
    assert!(code == Some(2) && said.contains("floor"), "{said}");
}

#[test]
fn errors_name_the_wrong_program_or_option() {
    let fails = |words: &[&str], code: i32, text: &str| {
        let output = Command::new(CREEL).arg("run").args(words).output().unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(code), "{words:?}: {said}");
        assert!(said.contains(text), "{words:?}: {said}");
    };
    fails(&["--", "no-such-program"], 127, "no-such-program");
    fails(&["--", "/etc/passwd"], 126, "/etc/passwd");
    fails(
        &["--cpu-list", "0-16000", "--", "true"],
        2,
        "are not allowed here",
    );
    fails(&["--cpu-list", "3-1", "--", "true"], 2, "3-1");
    fails(&["--cpu-list", "", "--", "true"], 2, "names no CPU");
    fails(&["--", ""], 127, "an empty name");
    fails(&["--jobs", "0", "--", "true"], 2, "at least one worker");
    fails(&["--placement", "nowhere", "--", "true"], 2, "nowhere");
    fails(&[], 2, "PROGRAM");
    let export = ["--export", "env", "--format", "json", "--", "true"];
    fails(&export, 2, "--export has formats of its own");
}

#[test]
fn a_missing_interpreter_is_named() {
    use std::os::unix::fs::PermissionsExt;
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("program");
    let script = "#!/no/such/interpreter -x\necho\n";
    std::fs::write(&file, script).unwrap();
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o755)).unwrap();
    for options in [&["run"][..], &["run", "--watch"]] {
        let mut command = Command::new(CREEL);
        let out = command.args(options).arg("--").arg(&file).output().unwrap();
        let said = String::from_utf8(out.stderr).unwrap();
        assert_eq!(out.status.code(), Some(127), "{said}");
        assert!(
            said.contains("/no/such/interpreter") && said.contains("the file exists"),
            "{said}"
        );
    }
}

#[test]
fn wrappers_with_applets_are_followed() {
    // Each program is inside of a wrapper whose own runtime is unknown.
    for (wrapper, because) in [
        ("setpriv --no-new-privs", "setpriv starts"),
        (
            "setpriv --inh-caps -all nice -n 1",
            "setpriv starts, nice starts",
        ),
    ] {
        let words: Vec<&str> = wrapper.split(' ').collect();
        let words = [
            &["run", "-n", "--"],
            &words[..],
            &["sh", "-c", "exec cargo x"],
        ]
        .concat();
        let (out, err) = said(&words, &[]);
        assert!(out.contains(because), "{out} {err}");
        assert!(!out.contains("starts, an ELF file"), "{out}");
    }
    // A container may have busybox and nothing else.
    let folder = tempfile::tempdir().unwrap();
    std::os::unix::fs::symlink("/bin/true", folder.path().join("busybox")).unwrap();
    let path = [("PATH", folder.path().to_str().unwrap())];
    let words = [
        "run", "-n", "--", "busybox", "timeout", "3", "busybox", "sh", "-c", "x",
    ];
    let (out, err) = said(&words, &path);
    let chain = "busybox starts, timeout starts, busybox starts, sh -c";
    assert!(out.contains(chain), "{out} {err}");
}

#[test]
fn each_note_is_printed_once() {
    // Both programs lack a setting, and creel has the same advice for both.
    let script = "ls; cat x; sort y";
    let (_, text) = said(&["run", "-v", "--", "sh", "-c", script], &[]);
    let mut notes: Vec<&str> = text.lines().filter(|l| l.starts_with("note:")).collect();
    let all = notes.len();
    notes.sort_unstable();
    notes.dedup();
    assert_eq!(notes.len(), all, "{text}");
}

#[test]
fn verbose_explains_in_the_chosen_format() {
    let (out, text) = said(&["run", "-v", "--", "true"], &[]);
    assert!(out.is_empty() && text.contains("usable:"), "{text}");
    let (out, json) = said(&["run", "-v", "--format", "json", "--", "true"], &[]);
    let plan: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert!(out.is_empty() && plan["command"][0] == "true", "{json}");
}
