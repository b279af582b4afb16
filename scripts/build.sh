#!/usr/bin/env bash
# Builds Echelon into build/ (or the folder given as first argument; further arguments go to CMake).
set -euo pipefail
cd "$(dirname "$0")/.."
folder=${1:-build}
shift || true
cmake -S . -B "$folder" -G Ninja -DECHELON_WERROR="${ECHELON_WERROR:-OFF}" "$@" >/dev/null
ninja -C "$folder" "${NINJA_TARGET:-all}"
