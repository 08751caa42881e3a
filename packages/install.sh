#!/bin/sh
# Installs Creel's programs, their manual pages and their shell completions:
#   curl -fsSL https://github.com/creel-rs/creel/releases/latest/download/install.sh | sh
#
# These variables change what it does:
#   CREEL_PREFIX   the folder that gets bin/ and share/ (default: ~/.local, for root /usr/local)
#   CREEL_URL      the address of the release's files (default: the latest release)
#   CREEL_TARGET   the target of the programs (default: this machine's)
#
# We check the archive against the release's SHA256SUMS, and change nothing if it does not match.
set -eu

fail() {
  echo "install.sh: $1" >&2
  exit 1
}

# Everything is in functions, so that a download that ends early runs nothing.
target() {
  case "$(uname -s) $(uname -m)" in
  "Linux x86_64") echo x86_64-unknown-linux-musl ;;
  "Linux aarch64" | "Linux arm64") echo aarch64-unknown-linux-musl ;;
  "Darwin x86_64") echo x86_64-apple-darwin ;;
  "Darwin arm64") echo aarch64-apple-darwin ;;
  *) fail "there are no programs for $(uname -s) on $(uname -m). Build them: cargo install --path apps/creel-cli" ;;
  esac
}

download() { # ADDRESS FILE
  if command -v curl >/dev/null 2>&1; then
    curl -fsSL "$1" -o "$2" || fail "cannot download $1"
  elif command -v wget >/dev/null 2>&1; then
    wget -qO "$2" "$1" || fail "cannot download $1"
  else
    fail "cannot download $1: install curl or wget"
  fi
}

checksum() { # FILE
  if command -v sha256sum >/dev/null 2>&1; then
    sha256sum "$1"
  elif command -v shasum >/dev/null 2>&1; then
    shasum -a 256 "$1"
  else
    fail "cannot check the download: install sha256sum or shasum"
  fi | cut -d ' ' -f 1
}

main() {
  url=${CREEL_URL:-https://github.com/creel-rs/creel/releases/latest/download}
  triple=${CREEL_TARGET:-$(target)}
  if [ "$(id -u)" = 0 ]; then default=/usr/local; else default=$HOME/.local; fi
  prefix=${CREEL_PREFIX:-$default}
  work=$(mktemp -d)
  trap 'rm -rf "$work"' EXIT

  download "$url/SHA256SUMS" "$work/SHA256SUMS"
  # A line is the checksum, two spaces or a space and an asterisk, and the name.
  line=$(grep -E "[ *]creel-[0-9][^ ]*-$triple\.tar\.gz\$" "$work/SHA256SUMS" || true)
  [ -n "$line" ] || fail "$url has no programs for $triple"
  [ "$(printf '%s\n' "$line" | wc -l)" -eq 1 ] || fail "$url has several versions for $triple"
  expected=${line%% *} name=${line##*[ *]}

  download "$url/$name" "$work/$name"
  actual=$(checksum "$work/$name")
  [ "$actual" = "$expected" ] ||
    fail "$url/$name has the checksum $actual, but SHA256SUMS has $expected. Nothing was installed"

  mkdir "$work/files"
  tar -xzf "$work/$name" -C "$work/files"
  mkdir -p "$prefix" || fail "cannot create $prefix. Set CREEL_PREFIX to a folder of yours"
  for part in bin share; do
    cp -R "$work/files/${name%.tar.gz}/$part" "$prefix/" ||
      fail "cannot write to $prefix. Set CREEL_PREFIX to a folder of yours"
  done
  "$prefix/bin/creel" --version
  for program in "$work/files/${name%.tar.gz}"/bin/*; do
    echo "installed $prefix/bin/${program##*/}"
  done
  case ":$PATH:" in
  *":$prefix/bin:"*) ;;
  *) echo "add $prefix/bin to your PATH" ;;
  esac
}

main
