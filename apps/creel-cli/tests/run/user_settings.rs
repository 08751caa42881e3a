//! Checks that settings of the user stay: variables, arguments, wrappers and an outer `creel run`.

use crate::{CREEL, output, said};
use std::{os::unix::process::ExitStatusExt, process::Command};

#[test]
fn settings_of_the_user_are_kept() {
    let asks = "io:format(\"~p~n\",[erlang:system_info(schedulers)]),halt().";
    let erl = |words: &[&str], name: &str, value: &str| {
        let mut command = Command::new(CREEL);
        command.args(["run", "-j", "2", "--", "erl"]).args(words);
        command.args(["-noshell", "-eval", asks]).env(name, value);
        output(&mut command).map(|out| String::from_utf8(out.stdout).unwrap())
    };
    if output(Command::new("erl").arg("-version")).is_some() {
        assert_eq!(erl(&[], "X", "").unwrap(), "2\n");
        assert_eq!(erl(&["+S", "3:3"], "X", "").unwrap(), "3\n");
        for name in ["ERL_AFLAGS", "ERL_FLAGS", "ERL_ZFLAGS"] {
            assert_eq!(erl(&[], name, "+S 3:3").unwrap(), "3\n", "{name}");
        }
    }
    let said = |name: &str, value: &str, runtime: &str| {
        let mut command = Command::new(CREEL);
        command.args(["run", "-j1", "--dry-run", "--as", runtime, "--", "sh"]);
        let out = command.env(name, value).output().unwrap();
        String::from_utf8(out.stdout).unwrap()
    };
    let kept = said("ELIXIR_ERL_OPTIONS", "+S 3:3", "erlang");
    let elixir = "kept:     ELIXIR_ERL_OPTIONS=+S 3:3";
    assert!(kept.contains(elixir), "{kept}");
    // creel reports the side effect of a setting only if it makes the setting.
    let side_effect = "serial collector";
    let turned = said("JAVA_TOOL_OPTIONS", "-Xmx64m", "java");
    let joined = "JAVA_TOOL_OPTIONS gets -XX:ActiveProcessorCount=1";
    assert!(
        turned.contains(joined) && turned.contains(side_effect),
        "{turned}"
    );
    let kept = said("JAVA_TOOL_OPTIONS", "-XX:ActiveProcessorCount=5", "java");
    assert!(
        kept.contains("kept:") && !kept.contains(side_effect),
        "{kept}"
    );
}

#[test]
fn the_flag_as_selects_the_language_runtime() {
    let run = |options: &[&str], variable: &str| {
        let mut command = Command::new(CREEL);
        command.args(["run", "-j1"]).args(options);
        command.args(["--", "sh", "-c", "echo $JAVA_TOOL_OPTIONS"]);
        let out = command.env("JAVA_TOOL_OPTIONS", variable).output().unwrap();
        String::from_utf8(out.stdout).unwrap().trim().to_owned()
    };
    assert_eq!(run(&[], ""), "");
    assert_eq!(run(&["--as", "java"], ""), "-XX:ActiveProcessorCount=1");
    let joined = "-Xmx64m -XX:ActiveProcessorCount=1";
    assert_eq!(run(&["--as", "java"], "-Xmx64m"), joined);
    let theirs = "-XX:ActiveProcessorCount=7";
    assert_eq!(run(&["--as", "java"], theirs), theirs);
}

#[test]
fn the_shim_respects_jobs_and_user_preloads() {
    let run = |preloaded: &str| {
        let mut command = Command::new(CREEL);
        command.args(["run", "--shim", "-j1", "--", "sh", "-c"]);
        command.arg("echo $LD_PRELOAD; getconf _NPROCESSORS_ONLN");
        let out = command.env("LD_PRELOAD", preloaded).output().unwrap();
        String::from_utf8(out.stdout).unwrap()
    };
    let alone = run("");
    assert!(alone.ends_with("libcreel_shim.so\n1\n"), "{alone}");
    let preloads = run("libm.so.6");
    assert!(preloads.starts_with("libm.so.6:/"), "{preloads}");
    assert!(preloads.ends_with("libcreel_shim.so\n1\n"), "{preloads}");
}

#[test]
fn exit_codes_signals_and_user_settings_are_untouched() {
    let run = |words: &[&str]| {
        let mut command = Command::new(CREEL);
        command.arg("run").args(words).env("OMP_NUM_THREADS", "7");
        command.output().unwrap()
    };
    assert_eq!(run(&["--", "sh", "-c", "exit 42"]).status.code(), Some(42));
    let killed = run(&["--", "sh", "-c", "kill -TERM $$"]);
    assert_eq!(killed.status.signal(), Some(15));
    let pid = run(&["--", "sh", "-c", "echo $OMP_NUM_THREADS"]);
    assert_eq!(pid.stdout, b"7\n");
    let output = run(&["--explain", "--dry-run", "--", "sh"]);
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains("kept:     OMP_NUM_THREADS=7: you have set it") || !text.contains("OMP"));
}

