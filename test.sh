#!/usr/bin/env bash
# Installs what is missing, builds Echelon and runs all its tests.
set -euo pipefail
cd "$(dirname "$0")"
scripts/install-packages.sh
scripts/build.sh
echo "== tests"
CXXFLAGS="-Wall -Wextra -Werror" ctest --test-dir build --output-on-failure # generated programs have no warnings
echo "== sanitizers"
scripts/sanitize.sh address
scripts/sanitize.sh thread
