#!/usr/bin/env bash
# Installs what is missing, builds Echelon and runs all its tests; then those of ranks as threads and of memory under
# sanitizers.
set -euo pipefail
cd "$(dirname "$0")"
scripts/install-packages.sh
scripts/build.sh
echo "== tests"
ctest --test-dir build --output-on-failure
echo "== runtime under the address and undefined-behaviour sanitizers"
NINJA_TARGET=runtime_tests scripts/build.sh build/asan -DECHELON_SANITIZE=address,undefined
ctest --test-dir build/asan --output-on-failure -L sanitize
echo "== ranks as threads under the thread sanitizer"
NINJA_TARGET=runtime_tests scripts/build.sh build/tsan -DECHELON_SANITIZE=thread
ctest --test-dir build/tsan --output-on-failure -L threads
