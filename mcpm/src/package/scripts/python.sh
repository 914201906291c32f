#!/bin/sh
# python.sh REQUIREMENT...: installs distributions with uv into /app/venv, for the Python of the base image.
# python.sh --project REQUIREMENT...: installs the project in /mcpm/src, and distributions.
# python.sh --script FILE REQUIREMENT...: installs what a script in /app/src needs, and makes it a command.
# python.sh --bundle FILE: the same for a script of a bundle, which starts in the folder of the bundle.
set -eu

. /mcpm/launcher.sh

python=$(command -v python3 || command -v python) || {
  echo "the base image has no Python" >&2
  exit 1
}
uv=$(command -v uv) || {
  if "$python" -c 'import ensurepip, venv' 2>/dev/null; then
    "$python" -m venv /mcpm/uv
    /mcpm/uv/bin/python -m pip install --quiet --no-cache-dir --disable-pip-version-check uv
    uv=/mcpm/uv/bin/uv
  else
    # Some distributions have Python without them.
    uv=$("$python" /mcpm/uv.py /mcpm/uv)
  fi
}
export UV_CACHE_DIR=/mcpm/cache UV_LINK_MODE=copy UV_PYTHON_DOWNLOADS=never UV_NO_PROGRESS=1 UV_NO_CONFIG=1
"$uv" venv --quiet --python "$python" /app/venv
# The server's user cannot write what Python compiles, so it is compiled now.
install() {
  [ $# -eq 1 ] || "$uv" pip install --compile-bytecode --python /app/venv/bin/python "$@"
}
case $1 in
  --project)
    shift
    install -- /mcpm/src "$@"
    ;;
  --script | --bundle)
    [ "$1" = --script ] || folder=/app/src
    script=/app/src/$2 project=/app/src/pyproject.toml
    shift 2
    [ -f "$script" ] || {
      echo "${script#/app/src/} is excluded from the build" >&2
      exit 1
    }
    if grep -q '^# /// script[[:space:]]*$' "$script"; then
      install -r "$script" -- "$@"
    elif grep -q '^\[build-system\]' "$project" 2>/dev/null; then
      install -- /app/src "$@"
    elif grep -q '^\[project\]' "$project" 2>/dev/null; then
      install -r "$project" -- "$@"
    else
      install -- "$@"
    fi
    launcher /app/venv/bin/python "$script"
    ;;
  *)
    install -- "$@"
    ;;
esac
