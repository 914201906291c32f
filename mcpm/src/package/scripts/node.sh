#!/bin/sh
# node.sh REQUIREMENT...: installs packages with npm into /app.
# node.sh --project REQUIREMENT...: builds the project in /app/src, and installs packages beside it.
# node.sh --script FILE REQUIREMENT...: installs what a script in /app/src needs, and makes it a command.
set -eu

. /mcpm/launcher.sh

command -v npm >/dev/null 2>&1 || {
  echo "the base image has no npm" >&2
  exit 1
}
export npm_config_audit=false npm_config_fund=false npm_config_update_notifier=false npm_config_cache=/mcpm/cache
mkdir -p /app
cd /app
echo '{"private": true}' >package.json
install() {
  npm install --omit=dev --save-exact "$@"
}

# Installs the packages that the project names, runs its build, and removes what only the build needs.
build() {
  cd /app/src
  if [ -f package-lock.json ] || [ -f npm-shrinkwrap.json ]; then
    npm ci --include=dev
  else
    npm install --include=dev --no-package-lock
  fi
  npm run build --if-present
  npm prune --omit=dev --no-package-lock --ignore-scripts
  cd /app
}

case $1 in
  --project)
    shift
    build
    # A link, which makes its commands executable.
    install --ignore-scripts --install-links=false -- /app/src
    [ $# -eq 0 ] || install -- "$@"
    # Without a command, its main file is the server.
    main=$(node -p 'require("/app/src/package.json").bin ? "" : require.resolve("/app/src")' 2>/dev/null) || main=
    [ -z "$main" ] || launcher node "$main"
    ;;
  --script)
    script=/app/src/$2
    shift 2
    [ ! -f /app/src/package.json ] || build
    [ -f "$script" ] || {
      echo "${script#/app/src/} is excluded from the build, and the project's build does not create it" >&2
      exit 1
    }
    case $script in
      *.ts | *.mts | *.cts)
        install -- tsx "$@"
        # Without a project, it is a module, which may have `await` outside of functions.
        [ -f /app/src/package.json ] || echo '{"type": "module"}' >/app/src/package.json
        set -- /app/node_modules/.bin/tsx
        [ ! -f /app/src/tsconfig.json ] || set -- "$@" --tsconfig /app/src/tsconfig.json
        launcher "$@" "$script"
        ;;
      *)
        [ $# -eq 0 ] || install -- "$@"
        launcher node "$script"
        ;;
    esac
    ;;
  *)
    install -- "$@"
    ;;
esac
