# launcher PROGRAM ARGUMENT...: writes /app/bin/server, which runs a program with these arguments before its own, in
# $folder if that is set. It is sourced by the scripts that install.
launcher() {
  mkdir -p /app/bin
  {
    echo '#!/bin/sh'
    [ -z "${folder-}" ] || echo "cd $folder || exit"
    printf exec
    for word in "$@"; do
      printf " '%s'" "$(printf %s "$word" | sed "s/'/'\\\\''/g")"
    done
    echo ' "$@"'
  } >/app/bin/server
  chmod 755 /app/bin/server
}
