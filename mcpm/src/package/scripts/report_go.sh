#!/bin/sh
# report_go.sh: says which version of a module was compiled, and which programs came of it.
set -eu

commands='' version=''
for file in /app/bin/*; do
  [ -f "$file" ] || continue
  version=$(go version -m "$file" | awk -F '\t' '$2 == "mod" { print $4; exit }')
  commands="$commands${commands:+, }{\"name\": \"${file##*/}\", \"path\": \"$file\", \"file\": \"$file\"}"
done
echo "$MCPM_REPORT {\"version\": \"$version\", \"commands\": [$commands]}"
