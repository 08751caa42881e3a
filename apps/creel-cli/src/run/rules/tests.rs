//! Tests the settings and notes of the rules, for runtimes and budgets of every kind.

use super::*;
use crate::run::ghc::{Capabilities, Ghc, RtsOpts};

const SIZE: Sizing = Sizing {
    floor: 2,
    ceil: 3,
    explicit: None,
    pus: 8,
    exceeds_mask: true,
    own_quota: None,
    cache_bytes: Some(16 << 20),
    memory_bytes: Some(1 << 30),
    room_bytes: Some(1 << 30),
    gc: false,
    takes_arguments: true,
    exported: false,
    contention: false,
};

fn threaded(rtsopts: RtsOpts) -> Runtime {
    with(rtsopts, Capabilities::Machine)
}

fn with(rtsopts: RtsOpts, own: Capabilities) -> Runtime {
    Runtime::Ghc(Ghc {
        threaded: true,
        rtsopts,
        pins: false,
        own,
        sizes_memory: false,
    })
}

fn knobs(runtime: Runtime, size: &Sizing) -> Vec<String> {
    let knobs = advise(runtime, size).knobs.into_iter();
    let shown = |k: Knob| match k.kind {
        KnobKind::Argument => k.value,
        _ => format!("{}={}", k.name, k.value),
    };
    knobs.map(|advised| shown(advised.knob)).collect()
}

#[test]
fn openmp_waits_passively_on_a_busy_machine() {
    let passive = "OMP_WAIT_POLICY=passive".to_owned();
    let busy = Sizing {
        contention: true,
        ..SIZE
    };
    for runtime in [Runtime::OpenMp, Runtime::R, Runtime::Python] {
        assert!(knobs(runtime, &busy).contains(&passive), "{runtime:?}");
        assert!(!knobs(runtime, &SIZE).contains(&passive), "{runtime:?}");
    }
}

#[test]
fn a_note_does_not_contradict_the_settings_of_the_same_script() {
    let masked = Sizing {
        exceeds_mask: false,
        ..SIZE
    };
    let is_left_alone = |runtimes: &[Runtime]| {
        let mut advice = Advice::default();
        for runtime in runtimes {
            advice.join(advise(*runtime, &masked));
        }
        advice.notes.iter().any(|note| note == OPENMP_IS_LEFT_ALONE)
    };
    assert!(is_left_alone(&[Runtime::Shell]));
    assert!(!is_left_alone(&[Runtime::OpenMp, Runtime::Shell]));
    assert!(!is_left_alone(&[Runtime::Shell, Runtime::OpenMp]));
}

#[test]
fn runtimes_that_miss_outer_quotas_are_sized() {
    assert_eq!(knobs(Runtime::Go(None), &SIZE), ["GOMAXPROCS=3"]);
    assert_eq!(knobs(threaded(RtsOpts::Some), &SIZE), ["+RTS -N2 -RTS"]);
    assert_eq!(knobs(Runtime::Java, &SIZE), ["-XX:ActiveProcessorCount=3"]);
    let script = Sizing {
        takes_arguments: false,
        exported: false,
        ..SIZE
    };
    let variable = "JAVA_TOOL_OPTIONS=-XX:ActiveProcessorCount=3";
    assert_eq!(knobs(Runtime::Java, &script), [variable]);
    assert!(knobs(threaded(RtsOpts::Some), &script).is_empty());
}

#[test]
fn runtimes_that_see_the_quota_are_left_alone() {
    let own = Sizing {
        own_quota: Some(2.5),
        ..SIZE
    };
    assert!(knobs(Runtime::Go(Some((1, 26))), &own).is_empty());
    assert!(knobs(Runtime::Java, &own).is_empty());
    // Before 1.25 Go saw no quota.
    assert_eq!(knobs(Runtime::Go(Some((1, 24))), &own), ["GOMAXPROCS=3"]);
}

#[test]
fn inner_and_outer_quotas_give_the_same_number() {
    let one = Sizing {
        floor: 1,
        ceil: 1,
        ..SIZE
    };
    let own = Sizing {
        own_quota: Some(1.0),
        ..one
    };
    assert_eq!(knobs(Runtime::Go(None), &one), ["GOMAXPROCS=1"]);
    assert_eq!(knobs(Runtime::Go(None), &own), ["GOMAXPROCS=1"]);
}

#[test]
fn the_number_of_jobs_is_set_unless_the_program_would_fail() {
    let many = Sizing {
        explicit: Some(20),
        ..SIZE
    };
    assert!(knobs(threaded(RtsOpts::Some), &many).is_empty());
    assert_eq!(knobs(threaded(RtsOpts::All), &many), ["+RTS -N20 -RTS"]);
    assert_eq!(knobs(Runtime::Go(None), &many), ["GOMAXPROCS=20"]);
}

#[test]
fn the_programs_own_number_is_not_raised() {
    assert!(knobs(with(RtsOpts::All, Capabilities::One), &SIZE).is_empty());
    let fixed = |n| knobs(with(RtsOpts::All, Capabilities::Fixed(n)), &SIZE);
    assert!(fixed(2).is_empty() && fixed(1).is_empty());
    assert_eq!(fixed(6), ["+RTS -N2 -RTS"]);
    assert!(knobs(Runtime::Make, &SIZE).is_empty());
    let julia = knobs(Runtime::Julia, &SIZE);
    assert!(!julia.iter().any(|k| k.starts_with("JULIA_NUM_THREADS")));
}

