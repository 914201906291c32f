#!/bin/sh
# bundle.sh COMMAND ARGUMENT...: makes a command of the bundle in /app/src the server.
# bundle.sh --report REPORT: prints the report of the bundle.
set -eu

. /mcpm/launcher.sh

if [ "$1" = --report ]; then
  # Some shells' `echo` interprets backslashes.
  printf '%s %s\n' "$MCPM_REPORT" "$2"
  exit
fi
folder=/app/src
command=$1
shift
case $command in
  python | python3)
    command=$(command -v python3 || command -v python) || {
      echo "the base image has no Python" >&2
      exit 1
    }
    ;;
  */*)
    # A path of the bundle.
    cd "$folder"
    [ -f "$command" ] || {
      echo "the bundle has no program $command" >&2
      exit 1
    }
    chmod 755 "$command"
    ;;
esac
launcher "$command" "$@"
