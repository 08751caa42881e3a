//! Checks the plugin as `gst-launch-1.0` and `gst-inspect-1.0` load it. GStreamer's tracer `leaks`
//! must report no objects after a pipeline has ended, and all elements must have documentation.

use std::process::Command;

const PIPELINES: &[&str] = &[
    "creel-audiotestsrc context=a ! creel-proxysink proxy-context=leaks \
     creel-proxysrc proxy-context=leaks context=b ! creel-blocking-adapter ! fakesink async=false",
    "creel-audiotestsrc context=a ! creel-intersink inter-context=leaks \
     creel-intersrc inter-context=leaks ! fakesink async=false sync=false \
     creel-intersrc inter-context=leaks ! creel-clocksync ! fakesink async=false sync=false",
    "creel-appsrc ! creel-input-selector name=s ! fakesink async=false creel-audiotestsrc ! s. \
     creel-udpsrc port=47612 ! s.",
    "creel-udpsrc name=src address=127.0.0.1 port=47611 context=a receive-times=true ! tee name=t \
     t. ! creel-queue context=b ! creel-clocksync ! fakesink async=false \
     t. ! creel-queue context=a ! creel-udpsink clients=127.0.0.1:9,[::1]:9",
    "audiotestsrc samplesperbuffer=80 ! creel-udpsink sync=true clients=127.0.0.1:47611",
    "audiotestsrc samplesperbuffer=80 num-buffers=1000 ! creel-queue context=a ! creel-udpsink context=b clients=127.0.0.1:9",
];

/// Returns the output of `gst-inspect-1.0`. Each caller uses a registry of its own, because tests
/// run at the same time.
fn inspect(of: &str, registry: &str) -> String {
    let plugins = std::env::current_exe()
        .unwrap()
        .parent()
        .unwrap()
        .to_owned();
    let output = Command::new("gst-inspect-1.0")
        .arg(of)
        .env("GST_PLUGIN_PATH", &plugins)
        .env("GST_REGISTRY", plugins.join(registry))
        .output()
        .expect("Debian's package gstreamer1.0-tools is installed");
    assert!(output.status.success(), "gst-inspect-1.0 {of}: {output:?}");
    String::from_utf8(output.stdout).unwrap()
}

/// Runs a pipeline for a while, or until it ends, in a process of its own. Returns the lines of its
/// output about objects that are left.
fn leaks_of(pipeline: &str) -> Vec<String> {
    // On a busy machine, the process may need longer to start.
    for seconds in ["1", "4", "30"] {
        let text = launch(pipeline, seconds);
        if text.contains("Freeing pipeline") {
            assert!(text.contains("new format string: object-alive"), "{text}");
            let left = |line: &&str| line.contains("object-alive, type-name=(string)Gst");
            return text.lines().filter(left).map(String::from).collect();
        }
    }
    panic!("{}", launch(pipeline, "1"))
}

/// Runs a pipeline for a number of seconds, and returns the output.
fn launch(pipeline: &str, seconds: &str) -> String {
    // Cargo puts the plugin next to the test.
    let plugins = std::env::current_exe()
        .unwrap()
        .parent()
        .unwrap()
        .to_owned();
    let output = Command::new("timeout")
        .args(["--signal=INT", "--kill-after=30", seconds, "gst-launch-1.0"])
        .args(pipeline.split_whitespace())
        .env("GST_PLUGIN_PATH", &plugins)
        .env("GST_REGISTRY", plugins.join("gst-registry.bin"))
        .env("GST_TRACERS", "leaks;creel-times")
        .env("GST_DEBUG", "GST_TRACER:7,creel-times:4")
        .env("GST_DEBUG_NO_COLOR", "1")
        .output()
        .expect("Debian's packages coreutils and gstreamer1.0-tools are installed");
    let mut text = String::from_utf8_lossy(&output.stderr).into_owned();
    text.push_str(&String::from_utf8_lossy(&output.stdout));
    text
}

#[test]
fn pipelines_leak_no_objects() {
    // We first let `gst-inspect-1.0` write the registry, because that may take longer than the
    // pipelines run.
    inspect("creel", "gst-registry.bin");
    for text in PIPELINES {
        let left = leaks_of(text);
        assert!(left.is_empty(), "{text}: {left:#?}");
    }
}

#[test]
fn the_plugin_documents_all_its_elements() {
    const REGISTRY: &str = "gst-registry-inspect.bin";
    let list = inspect("creel", REGISTRY);
    let elements = list.lines().filter_map(|line| line.trim().split_once(": "));
    let elements: Vec<_> = elements
        .filter(|(name, _)| name.starts_with("creel-"))
        .collect();
    assert!(!elements.is_empty(), "{list}");
    let readme = std::fs::read_to_string("README.md").unwrap();
    for (name, title) in elements {
        assert!(title.contains("Creel"), "{name}: {title}");
        assert!(
            inspect(name, REGISTRY).contains("Element Properties"),
            "{name}"
        );
        assert!(
            readme.contains(&format!("`{name}`")),
            "{name} is missing in README.md"
        );
    }
}

#[test]
fn the_tracer_prints_the_time_of_each_element() {
    inspect("creel", "gst-registry.bin");
    let text = launch(
        "audiotestsrc num-buffers=50 ! creel-queue name=queue ! tee name=tee ! fakesink name=sink",
        "60",
    );
    for element in ["queue", "tee", "sink"] {
        assert!(text.contains(&format!("{element}: ")), "{text}");
    }
    assert_eq!(text.matches(" in 50 calls").count(), 3, "{text}");
}