#[test]
fn haskell_programs_without_rtsopts_get_no_options() {
    let plain = Runtime::Ghc(Ghc {
        threaded: false,
        rtsopts: RtsOpts::All,
        pins: false,
        own: Capabilities::One,
        sizes_memory: false,
    });
    let ignored_options = [RtsOpts::None, RtsOpts::IgnoreAll, RtsOpts::Unknown].map(threaded);
    for runtime in ignored_options.into_iter().chain([plain]) {
        let asked = Sizing {
            explicit: Some(1),
            gc: true,
            ..SIZE
        };
        assert!(knobs(runtime, &SIZE).is_empty() && knobs(runtime, &asked).is_empty());
    }
}

#[test]
fn memory_sizes_are_set_only_with_the_option_gc() {
    let gc = Sizing { gc: true, ..SIZE };
    assert_eq!(knobs(Runtime::Go(None), &gc)[1], "GOMEMLIMIT=921MiB");
    assert_eq!(knobs(Runtime::Java, &gc)[1], "-Xmx768m");
    assert_eq!(knobs(threaded(RtsOpts::All), &gc)[1], "+RTS -A16m -RTS");
    // Eight areas of 32 MiB are a quarter of a GiB, and eight of 480 MiB are more than all.
    let large = Sizing {
        cache_bytes: Some(480 << 20),
        ..gc
    };
    assert_eq!(knobs(threaded(RtsOpts::All), &large)[1], "+RTS -A32m -RTS");
}

#[test]
fn user_sized_heaps_are_kept() {
    let gc = Sizing { gc: true, ..SIZE };
    let heap = advise(Runtime::Java, &gc).knobs.pop().unwrap().knob;
    let kept = |word: &str| heap.kept_by_user(&[word.into()], &|_| None).is_some();
    for word in [
        "-Xms400m",
        "-XX:MinHeapSize=400m",
        "-XX:InitialHeapSize=450m",
        "-XX:MinRAMPercentage=20",
        "-XX:MaxRAMPercentage=50",
        "@options",
    ] {
        assert!(kept(word), "{word}");
    }
    assert!(!kept("-Xss1m"));
}

#[test]
fn each_runtime_gets_the_setting_that_controls_its_threads() {
    let assert_knobs = |runtime, expected: &[&str]| {
        let knobs = knobs(runtime, &SIZE);
        for knob in expected {
            assert!(
                knobs.iter().any(|k| k == knob),
                "{knob} is not in {knobs:?}"
            );
        }
        knobs.len()
    };
    assert_knobs(Runtime::Pigz, &["PIGZ=-p 2"]);
    assert_knobs(Runtime::Cargo, &["CARGO_BUILD_JOBS=2"]);
    assert_knobs(Runtime::Ninja, &["-j2"]);
    assert_knobs(Runtime::DotNet, &["DOTNET_PROCESSOR_COUNT=3"]);
    assert_knobs(
        Runtime::Julia,
        &["JULIA_CPU_THREADS=2", "OPENBLAS_NUM_THREADS=2"],
    );
    assert_knobs(Runtime::Crystal, &["CRYSTAL_WORKERS=2", "GC_MARKERS=2"]);
    assert_knobs(Runtime::Erlang, &["ERL_AFLAGS=+S 2:2"]);
    assert_knobs(Runtime::Rayon, &["RAYON_NUM_THREADS=2"]);
    assert_knobs(Runtime::Tokio, &["TOKIO_WORKER_THREADS=2"]);
    let r = [
        "MC_CORES=2",
        "R_DATATABLE_NUM_THREADS=2",
        "OMP_NUM_THREADS=2",
    ];
    assert_knobs(Runtime::R, &r);
    let python = [
        "PYTHON_CPU_COUNT=2",
        "NUMBA_NUM_THREADS=2",
        "LOKY_MAX_CPU_COUNT=2",
    ];
    assert_knobs(Runtime::Python, &python);
    // Programs that a setting could make fail, and programs without a knob, get no setting.
    for runtime in [
        Runtime::Jdk,
        Runtime::Xz,
        Runtime::Zstd,
        Runtime::Ruby,
        Runtime::Mono,
        Runtime::Ocaml,
        Runtime::Unknown,
    ] {
        assert_eq!(assert_knobs(runtime, &[]), 0);
    }
    let asked = Sizing {
        explicit: Some(5),
        ..SIZE
    };
    assert_eq!(self::knobs(Runtime::Make, &asked), ["MAKEFLAGS=-j5"]);
    assert_eq!(self::knobs(Runtime::Xz, &asked), ["XZ_DEFAULTS=-T5"]);
    assert_eq!(self::knobs(Runtime::Zstd, &asked), ["ZSTD_NBTHREADS=5"]);
    // The runtimes complain about larger numbers.
    let many = Sizing {
        explicit: Some(200),
        ..SIZE
    };
    let has = |runtime, knob: &str| self::knobs(runtime, &many).iter().any(|k| k == knob);
    assert!(has(Runtime::Crystal, "GC_MARKERS=16"));
    assert!(has(Runtime::Python, "NUMEXPR_NUM_THREADS=64"));
}

#[test]
fn python_keeps_the_guard_of_joblib_under_a_mask() {
    let masked = Sizing {
        exceeds_mask: false,
        ..SIZE
    };
    let knobs = knobs(Runtime::Python, &masked);
    assert!(
        !knobs
            .iter()
            .any(|k| k.contains("OMP") || k.contains("BLAS")),
        "{knobs:?}"
    );
    assert!(
        knobs.iter().any(|k| k == "LOKY_MAX_CPU_COUNT=2"),
        "{knobs:?}"
    );
}
