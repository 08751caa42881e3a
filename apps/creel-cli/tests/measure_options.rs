//! Checks the options of `creel measure` that hyperfine has too: input and output, a shell, a
//! reference, exit codes and the order of the tables.

mod program;

use program::{CREEL, creel};
use serde_json::Value;
use std::{fs, process::Command};
use tempfile::TempDir;

fn json(words: &[&str]) -> Value {
    let all = [&["measure", "--format", "json"], words].concat();
    let (code, json, err) = creel(&all);
    assert_eq!(code, Some(0), "{words:?}: {err}");
    serde_json::from_str(&json).unwrap()
}

#[test]
fn options_choose_the_input_and_output_of_the_command() {
    let folder = TempDir::new().unwrap();
    let file = |name: &str| folder.path().join(name).display().to_string();
    let (input, output) = (file("in"), file("out"));
    fs::write(&input, "given\n").unwrap();
    let words = [
        "measure", "-n2", "--input", &input, "--output", &output, "cat",
    ];
    let (code, _, err) = creel(&words);
    assert_eq!(code, Some(0), "{err}");
    assert_eq!(fs::read_to_string(&output).unwrap(), "given\n");
    // This is more than a pipe holds, so the command ends only if creel reads the pipe.
    let words = [
        "measure",
        "-n1",
        "--output",
        "pipe",
        "head",
        "-c",
        "1000000",
        "/dev/zero",
    ];
    let (code, _, err) = creel(&words);
    assert_eq!(code, Some(0), "{err}");
    let (_, out, _) = creel(&["measure", "-n1", "--output", "inherit", "echo", "printed"]);
    assert!(out.starts_with("printed\n"), "{out}");
    let (code, _, err) = creel(&["measure", "-n1", "--input", "/no/such/file", "cat"]);
    assert!(code == Some(1) && err.contains("/no/such/file"), "{err}");
}

#[test]
fn a_shell_runs_lines_and_a_reference_is_the_base() {
    let words = [
        "-n2",
        "-S",
        "sh",
        "--reference",
        "true | false; true",
        "true && true",
    ];
    let output = json(&words);
    let commands = output["commands"].as_array().unwrap();
    let label = |i: usize| commands[i]["command"].as_str().unwrap();
    assert_eq!((label(0), label(1)), ("true | false; true", "true && true"));
    assert_eq!(commands[1]["base"], "true | false; true");
}

#[test]
fn only_the_given_exit_codes_are_ignored() {
    let exit = |ignore: &str, code: &str| {
        let words = ["measure", "-n2", ignore, "sh", "-c", code];
        creel(&words).0
    };
    assert_eq!(exit("--ignore-failure=3,4", "exit 3"), Some(0));
    assert_eq!(exit("--ignore-failure=3,4", "exit 5"), Some(1));
    assert_eq!(exit("-i", "exit 5"), Some(0));
    assert_eq!(exit("--ignore-failure=x", "exit 5"), Some(2));
}

#[test]
fn commands_are_sorted_by_time() {
    let folder = TempDir::new().unwrap();
    let file = folder.path().join("runs.csv").display().to_string();
    let words = [
        "measure", "-n2", "--csv", &file, "--vs", "true", "sleep", "0.1",
    ];
    assert_eq!(creel(&words).0, Some(0));
    let first = |sort: &str| {
        let (_, out, _) = creel(&["measure", "--from", &file, "--sort", sort]);
        out.find("sleep 0.1").unwrap() < out.find("true").unwrap()
    };
    assert!(first("command") && !first("mean-time"));
}

#[test]
fn a_planted_symlink_is_not_followed() {
    // The name of the temporary file must not be guessable.
    let folder = TempDir::new().unwrap();
    let victim = folder.path().join("victim");
    fs::write(&victim, "precious").unwrap();
    let script = "ln -s \"$1\" \"$TMPDIR/creel-measure-$$.out\"; exec \"$0\" measure -n1 --metric \
                  'n=([0-9]+)' echo 42";
    let out = Command::new("sh")
        .args(["-c", script, CREEL])
        .arg(&victim)
        .env("TMPDIR", folder.path())
        .output()
        .unwrap();
    assert!(out.status.success(), "{out:?}");
    assert_eq!(fs::read_to_string(&victim).unwrap(), "precious");
}

#[test]
fn programs_that_cannot_start_exit_with_the_code_of_a_shell_and_a_reason() {
    use std::os::unix::fs::PermissionsExt;

    let folder = TempDir::new().unwrap();
    let script = folder.path().join("script");
    fs::write(&script, "#!/no/such/interpreter\n").unwrap();
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).unwrap();
    let plain = folder.path().join("plain");
    fs::write(&plain, "").unwrap();
    let fails = |command: &[&str], expected: i32, text: &str| {
        for verb in ["measure", "advise", "top", "run"] {
            let words = [&[verb, "--"], command].concat();
            let (code, _, err) = creel(&words);
            assert_eq!(code, Some(expected), "{words:?}: {err}");
            assert!(err.contains(text), "{words:?}: {err}");
        }
    };
    let interpreter = "the file exists, but its interpreter /no/such/interpreter does not";
    fails(&[script.to_str().unwrap()], 127, interpreter);
    fails(&[plain.to_str().unwrap()], 126, "not an executable file");
    fails(&["no-such-program"], 127, "no such program");
    let words = ["measure", "-n1", "--vs", "no-such-program", "true"];
    let (code, _, err) = creel(&words);
    assert!(
        code == Some(127) && err.contains("no-such-program"),
        "{err}"
    );
}

#[test]
fn ignored_failures_are_counted_in_a_note() {
    let (code, _, err) = creel(&["measure", "-n2", "-i", "false"]);
    assert_eq!(code, Some(0), "{err}");
    assert!(err.contains("2 of 2 runs failed (exit code 1)"), "{err}");
}

#[test]
fn an_unusable_file_exits_with_1_and_not_as_a_usage_error() {
    for option in [
        &["--csv", "/dev/full"][..],
        &["--input", "/no/such/file"],
        &["--output", "/no/such/folder/file"],
    ] {
        let (code, _, err) = creel(&[&["measure", "-n1"], option, &["true"]].concat());
        assert_eq!(code, Some(1), "{option:?}: {err}");
    }
}

#[test]
fn no_command_runs_if_another_one_does_not_exist() {
    let folder = TempDir::new().unwrap();
    let file = folder.path().join("started");
    let words = ["measure", "-n1", "--vs", "no-such-program", "touch"];
    let (code, out, err) = creel(&[&words[..], &[file.to_str().unwrap()]].concat());
    assert_eq!((code, out.as_str()), (Some(127), ""), "{err}");
    assert!(!file.exists());
    // A hook may create the program.
    let (program, hook) = (file.display(), format!("cp /bin/true {}", file.display()));
    let words = ["measure", "-n1", "--setup", &hook, &program.to_string()];
    let (code, _, err) = creel(&words);
    assert_eq!(code, Some(0), "{err}");
}
