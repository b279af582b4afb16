#!/usr/bin/env bash
# readme-spec.sh ECHELON README: the first block of the README checks, and says the model of the first example.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
awk '/^```/ { n++; next } n == 1' "$2" > "$folder/readme.ech"
"$1" check "$folder/readme.ech"
emitted() { "$1" build "$2" --emit ech | sed -n '/ech.step @train/,$p'; }
diff <(emitted "$1" "$folder/readme.ech") <(emitted "$1" "$(dirname "$2")/examples/mlp_fashion.ech")
