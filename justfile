# Everything that main must pass.
ci:
    .ci/run

# Format, lint, test.
check:
    cargo fmt --all && cargo clippy --workspace --all-targets -- -D warnings && cargo test --workspace

# All workloads beside their peers.
bench *ARGS:
    cargo run --release -p creel-bench -- {{ARGS}}

# What this machine is and what may be used of it.
topo *ARGS:
    cargo run --release -p creel-cli -- topo {{ARGS}}

# Renders the project's own songs into out/.
demo:
    cargo run --release -p creel-vgm -- render --demo -o out

# Chips against the reference, write for write (needs a C++ compiler).
oracle:
    cargo test --release -p creel-vgm --features oracle --test oracle
