#!/bin/sh
# node.sh REQUIREMENT: installs a package with npm into /app.
set -eu

command -v npm >/dev/null 2>&1 || {
  echo "the base image has no npm" >&2
  exit 1
}
mkdir -p /app
cd /app
echo '{"private": true}' >package.json
npm install --omit=dev --no-audit --no-fund --no-update-notifier --cache=/mcpm/cache --save-exact -- "$1"
