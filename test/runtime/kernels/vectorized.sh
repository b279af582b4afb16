#!/bin/sh
# Every loop of Vectorized.cpp must become vector code: vectorized.sh SOURCE COMPILER FLAGS...
source=$1
shift
report=$("$@" -std=c++17 -fopt-info-vec-optimized -S -o /dev/null "$source" 2>&1) || { echo "$report"; exit 1; }
status=0
loops=$(grep -n '// LOOP' "$source") || { echo "no loop in $source"; exit 1; }
for line in $(echo "$loops" | cut -d: -f1); do
  if ! echo "$report" | grep -q "Vectorized.cpp:$line:[0-9]*: optimized: loop vectorized"; then
    echo "not vectorised: $(sed -n "${line}p" "$source")"
    status=1
  fi
done
exit $status
