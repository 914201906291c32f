#!/bin/sh
# python.sh REQUIREMENT: installs a distribution with uv into /app/venv, for the Python of the base image.
set -eu

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
"$uv" pip install --compile-bytecode --python /app/venv/bin/python -- "$1"
