#!/usr/bin/env bash
# Installs what is missing, builds what trains (build/bin/echelon and the runtime, no tests) and trains the first example.
# With --cuda, what programs for GPUs are built with, too (--target cuda, --target cuda-host).
set -euo pipefail
cd "$(dirname "$0")"
scripts/install-packages.sh
if [ "${1:-}" = --cuda ]; then
  scripts/install-cuda.sh
fi
scripts/build.sh build -DECHELON_TESTS=OFF
build/bin/echelon run examples/mlp_fashion.ech
