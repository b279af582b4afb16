#!/usr/bin/env bash
# Installs what is missing, builds Echelon (build/bin/echelon) and trains the first example.
set -euo pipefail
cd "$(dirname "$0")"
scripts/install-packages.sh
scripts/build.sh
build/bin/echelon run examples/mlp_fashion.ech