#[test]
fn variables_changed_by_wrappers_are_not_reported_as_set() {
    let explained = |wrapper: &[&str], variables: &[(&str, &str)]| {
        let mut words = vec!["run", "-j1", "-n", "--"];
        words.extend(wrapper);
        words.push("nproc");
        said(&words, variables).0
    };
    let plain = explained(&["env"], &[]);
    assert!(plain.contains("set:      OMP_NUM_THREADS=1"), "{plain}");
    for (wrapper, kept) in [
        (
            &["env", "-u", "OMP_NUM_THREADS"][..],
            "env -u, which drops OMP_NUM_THREADS",
        ),
        (
            &["env", "--unset=OMP_NUM_THREADS"],
            "env -u, which drops OMP_NUM_THREADS",
        ),
        (
            &["nice", "env", "-i", "A=1"],
            "env -i, which drops OMP_NUM_THREADS",
        ),
        (&["env", "-i", "OMP_NUM_THREADS=5"], "OMP_NUM_THREADS=5"),
    ] {
        let output = explained(wrapper, &[("OMP_NUM_THREADS", "")]);
        assert!(
            output.contains(&format!("kept:     {kept}: ")),
            "{wrapper:?}: {output}"
        );
        assert!(
            !output.contains("set:      OMP_NUM_THREADS"),
            "{wrapper:?}: {output}"
        );
    }
    // A variable of the user that the wrapper drops does not count as a setting of the user.
    let output = explained(
        &["env", "-u", "OMP_NUM_THREADS"],
        &[("OMP_NUM_THREADS", "7")],
    );
    assert!(!output.contains("OMP_NUM_THREADS=7"), "{output}");
    // A script may start two programs. A wrapper around the first one drops the variable, and the
    // second one still gets it.
    let script = "env -u OMP_NUM_THREADS nproc; nproc";
    let (output, _) = said(&["run", "-j1", "-n", "--", "sh", "-c", script], &[]);
    assert!(output.contains("set:      OMP_NUM_THREADS=1"), "{output}");
}

#[test]
fn nested_runs_respect_the_outer_number() {
    let inner = |outer: &[&str], inner: &[&str], program: &[&str]| {
        let words = [
            &["run"],
            outer,
            &["--", CREEL, "run"],
            inner,
            &["--"],
            program,
        ]
        .concat();
        let mut command = Command::new(CREEL);
        let out = command
            .args(words)
            .env_remove("OMP_NUM_THREADS")
            .output()
            .unwrap();
        assert!(out.status.success(), "{out:?}");
        String::from_utf8(out.stdout).unwrap()
    };
    // The nested run sizes programs that the outer run could not see. It uses at most the number of
    // the outer run.
    let elixir = ["sh", "-c", "echo $ERL_AFLAGS"];
    assert_eq!(inner(&["-j1"], &["--as", "erlang"], &elixir), "+S 1:1\n");
    let output = inner(&["-j1"], &["-n"], &["true"]);
    assert!(
        output.contains("1 worker") && output.contains("CREEL_JOBS=1"),
        "{output}"
    );
    // --jobs of the nested run overrides the number, and the variables that the outer one has set.
    assert_eq!(
        inner(&["-j1", "--as", "openmp"], &["-j3"], &["nproc"]),
        "3\n"
    );
    assert_eq!(
        inner(
            &["-j1", "--as", "erlang"],
            &["-j3", "--as", "erlang"],
            &elixir
        ),
        "+S 3:3\n"
    );
    // A larger number of the outer run does not raise the number.
    let alone = said(&["run", "-n", "--format", "json", "true"], &[]).0;
    let workers = |json: &str| {
        serde_json::from_str::<serde_json::Value>(json).unwrap()["budget"]["workers"].clone()
    };
    let within = inner(&["-j999"], &["-n", "--format", "json"], &["true"]);
    assert_eq!(workers(&within), workers(&alone));
}

#[test]
fn joblib_still_limits_nested_threads() {
    let words = ["run", "-j2", "-n", "--as", "python", "--", "true"];
    let (output, _) = said(&words, &[("OMP_NUM_THREADS", "")]);
    assert!(output.contains("set:      OMP_NUM_THREADS=2"), "{output}");
    // joblib gives each worker a share of these numbers only if the variables are not set.
    for name in ["OPENBLAS", "MKL", "BLIS", "NUMEXPR"] {
        assert!(
            !output.contains(&format!("set:      {name}_NUM_THREADS")),
            "{output}"
        );
    }
}

#[test]
fn an_unusable_number_of_an_outer_run_is_noted() {
    let words = ["run", "-n", "--as", "openmp", "--", "true"];
    for (value, is_noted) in [("abc", true), ("0", true), ("1", false), ("", false)] {
        let (text, _) = said(&words, &[("CREEL_JOBS", value)]);
        assert_eq!(
            text.contains("creel ignores it"),
            is_noted,
            "{value}: {text}"
        );
    }
}

#[test]
fn a_kept_variable_names_those_that_it_replaces() {
    let words = ["run", "-n", "--as", "openmp", "--", "true"];
    let (text, _) = said(&words, &[("OMP_NUM_THREADS", "7")]);
    let replaced = "OMP_NUM_THREADS=7: you have set it, so creel does not set OPENBLAS_NUM_THREADS";
    assert!(text.contains(replaced), "{text}");
}
