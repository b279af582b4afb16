#!/usr/bin/env bash
# Holds a printed program against the one that is kept here, byte for byte, and compiles it without a warning.
# usage: golden.sh ECHELON NAME        NAME: of programs.txt
#        golden.sh ECHELON --update    writes all programs anew: read the difference before it is committed
set -euo pipefail
echelon=$(realpath "$1") name=$2
cd "$(dirname "$0")/../.." # a program names its spec as the command line does
here=test/golden

# The program NAME, as the compiler prints it now, to standard output.
print() {
  local spec train
  IFS='|' read -r _ spec train < <(grep "^$1 *|" "$here/programs.txt" | tr -d ' ')
  "$echelon" build "$spec" --train "$train" --emit cpp
}

if [ "$name" = --update ]; then
  for each in $(grep -v '^#' "$here/programs.txt" | cut -d' ' -f1); do
    print "$each" >"$here/$each.cpp"
  done
  exit
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
print "$name" >"$work/$name.cpp"
diff -u "$here/$name.cpp" "$work/$name.cpp" ||
  { echo "the program $name is no longer what test/golden/$name.cpp says; if that is meant: golden.sh ECHELON --update"; exit 1; }
"${CXX:-g++}" -std=c++17 -O1 -fopenmp-simd -Wall -Wextra -Werror -I. -c "$here/$name.cpp" -o "$work/$name.o"
