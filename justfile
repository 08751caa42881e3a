# What a developer does daily; `just` lists it.

_default:
    @just --list --unsorted

# Format, lint, test: before each commit.
check:
    cargo fmt --all && cargo clippy --workspace --all-targets -- -D warnings && cargo test --workspace

# Tests of one crate: `just test creel-bench`, `just test creel loops`.
test CRATE *FILTER:
    cargo test -p {{CRATE}} {{FILTER}}

# Formats and lints one crate, which is quicker than all.
lint CRATE:
    cargo fmt -p {{CRATE}} && cargo clippy -p {{CRATE}} --all-targets -- -D warnings

# Everything that main must pass.
ci:
    .ci/run

# All workloads beside their peers, quickly, and creel-report.html.
bench *ARGS:
    cargo run --release -p creel-bench -- {{ARGS}}

# Keeps the figures of a workload, to compare a change with: `just before loops`.
before WORKLOAD *ARGS:
    cargo run --release -p creel-bench -- --only {{WORKLOAD}} --report target/before.json {{ARGS}}

# The same after the change: says what became faster or slower beyond noise.
after WORKLOAD *ARGS:
    cargo run --release -p creel-bench -- --only {{WORKLOAD}} --compare target/before.json {{ARGS}}

# The record of this machine, half an hour when it is quiet, and README's table and plot made of it.
record:
    cargo build --release -p creel-cli -p creel-bench
    target/release/creel-bench --full --record benches/runs
    target/release/creel-bench --readme README.md

# What this machine is and what may be used of it.
topo *ARGS:
    cargo run --release -p creel-cli -- topo {{ARGS}}

# Renders the project's own songs into out/.
demo:
    cargo run --release -p creel-vgm -- render --demo -o out

# The guide as a book, at a local port.
guide:
    mdbook serve docs/guide

# The model checkers of the runtime: loom, then whole pools with 100 seeds each.
models:
    RUSTFLAGS="--cfg loom" CARGO_TARGET_DIR=target/loom cargo test --release -p creel --lib model
    RUSTFLAGS="--cfg shuttle" CARGO_TARGET_DIR=target/shuttle CREEL_MODEL_SEEDS=100 cargo test -p creel --lib models

# Chips against the reference, write for write (needs a C++ compiler).
oracle:
    cargo test --release -p creel-vgm --features oracle --test oracle

# What a release consists of, into dist/; publishes nothing.
release:
    .ci/release programs
    .ci/release crates
