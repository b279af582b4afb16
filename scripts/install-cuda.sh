#!/usr/bin/env bash
# Installs what `--target cuda` and `--target cuda-host` are built with, where nvcc is not found: NVIDIA's packages of PyPI, of
# exact versions, put together as a toolkit in $ECHELON_CUDA (~/.cache/echelon/cuda-13.0). 1.7 GB.
set -euo pipefail
command -v nvcc >/dev/null || [ -x /usr/local/cuda/bin/nvcc ] && exit 0
toolkit=${ECHELON_CUDA:-${XDG_CACHE_HOME:-$HOME/.cache}/echelon/cuda-13.0}
[ -x "$toolkit/bin/nvcc" ] && exit 0
echo "installing: CUDA 13.0 in $toolkit"
packages=(nvidia-cuda-nvcc==13.0.88 nvidia-cuda-crt==13.0.88 nvidia-nvvm==13.0.88 nvidia-cuda-runtime==13.0.96
  nvidia-cuda-cccl==13.0.85 nvidia-cublas==13.1.0.3 nvidia-nccl-cu13==2.28.9)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" download -q --no-deps -d "$work" "${packages[@]}"
for wheel in "$work"/*.whl; do
  python3 -m zipfile -e "$wheel" "$work/all"
done
mkdir -p "$toolkit"
cp -r "$work/all/nvidia/cu13/." "$work/all/nvidia/nccl/." "$toolkit/"
chmod +x "$toolkit"/bin/* "$toolkit"/nvvm/bin/* 2>/dev/null || true
ln -sfn lib "$toolkit/lib64" # where nvcc looks
for library in "$toolkit"/lib/lib*.so.*; do
  ln -sf "$(basename "$library")" "${library%%.so.*}.so"
done
