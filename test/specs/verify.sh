#!/usr/bin/env bash
# Every spec of this folder against one rank, in fp64, under its own layout and those of layouts.txt, the three
# transports in turn, on data made for it.
# usage: verify.sh ECHELON [SPEC …]      SPEC: a name without folder and ending; all unless told
set -euo pipefail
echelon=$1
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cp "$here"/*.ech "$work"
python3 "$here/make_data.py" "$work/data"
shift
[ $# -gt 0 ] || set -- $(cd "$here" && printf '%s\n' *.ech | sed 's/\.ech$//')
status=0
for name in "$@"; do
  arguments=()
  while IFS= read -r line; do
    arguments+=(--layout "${line#*| }")
  done < <(grep "^$name |" "$here/layouts.txt" || true)
  echo "== $name"
  "$echelon" verify "$work/$name.ech" --transport each "${arguments[@]}" || status=1
done
exit $status
