#!/usr/bin/env bash
# Builds the wheel with maturin in a virtual environment, installs it, and runs the tests and the
# study. Prints why and succeeds if that is impossible here. CREEL_PYTHON_MUST_RUN=1 makes it fail
# instead.
set -euo pipefail
cd "$(dirname "$0")"

skip() {
  echo "python-traffic: skipped, $1"
  [ -z "${CREEL_PYTHON_MUST_RUN:-}" ] || exit 1
  exit 0
}
python3 -c 'import sys; sys.exit(sys.version_info < (3, 10))' 2>/dev/null \
  || skip "there is no Python 3.10 here"
command -v cargo >/dev/null || skip "there is no cargo here, install Rust from https://rustup.rs"
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv" 2>/dev/null || skip "Python cannot create a virtual environment"
PATH="$folder/venv/bin:$PATH"
pip install -q 'maturin>=1.7,<2' numpy 2>/dev/null || skip "pip cannot install maturin and numpy"
maturin build --release --locked -q --out "$folder/dist"
# One wheel serves all versions of Python.
ls "$folder"/dist/creel_traffic-*-cp310-abi3-*.whl
pip install -q "$folder"/dist/*.whl
python -m unittest discover -s tests
python examples/study.py
