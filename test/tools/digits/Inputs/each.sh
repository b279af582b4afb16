#!/bin/sh
# each.sh NAME "SPECS" "CASES" DIR: of each spec in DIR and each case of the data that NAME.py makes, one step on one
# rank and on all, each checked by NAME.py. A program is built once.
set -e
inputs=$(dirname "$0")
name=$1 specs=$2 cases=$3 dir=$4
for case in $cases; do
  python3 "$inputs/$name.py" data "$dir" "$case"
  for spec in $specs; do
    for ranks in "--ranks 1" ""; do
      rm -rf "$dir/dump" "$dir/log.jsonl"
      echelon run "$dir/$spec.ech" $ranks --dump "$dir/dump" --dump-state --log "$dir/log.jsonl" >"$dir/out.txt" 2>&1 ||
        { cat "$dir/out.txt"; exit 1; }
      result=$(python3 "$inputs/$name.py" check "$dir" "$case" "$dir/log.jsonl" "$dir/dump/step-000001/after")
      echo "$result"
      [ "$result" = equal ] || echo "$spec $case $ranks"
    done
  done
done
