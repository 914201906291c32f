#!/bin/sh
# go.sh module REQUIREMENT | modules | project FOLDER: compiles one program into /app/bin, without C.
set -eu

command -v go >/dev/null 2>&1 || {
  echo "the base image has no Go" >&2
  exit 1
}
export CGO_ENABLED=0 GOBIN=/app/bin
mkdir -p /app/bin

# Time zones are compiled in: the image that the program runs in has none.
export GOFLAGS="${GOFLAGS:-} -trimpath -buildvcs=false -tags=timetzdata"

case $1 in
  module)
    go install -ldflags='-s -w' "$2"
    ;;
  modules)
    # A separate step, so that modules are cached. The build fetches modules that are still missing.
    cd /mcpm/src
    go mod download || true
    ;;
  project)
    cd /mcpm/src
    go build -ldflags='-s -w' -o /app/bin/ "$2"
    ;;
esac
