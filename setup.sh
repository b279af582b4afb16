#!/usr/bin/env bash
# Installs what is missing, builds what trains (build/bin/echelon and the runtime, no tests) and trains the first example.
set -euo pipefail
cd "$(dirname "$0")"
scripts/install-packages.sh
scripts/build.sh build -DECHELON_TESTS=OFF
build/bin/echelon run examples/mlp_fashion.ech
