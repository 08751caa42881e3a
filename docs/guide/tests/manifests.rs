//! Checks what the manifests promise: the metadata of the crates that we publish, how little README's
//! first command has to compile, and how few packages a dependency on Creel adds to a lock file.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

/// The crates that we publish, each after the crates that it needs.
const PUBLISHED: &[&str] = &[
    "creel-topology",
    "creel-macros",
    "creel",
    "creel-rayon",
    "creel-pools",
    "creel-hyper",
    "creel-tokio",
    "creel-media",
];

/// The number of packages that README's first command may compile. A first run then takes about two
/// minutes on two cores, most of which is compiling.
const FIRST_COMMAND_MAX: usize = 120;

/// The number of packages of other projects that a dependency on `creel` with its default features
/// may add to the lock file of a program. A lock file has the packages of all systems.
const ADDED_MAX: usize = 15;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Runs cargo and returns its output.
fn cargo(arguments: &[&str]) -> String {
    let cargo = std::env::var_os("CARGO").unwrap_or("cargo".into());
    let mut command = Command::new(cargo);
    let output = command
        .args(arguments)
        .current_dir(root())
        .output()
        .unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "cargo {arguments:?}: {errors}");
    String::from_utf8(output.stdout).unwrap()
}

/// Returns the packages of the workspace.
fn packages() -> Vec<Value> {
    let metadata = cargo(&["metadata", "--no-deps", "--locked", "--format-version", "1"]);
    let metadata: Value = serde_json::from_str(&metadata).unwrap();
    metadata["packages"].as_array().unwrap().clone()
}

#[test]
fn published_crates_have_complete_metadata() {
    let mut published = Vec::new();
    for package in packages() {
        // An empty list of registries means `publish = false`.
        if package["publish"].as_array().is_some_and(Vec::is_empty) {
            continue;
        }
        let name = package["name"].as_str().unwrap();
        published.push(name.to_owned());
        let text = |field: &str| package[field].as_str().unwrap_or_default().to_owned();
        for field in [
            "description",
            "license",
            "repository",
            "homepage",
            "readme",
            "rust_version",
        ] {
            assert!(!text(field).is_empty(), "{name} has no {field}");
        }
        assert_eq!(text("documentation"), format!("https://docs.rs/{name}"));
        for (field, most) in [("keywords", 5), ("categories", 5)] {
            let count = package[field].as_array().unwrap().len();
            assert!((1..=most).contains(&count), "{name} has {count} {field}");
        }
        let docs = &package["metadata"]["docs"]["rs"];
        assert_eq!(
            docs["all-features"], true,
            "{name}: docs.rs shows all features"
        );
        let source = root()
            .join("crates")
            .join(package["manifest_path"].as_str().unwrap());
        let source = std::fs::read_to_string(source.with_file_name("src/lib.rs")).unwrap();
        let has_features = package["features"]
            .as_object()
            .unwrap()
            .keys()
            .any(|f| f != "default");
        assert_eq!(
            source.contains("#![cfg_attr(docsrs, feature(doc_cfg))]"),
            has_features,
            "{name}: docs.rs shows the feature that an item needs"
        );
    }
    published.sort();
    let mut expected = PUBLISHED.to_vec();
    expected.sort_unstable();
    assert_eq!(published, expected);
}

#[test]
fn published_crates_depend_only_on_earlier_ones() {
    for package in packages() {
        let name = package["name"].as_str().unwrap();
        let Some(place) = PUBLISHED.iter().position(|published| *published == name) else {
            continue;
        };
        for dependency in package["dependencies"].as_array().unwrap() {
            // A dependency on another folder is one of ours.
            if dependency["path"].is_null() || dependency["kind"] == "dev" {
                continue;
            }
            let needed = dependency["name"].as_str().unwrap();
            let of_needed = PUBLISHED.iter().position(|published| *published == needed);
            assert!(
                of_needed.is_some_and(|n| n < place),
                "{name} needs {needed}"
            );
            let version = dependency["req"].as_str().unwrap();
            assert_ne!(version, "*", "{name} names no version of {needed}");
        }
    }
}

#[test]
fn the_first_command_of_the_readme_compiles_few_packages() {
    let readme = std::fs::read_to_string(root().join("README.md")).unwrap();
    let first = readme.lines().find(|line| line.starts_with("$ cargo run"));
    let command = first.unwrap().split(" #").next().unwrap().trim();
    assert_eq!(
        command, "$ cargo run --release -p creel-bench",
        "update this test"
    );
    let tree = cargo(&[
        "tree",
        "--locked",
        "-p",
        "creel-bench",
        "-e",
        "normal,build",
        "--prefix",
        "none",
    ]);
    let name = |line: &str| line.split(" (").next().unwrap().to_owned();
    let mut packages: Vec<_> = tree.lines().map(name).collect();
    packages.sort();
    packages.dedup();
    let count = packages.len();
    assert!(
        count <= FIRST_COMMAND_MAX,
        "{count} packages: find out with cargo tree who needs the new ones: {packages:?}"
    );
    println!("{count} packages");
}

#[test]
fn a_dependency_on_creel_adds_few_packages_to_a_lock_file() {
    let folder = std::env::temp_dir().join(format!("creel-lock-{}", std::process::id()));
    std::fs::create_dir_all(folder.join("src")).unwrap();
    let creel = root().join("crates/creel").canonicalize().unwrap();
    let manifest = format!(
        "[package]\nname = \"user\"\nedition = \"2024\"\n\n[dependencies]\ncreel = {{ path = {creel:?} }}\n\n[workspace]\n"
    );
    std::fs::write(folder.join("Cargo.toml"), manifest).unwrap();
    std::fs::write(folder.join("src/lib.rs"), "").unwrap();
    // Our own lock file has the same packages, so that cargo looks for no newer ones. Cargo removes
    // the packages that the user does not need. Unlike `cargo metadata`, this command downloads no
    // packages of other systems, which would fail without a network.
    std::fs::copy(root().join("Cargo.lock"), folder.join("Cargo.lock")).unwrap();
    let manifest = folder.join("Cargo.toml");
    cargo(&[
        "update",
        "--workspace",
        "--offline",
        "--manifest-path",
        manifest.to_str().unwrap(),
    ]);
    let lock = std::fs::read_to_string(folder.join("Cargo.lock")).unwrap();
    std::fs::remove_dir_all(&folder).unwrap();
    let names = lock
        .lines()
        .filter_map(|line| line.strip_prefix("name = \""));
    let names = names.filter(|name| !name.starts_with("user\""));
    let (own, others): (Vec<_>, Vec<_>) = names.partition(|name| name.starts_with("creel"));
    let (own, count) = (own.len(), others.len());
    assert!(count <= ADDED_MAX, "{count} packages: {others:?}");
    println!("{own} packages of Creel, {count} others: {others:?}");
}
