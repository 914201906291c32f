#!/bin/sh
# Installs the program mcpm: install.sh [--to DIR]
#
# Downloads the release for this machine, checks its SHA-256 checksum, and installs the program in DIR, which is
# ~/.local/bin by default. A program that is there already is replaced in one step. If anything fails, nothing is
# changed. Needs curl or wget, tar with gzip, and sha256sum or shasum. The variable MCPM_RELEASE_URL names another URL
# of the release's files.
set -eu

release_url=${MCPM_RELEASE_URL:-@RELEASE_URL@}
work=
new=

fail() {
  echo "install.sh: $*" >&2
  exit 1
}

clean_up() {
  [ -z "$work" ] || rm -rf "$work"
  [ -z "$new" ] || rm -f "$new"
}

# Prints the target of this machine.
target() {
  system=$(uname -s)
  machine=$(uname -m)
  case $machine in
    x86_64 | amd64) architecture=x86_64 ;;
    aarch64 | arm64) architecture=aarch64 ;;
    *) fail "there is no release of mcpm for $system on $machine" ;;
  esac
  case $system in
    Linux) echo "$architecture-unknown-linux-musl" ;;
    Darwin) echo "$architecture-apple-darwin" ;;
    *) fail "there is no release of mcpm for $system on $machine" ;;
  esac
}

# download URL FILE
download() {
  if command -v curl >/dev/null; then
    # A redirection must not lead away from TLS.
    case $1 in
      https:*) protocols='=https' ;;
      *) protocols='=http,https' ;;
    esac
    curl --fail --silent --show-error --location --proto "$protocols" --output "$2" "$1" ||
      fail "cannot download $1"
  elif command -v wget >/dev/null; then
    wget -q -O "$2" "$1" || fail "cannot download $1"
  else
    fail "needs curl or wget"
  fi
}

# Prints the checksum of a file.
checksum() {
  if command -v sha256sum >/dev/null; then
    sha256sum "$1" | cut -d ' ' -f 1
  elif command -v shasum >/dev/null; then
    shasum -a 256 "$1" | cut -d ' ' -f 1
  else
    fail "needs sha256sum or shasum"
  fi
}

main() {
  to=
  case $# in
    0) to=${HOME:?}/.local/bin ;;
    2) [ "$1" != --to ] || to=$2 ;;
  esac
  [ -n "$to" ] || fail "usage: install.sh [--to DIR]"
  name=mcpm-$(target)

  trap clean_up EXIT
  trap 'exit 1' HUP INT TERM
  work=$(mktemp -d)
  download "$release_url/$name.tar.gz" "$work/archive"
  download "$release_url/$name.tar.gz.sha256" "$work/checksum"
  expected=$(cut -d ' ' -f 1 "$work/checksum")
  actual=$(checksum "$work/archive")
  if [ -z "$actual" ] || [ "$actual" != "$expected" ]; then
    fail "$release_url/$name.tar.gz has the checksum $actual instead of $expected; nothing was installed"
  fi
  tar -xzf "$work/archive" -C "$work" "$name/bin/mcpm"

  mkdir -p "$to"
  [ ! -d "$to/mcpm" ] || fail "$to/mcpm is a directory"
  new=$to/.mcpm.$$
  cp "$work/$name/bin/mcpm" "$new"
  chmod 755 "$new"
  version=$("$new" --version) ||
    fail "the program of $name does not run on this machine; nothing was installed"
  mv -f "$new" "$to/mcpm"
  new=
  echo "installed $version as $to/mcpm"
  case :${PATH-}: in
    *":$to:"*) ;;
    *) echo "$to is not in PATH" ;;
  esac
}

# In the last line: a script whose download was cut off does nothing.
main "$@"
