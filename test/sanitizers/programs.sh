#!/usr/bin/env bash
# Programs that the compiler wrote, under sanitizers: a few steps of each spec below, ranks as threads, with evaluations
# and snapshots, and some more from the newest of these.
# usage: programs.sh ECHELON BUILD SANITIZERS      BUILD: a folder built with SANITIZERS; its runtime is linked
set -euo pipefail
echelon=$1 build=$2 sanitizers=$3
root=$(cd "$(dirname "$0")/../.." && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cp "$root"/test/specs/*.ech "$root"/examples/*.ech "$work"
python3 "$root/test/specs/make_data.py" "$work/data"

# Attention, convolutions, experts, gathers and scatters; layouts that divide samples, weights, positions, what is
# stored, with padding and with micro batches.
specs=(attending bottlenecks experts exits qlearning padded_translation sort_digits)
compile() {
  "$echelon" build "$work/$1.ech" --emit cpp -o "$work/$1.cpp"
  /usr/lib/llvm-22/bin/clang++ -std=c++17 -O1 -march=native -fopenmp-simd -fno-omit-frame-pointer -g1 \
    -Wno-pass-failed -Wno-unknown-attributes -Wno-bitwise-conditional-parentheses \
    -fsanitize="$sanitizers" -B/usr/lib/llvm-22/bin -fuse-ld=lld -I"$root" "$work/$1.cpp" -o "$work/$1" \
    "$build/lib/libechelon_runtime.a" -lopenblas -ldnnl -lgomp -lz -ldeflate -lpthread -ldl
}
status=0
train() {
  local steps=$1
  shift
  "$work/$name" --folder "$work" --transport threads --steps "$steps" "$@" >"$work/said" 2>&1 &&
    grep -q "^step $steps/$steps " "$work/said" || { cat "$work/said"; status=1; }
}
for name in "${specs[@]}"; do
  echo "== $name"
  sed -i "s/^\( *evaluate .*every \)[0-9]* /\12 /; s/^  batch .*/&\n  checkpoint every 2 steps to \"saves.$name\"/" \
    "$work/$name.ech"
  compile "$name"
  train 3
  train 5 --resume
done
exit $status
