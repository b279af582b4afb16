#!/usr/bin/env bash
# Installs the Debian packages that Echelon needs and that are not there yet: to build and train, with --for-tests to test,
# too. Needs root (or sudo) only when one is missing.
set -euo pipefail

packages=(
  build-essential cmake ninja-build ccache git        # to build
  libmlir-22-dev mlir-22-tools llvm-22-dev lld-22
  antlr4 libantlr4-runtime-dev                        # the front end
  libcli11-dev nlohmann-json3-dev zlib1g-dev libdeflate-dev # command line, JSON, packed data
  libopenblas-pthread-dev libdnnl-dev                 # matrix products, convolutions
  libopenmpi-dev openmpi-bin                          # the mpi transport
  dataset-fashion-mnist fortunes                      # data of the examples
)
if [ "${1:-}" = --for-tests ]; then
  packages+=(
    libgtest-dev python3 python3-venv strace llvm-22-tools         # lit is a Python program
    clang-22 libclang-rt-22-dev                       # the sanitizers
    clang-format-22
  )
fi

missing=()
for package in "${packages[@]}"; do
  dpkg-query -W -f='${Status}' "$package" 2>/dev/null | grep -q 'ok installed' || missing+=("$package")
done
[ ${#missing[@]} -eq 0 ] && exit 0

echo "installing: ${missing[*]}"
as_root=()
[ "$(id -u)" -eq 0 ] || as_root=(sudo)
"${as_root[@]}" apt-get update -qq
DEBIAN_FRONTEND=noninteractive "${as_root[@]}" apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
