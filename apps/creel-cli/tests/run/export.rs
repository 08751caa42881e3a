//! Checks settings that are exported as configuration.

use crate::{CREEL, built, creel_topology_has_no_smt, quota::Quota, said, source};
use std::process::Command;
use tempfile::TempDir;

#[test]
fn java_exports_set_tool_options() {
    let export = |jobs: &[&str]| {
        let mut command = Command::new(CREEL);
        command.arg("run").args(jobs);
        // The program is in the image and not on this machine.
        command.args(["--export", "docker", "--as", "java", "--", "/app/start"]);
        let out = command.env_remove("JAVA_TOOL_OPTIONS").output().unwrap();
        let text = |bytes| String::from_utf8(bytes).unwrap();
        (text(out.stdout), text(out.stderr))
    };
    let (set, _) = export(&["-j7"]);
    let expected = "-e JAVA_TOOL_OPTIONS=-XX:ActiveProcessorCount=7\n";
    assert_eq!(set, expected);
    // The number that the runtime chooses here may differ from that on the target.
    let here = std::thread::available_parallelism().unwrap();
    let (set, _) = export(&[&format!("-j{here}")]);
    assert!(set.contains("ActiveProcessorCount="), "{set}");
    if creel_topology_has_no_smt() && Quota::none_here() {
        let (nothing, why) = export(&[]);
        assert!(
            nothing.is_empty() && why.contains("changes nothing"),
            "{why}"
        );
    }
}

#[test]
fn exported_settings_can_be_pasted_into_their_target() {
    let theirs = "-Da=\"b c\" -Db=%h$(HOME)\\x\n-Dc=1";
    let export = |target: &str| {
        let words = [
            "run",
            "-j7",
            "--export",
            target,
            "--as",
            "java",
            "--",
            "/app/start",
        ];
        said(&words, &[("JAVA_TOOL_OPTIONS", theirs)]).0
    };
    // A shell and the docker client must read the original values. The arguments for docker are on
    // one line.
    let whole = format!("{theirs} -XX:ActiveProcessorCount=7");
    let shell = |script: String| {
        let out = Command::new("sh").args(["-c", &script]).output().unwrap();
        String::from_utf8(out.stdout).unwrap()
    };
    let read = shell(export("env") + "printf %s \"$JAVA_TOOL_OPTIONS\"");
    assert_eq!(read, whole);
    let read = shell(format!("printf '<%s>' {}", export("docker")));
    assert_eq!(read, format!("<-e><JAVA_TOOL_OPTIONS={whole}>"));
    let words = [
        "run", "-j7", "--export", "docker", "--as", "java", "--", "x",
    ];
    let (_, note) = said(&words, &[("JAVA_TOOL_OPTIONS", "-Xmx1g")]);
    assert!(note.contains("use eval"), "{note}");
    let (_, note) = said(&words, &[]);
    assert!(!note.contains("eval"), "{note}");
    let words = [
        "run", "-j7", "--export", "docker", "--as", "python", "--", "x",
    ];
    let (line, _) = said(&words, &[]);
    assert_eq!(line.lines().count(), 1, "{line}");
    assert!(line.starts_with("-e OMP_NUM_THREADS=7 -e "), "{line}");
    // Kubernetes would expand $(HOME), and systemd would expand %h. A newline would end the
    // setting.
    assert!(export("k8s").contains("%h$$(HOME)\\\\x\\n-Dc=1 -XX"));
    let unit = export("systemd");
    assert!(unit.contains("%%h$(HOME)\\\\x\\n-Dc=1 -XX"), "{unit}");
    assert_eq!(unit.lines().count(), 1, "{unit}");
}

#[test]
fn settings_without_a_variable_are_noted_in_exports() {
    let (nothing, why) = said(
        &["run", "-j1", "--export", "docker", "--as", "ninja", "x"],
        &[],
    );
    assert!(
        nothing.is_empty() && why.contains("start it with -j1"),
        "{why}"
    );
    let folder = TempDir::new().unwrap();
    let hs = source("cpu.hs").display().to_string();
    let options = [
        "-v0",
        "-threaded",
        "-with-rtsopts=-N2",
        "-outputdir",
        ".",
        "-o",
        "cpu",
        &hs,
    ];
    let Some(haskell) = built("ghc", &options, folder.path()) else {
        return;
    };
    let program = haskell.to_str().unwrap();
    let (nothing, why) = said(&["run", "-j1", "--export", "docker", program], &[]);
    assert!(nothing.is_empty() && why.contains("+RTS -N1 -RTS"), "{why}");
    assert!(!why.contains("script"), "{why}");
}
