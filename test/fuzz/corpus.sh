#!/usr/bin/env bash
# The corpora of the fuzz targets, one archive each: test/fuzz/corpus/TARGET.tar.xz.
#   corpus.sh unpack FOLDER            all of them into FOLDER/TARGET
#   corpus.sh keep TARGET FILE…        adds inputs, findings for one
#   corpus.sh replace TARGET FOLDER    makes the files of FOLDER the corpus: what -merge=1 has left
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)/corpus

# Packs the files of a folder as TARGET; the same files make the same bytes. Files are called by their content.
pack() {
  local target=$1 folder=$2 file
  for file in "$folder"/*; do
    local name
    name=$(sha1sum "$file" | cut -d' ' -f1)
    [ "$(basename "$file")" = "$name" ] || mv -f "$file" "$folder/$name"
  done
  tar --sort=name --mtime=@0 --owner=0 --group=0 --numeric-owner --mode=644 -cf - -C "$folder" . |
    xz -9e --threads=1 >"$here/$target.tar.xz"
}

case ${1:-} in
unpack)
  for archive in "$here"/*.tar.xz; do
    target=$(basename "$archive" .tar.xz)
    mkdir -p "$2/$target"
    tar -xJf "$archive" -C "$2/$target"
  done
  ;;
keep | replace)
  command=$1 target=$2
  shift 2
  work=$(mktemp -d)
  trap 'rm -rf "$work"' EXIT
  if [ "$command" = keep ]; then
    tar -xJf "$here/$target.tar.xz" -C "$work"
    cp "$@" "$work"
  else
    find "$1" -maxdepth 1 -type f -exec cp -t "$work" {} +
  fi
  pack "$target" "$work"
  ;;
*)
  sed -n '2,5s/^# \{0,1\}//p' "$0"
  exit 2
  ;;
esac
