#!/usr/bin/env bash
# Installs what `--target cuda` and `--target cuda-host` are built with, where it is not found: NVIDIA's packages of PyPI, of
# exact versions, put together as a toolkit in $ECHELON_CUDA (~/.cache/echelon/cuda-13.0). All of it: 1.7 GB; cuDNN's frontend
# beside a toolkit that is there: 2 MB.
set -euo pipefail
toolkit=${ECHELON_CUDA:-${XDG_CACHE_HOME:-$HOME/.cache}/echelon/cuda-13.0}
nvcc=$(command -v nvcc || true)
has() { # a header
  [ -e "${nvcc:+${nvcc%/*}/../include/$1}" ] || [ -e "/usr/local/cuda/include/$1" ] || [ -e "$toolkit/include/$1" ]
}
packages=()
[ -n "$nvcc" ] || [ -x /usr/local/cuda/bin/nvcc ] || [ -x "$toolkit/bin/nvcc" ] ||
  packages+=(nvidia-cuda-nvcc==13.0.88 nvidia-cuda-crt==13.0.88 nvidia-nvvm==13.0.88 nvidia-cuda-runtime==13.0.96
    nvidia-cuda-cccl==13.0.85 nvidia-cublas==13.1.0.3 nvidia-nccl-cu13==2.28.9)
has cudnn.h || packages+=(nvidia-cudnn-cu13==9.19.0.56)
has nvtx3/nvToolsExt.h || packages+=(nvidia-nvtx==13.0.85)
has cudnn_frontend.h || packages+=(nvidia-cudnn-frontend==1.18.0)
[ ${#packages[@]} -gt 0 ] || exit 0
echo "installing in $toolkit: ${packages[*]}"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" download -q --no-deps -d "$work" "${packages[@]}"
for wheel in "$work"/*.whl; do
  python3 -m zipfile -e "$wheel" "$work/all"
done
mkdir -p "$toolkit"
for folder in "$work"/all/nvidia/{cu13,nccl,cudnn}; do
  if [ -d "$folder" ]; then cp -r "$folder/." "$toolkit/"; fi
done
if [ -d "$work/all/include" ]; then cp -r "$work/all/include" "$toolkit/"; fi # the frontend's
chmod +x "$toolkit"/bin/* "$toolkit"/nvvm/bin/* 2>/dev/null || true
if [ -d "$toolkit/lib" ]; then
  ln -sfn lib "$toolkit/lib64" # where nvcc looks
  for library in "$toolkit"/lib/lib*.so.*; do
    ln -sf "$(basename "$library")" "${library%%.so.*}.so"
  done
fi
