# Commands for daily work. `just` lists them.

_default:
    @just --list --unsorted

# Format, lints and unit tests of the changed crates, in under two minutes: before each commit.
quick *BASE:
    .ci/quick {{BASE}}

# Run the tests that you added or changed 20 times, on one CPU next to two busy loops.
repeat *BASE:
    .ci/repeat {{BASE}}

# Format, lint and test the whole workspace. A plain `cargo test` has only the libraries and the tool.
check:
    cargo fmt --all && cargo clippy --workspace --all-targets -- -D warnings && cargo test --workspace

# Test one crate: `just test creel-bench`, `just test creel loops`.
test CRATE *FILTER:
    cargo test -p {{CRATE}} {{FILTER}}

# Format and lint one crate.
lint CRATE:
    cargo fmt -p {{CRATE}} && cargo clippy -p {{CRATE}} --all-targets -- -D warnings

# Update the lists of the public API of all library crates or of some, which CI compares.
public-api *crates:
    .ci/public-api --update {{crates}}

# Run everything that main must pass.
ci:
    .ci/run

# Run all workloads next to their peers, quickly, and write creel-report.html.
bench *ARGS:
    cargo run --release -p creel-bench -- {{ARGS}}

# Record a workload before a change: `just before loops`.
before WORKLOAD *ARGS:
    cargo run --release -p creel-bench -- --only {{WORKLOAD}} --report target/before.json {{ARGS}}

# Run it again after the change, and report what became faster or slower beyond noise.
after WORKLOAD *ARGS:
    cargo run --release -p creel-bench -- --only {{WORKLOAD}} --compare target/before.json {{ARGS}}

# Record this machine (half an hour, on a quiet machine) and write README's table and plot from it.
record:
    cargo build --release -p creel-cli -p creel-bench
    target/release/creel-bench --full --record benches/runs
    target/release/creel-bench --readme README.md

# Show this machine and what may be used of it.
topo *ARGS:
    cargo run --release -p creel-cli -- topo {{ARGS}}

# Render the included songs into out/.
demo:
    cargo run --release -p creel-vgm -- render --demo -o out

# Serve the guide as a book on a local port.
guide:
    .ci/book serve

# Run the libraries' tests for other targets, under qemu and wine: `just targets x86_64-pc-windows-gnu`.
targets *TARGETS:
    .ci/targets libraries {{TARGETS}}

# Compare what the programs of another target compute with those of this machine.
programs TARGET="x86_64-pc-windows-gnu":
    .ci/targets programs {{TARGET}}

# Run the model checkers of the runtime: loom, then shuttle with 100 seeds for each model.
models:
    cargo test --release --manifest-path crates/models/Cargo.toml --features loom --lib model
    CREEL_MODEL_SEEDS=100 cargo test --manifest-path crates/models/Cargo.toml --features shuttle --lib models

# Compare the chips with the reference, write for write (needs a C++ compiler).
oracle:
    cargo test --release -p creel-vgm --features oracle --test oracle

# Build what a release consists of into dist/, and install it on trial. Publishes nothing.
release:
    .ci/release programs
    .ci/release libraries
    .ci/release sums
    .ci/release crates
    .ci/release try

# Install what `just release` has built in fresh Debian systems, in each way. Needs root.
installs:
    .ci/installs
