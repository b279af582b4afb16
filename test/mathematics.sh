#!/bin/sh
# What changes the mathematics (precision, sync policies, compression, ends and averages), whole: about three hours of one
# core. CI runs all of it in a reduced form.
#
#   test/mathematics.sh [BUILD] [MODELS]      build folder (build), random models (500)
#
#   1. every layout, policy and packing against one rank, in fp64; identities; sums with feedback; resumes; staleness and
#      times of drawn delays; refusals         test/tools/run, test/frontend/errors, test/passes, unit tests
#   2. precisions: layouts against one rank and fp64; curves against PyTorch    precision-*, curves-clause-*
#   3. random models x layouts x clauses       random_models --clauses
set -eu
build=${1:-build}
models=${2:-500}
lit=$(command -v lit || echo /usr/lib/llvm-22/bin/lit)
"$lit" "$build/test/tools" \
  --filter 'run/(sync|compress|powersgd|precision|loss-scale|lamb|average|until|on-nan|other-workers|not-finite)'
"$lit" "$build/test/passes" --filter 'ech-(sync|compress|choose-types|keep-products|expand-update)'
(cd "$build" && ctest --output-on-failure -R 'precision-|curves-clause|passes-cost|runtime-sync|frontend|mistakes')
for spec in examples/mlp_fashion.ech examples/gpt_fortunes.ech "$build/test/precision/bottlenecks.ech" \
  "$build/test/precision/padded_translation.ech"; do
  for precision in bf16 fp16; do
    rate=
    [ "${spec##*/}" = bottlenecks.ech ] && rate="--set optimize.lr=0.00001"
    # shellcheck disable=SC2086 # two words, or none
    "$build/bin/echelon" verify "$spec" --in-precision --set "precision=$precision" $rate --transport each
  done
done
"$build/bin/random_models" --clauses --models "$models" --compiled 5 --counts 1
