#!/usr/bin/env bash
# Fuzzes with libFuzzer under AddressSanitizer and UndefinedBehaviorSanitizer:
#   test/fuzz/run.sh [TARGET…] [--seconds N]
# Targets: check, parse (specs); safetensors, manifest, npy, idx, cifar, csv, tokens (what the runtime reads). Unless told,
# all of them: check for 4 hours of one core, each other for one; N are seconds of a core, too, however busy the machine
# is. Builds into build-fuzz (JOBS=N: N compilers at once). New inputs go to build-fuzz/corpus/TARGET, findings to
# build-fuzz/findings/TARGET; printed are, for each target, the inputs executed, the time of a core, the coverage and the
# findings there, earlier ones too. Exit code 1: there are some, or a target did not run. To keep a finding:
#   test/fuzz/corpus.sh keep TARGET FILE
# To keep what covers most with the fewest inputs:
#   mkdir merged && build-fuzz/bin/fuzz_TARGET -merge=1 merged build-fuzz/seeds/TARGET build-fuzz/corpus/TARGET
#   test/fuzz/corpus.sh replace TARGET merged
set -euo pipefail
cd "$(dirname "$0")/../.."

targets=() seconds=
while [ $# -gt 0 ]; do
  case "$1" in
  --seconds) seconds=${2:?--seconds takes a number}; shift ;;
  -*) sed -n '2,12s/^# //p' "$0"; exit 2 ;;
  *) targets+=("$1") ;;
  esac
  shift
done
[ ${#targets[@]} -gt 0 ] || targets=(check parse safetensors manifest npy idx cifar csv tokens)

folder=build-fuzz
clang=/usr/lib/llvm-22/bin
cmake -S . -B $folder -G Ninja -DECHELON_SANITIZE=fuzzer-no-link,address,undefined -DCMAKE_C_COMPILER=$clang/clang \
  -DCMAKE_CXX_COMPILER=$clang/clang++ -DECHELON_RUNTIME_FLAGS="-O1;-Wno-pass-failed" >/dev/null
ninja -C $folder ${JOBS:+-j "$JOBS"} "${targets[@]/#/fuzz_}"

test/fuzz/corpus.sh unpack $folder/seeds
# LLVM's libraries, which are not instrumented, hand out memory that instrumented code of their headers has poisoned.
export ASAN_OPTIONS=detect_stack_use_after_return=0:allow_user_poisoning=0
export UBSAN_OPTIONS=halt_on_error=1:print_stacktrace=1
memory=/dev/shm
[ -w $memory ] || memory=/tmp
TMPDIR=$(mktemp -d $memory/echelon-fuzz.XXXXXX)
export TMPDIR
trap 'rm -rf "$TMPDIR"' EXIT
# The words and signs of the language, for mutations of bytes.
grep -oE "'[^' ]+'" grammar/EchelonLexer.g4 | sort -u | sed -e 's/["\\]/\\&/g' -e "s/^'\(.*\)'\$/\"\1\"/" >"$TMPDIR/words"
ulimit -s 65536 || true # frames are several times larger than in the compiler that is shipped

TIMEFORMAT='%0U + %0S' # seconds of a core
found=0
for target in "${targets[@]}"; do
  corpus=$target length=16384 hours=1 words=()
  case $target in
  parse) corpus=check words=(-dict="$TMPDIR/words") ;;
  check) length=4096 hours=4 words=(-dict="$TMPDIR/words") ;;
  esac
  grown=$folder/corpus/$target findings=$folder/findings/$target
  mkdir -p "$grown" "$findings"
  log=$folder/fuzz-$target.log
  rm -f "$log"
  # After a finding the rest of the time is spent on others. An input has a minute: the instrumented compiler takes ten
  # times as long as the one that is shipped, and the machine may be busy.
  all=${seconds:-$((hours * 3600))} spent=0
  until [ "$spent" -ge "$all" ]; do
    { time $folder/bin/fuzz_"$target" -max_total_time=$((all - spent)) -max_len=$length -timeout=60 \
      -rss_limit_mb=2048 -artifact_prefix="$findings/" -print_final_stats=1 "${words[@]}" \
      "$grown" $folder/seeds/$corpus >>"$log" 2>&1 || true; } 2>"$TMPDIR/time"
    spent=$((spent + $(tail -n 1 "$TMPDIR/time") + 1)) # the last line; before it, who was killed
  done
  executed=$(awk '/^stat::number_of_executed_units:/ { n += $2 } END { print n + 0 }' "$log")
  coverage=$(sed -n 's/.* cov: \([0-9]*\).*/\1/p' "$log" | tail -1)
  count=$(find "$findings" -type f | wc -l)
  found=$((found + count))
  echo "$target: $executed inputs in $spent s of a core, $coverage edges, $count findings"
  if [ "$executed" -eq 0 ]; then
    echo "$target: nothing ran; see $log"
    found=$((found + 1))
  fi
done
[ $found -eq 0 ]
