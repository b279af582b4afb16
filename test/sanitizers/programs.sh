#!/usr/bin/env bash
# Programs that the compiler wrote, under sanitizers: a few steps of each spec below, ranks as threads, with evaluations
# and snapshots, and some more from the newest of these. Two at a time, as compiling takes one core.
# usage: programs.sh ECHELON BUILD SANITIZERS      BUILD: a folder built with SANITIZERS; its runtime is linked
set -euo pipefail
if [ $# -eq 3 ]; then
  root=$(cd "$(dirname "$0")/../.." && pwd)
  work=$(mktemp -d)
  trap 'rm -rf "$work"' EXIT
  cp "$root"/test/specs/*.ech "$root"/examples/*.ech "$work"
  python3 "$root/test/specs/make_data.py" "$work/data"
  # Attention, convolutions, experts, gathers and scatters; layouts that divide samples, weights, positions, what is
  # stored, with padding and with micro batches.
  printf '%s\n' bottlenecks attending experts exits qlearning padded_translation sort_digits |
    xargs -P 2 -n 1 "$0" "$@" "$root" "$work"
  exit
fi

# One of them, NAME, in the folder WORK.
echelon=$1 build=$2 sanitizers=$3 root=$4 work=$5 name=$6
sed -i "s/^\( *evaluate .*every \)[0-9]* /\12 /; s/^  batch .*/&\n  checkpoint every 2 steps to \"saves.$name\"/" \
  "$work/$name.ech"
"$echelon" build "$work/$name.ech" --emit cpp -o "$work/$name.cpp"
/usr/lib/llvm-22/bin/clang++ -std=c++17 -O1 -march=native -fopenmp-simd -fno-omit-frame-pointer -g1 \
  -Wno-pass-failed -Wno-unknown-attributes -Wno-bitwise-conditional-parentheses \
  -fsanitize="$sanitizers" -B/usr/lib/llvm-22/bin -fuse-ld=lld -I"$root" "$work/$name.cpp" -o "$work/$name" \
  "$build/lib/libechelon_runtime.a" -lopenblas -ldnnl -lgomp -lz -ldeflate -lpthread -ldl
train() {
  local steps=$1
  shift
  "$work/$name" --folder "$work" --transport threads --deadline 120 --steps "$steps" "$@" >"$work/$name.said" 2>&1 &&
    grep -q "^step $steps/$steps " "$work/$name.said" || { cat "$work/$name.said"; exit 1; }
}
train 3
train 5 --resume
echo "== $name"
