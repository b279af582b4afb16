#!/usr/bin/env bash
# Holds a printed program against the one that is kept here, byte for byte, and compiles it without a warning.
# usage: golden.sh ECHELON NAME [CUDA]   NAME: of programs.txt; CUDA: the folder of its headers, for programs of GPUs
#        golden.sh ECHELON --update    writes all programs anew: read the difference before it is committed
set -euo pipefail
echelon=$(realpath "$1") name=$2
cd "$(dirname "$0")/../.." # a program names its spec as the command line does
here=test/golden

# The program NAME, as the compiler prints it now, to standard output.
print() {
  local spec train target
  IFS='|' read -r _ spec train target < <(grep "^$1 *|" "$here/programs.txt" | tr -d ' ')
  # shellcheck disable=SC2086 # options, or none
  "$echelon" build "$spec" --train "$train" --emit cpp ${target:+--ranks 1 --target $target}
}
# Its text is called so.
ending() { [[ "$1" = *_gpu ]] && echo cu || echo cpp; }

if [ "$name" = --update ]; then
  for each in $(grep -v '^#' "$here/programs.txt" | cut -d' ' -f1); do
    print "$each" >"$here/$each.$(ending "$each")"
  done
  exit
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
file=$name.$(ending "$name")
print "$name" >"$work/$file"
diff -u "$here/$file" "$work/$file" ||
  { echo "the program $name is no longer what test/golden/$file says; if that is meant: golden.sh ECHELON --update"; exit 1; }
flags=(-fopenmp-simd)
if [[ "$file" = *.cu ]]; then
  [ -n "${3:-}" ] || exit 0 # without CUDA's headers
  flags=(-isystem "$3" -x c++)
fi
"${CXX:-g++}" -std=c++17 -O1 -Wall -Wextra -Werror -I. "${flags[@]}" -c "$here/$file" -o "$work/$name.o"
