#!/usr/bin/env bash
# Installs what is missing, builds Echelon and runs all its tests.
set -euo pipefail
cd "$(dirname "$0")"
scripts/install-packages.sh --for-tests
scripts/install-cuda.sh
scripts/build.sh build -DECHELON_TESTS=ON
echo "== tests"
ctest --test-dir build -j 2 --output-on-failure
echo "== sanitizers"
scripts/sanitize.sh address
scripts/sanitize.sh thread
