#!/usr/bin/env bash
# Every example against one rank, in fp64, under the layouts of layouts.txt, the three transports in turn.
# usage: examples.sh ECHELON [--sample]      --sample: the first layout of each spec of examples/ alone
# Specs of $ECHELON_SHARED/specs (../shared, unless told) are tried where they are there.
set -euo pipefail
echelon=$1 sample=${2:-}
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
status=0 tried=0

# A layout that batch statistics forbid is refused by a diagnostic.
refuses() {
  if said=$("$echelon" verify "$1" --layout "mesh(dp = 2) { split batch over dp } in 2 micro batches" 2>&1) ||
    ! grep -q "error\[E" <<<"$said"; then
    echo "WRONG $1: micro batches are not refused by a diagnostic: $said"
    status=1
  fi
}

for name in $(grep -v '^#' "$here/layouts.txt" | cut -d' ' -f1 | uniq); do
  spec=$root/examples/$name.ech
  [ -e "$spec" ] || [ -n "$sample" ] || spec=${ECHELON_SHARED:-$root/../shared}/specs/$name.ech
  [ -e "$spec" ] || continue
  arguments=()
  while IFS= read -r line; do
    arguments+=(--layout "${line#*| }")
    [ -z "$sample" ] || break
  done < <(grep "^$name |" "$here/layouts.txt")
  echo "== $name"
  "$echelon" verify "$spec" --transport each "${arguments[@]}" || status=1
  tried=$((tried + 1))
  case $name in resnet20_cifar | conv_fashion) refuses "$spec" ;; esac # batch norm
done
echo "$tried examples"
[ "$tried" -ge 4 ] || status=1
exit $status
