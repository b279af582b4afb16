#!/usr/bin/env bash
# Builds under a sanitizer, in a folder of its own, and runs the tests that it is for:
#   scripts/sanitize.sh address    AddressSanitizer and UndefinedBehaviorSanitizer: runtime, compiler, generated programs
#   scripts/sanitize.sh thread     ThreadSanitizer: runtime and generated programs with ranks as threads
# MLIR's libraries are not instrumented.
set -euo pipefail
cd "$(dirname "$0")/.."

runtime=(transport collectives launch kernels random data snapshot profile program ring sync)
case "${1:-}" in
address)
  sanitize=address,undefined
  compiler=build-address/bin/echelon
  targets=("${runtime[@]/%/_test}")
  targets=("${targets[@]/#/runtime_}" planner-test frontend-test elaborate-test echelon echelon-opt echelon-translate)
  fuzz=(safetensors manifest npy idx cifar csv tokens parse check) # their corpora
  targets+=("${fuzz[@]/#/fuzz_}")
  tests="^(runtime|planner|frontend|elaborate)-|^lit-(ir|passes|codegen|frontend)|^fuzz-($(IFS='|' && echo "${fuzz[*]}"))$"
  ;;
thread)
  sanitize=thread
  compiler=build/bin/echelon # of the ordinary build
  targets=(runtime_transport_test runtime_collectives_test runtime_snapshot_test runtime_program_test runtime_ring_test runtime_sync_test)
  tests='^runtime-(transport|collectives|snapshot|program|ring|sync)$'
  ;;
*)
  sed -n '2,5s/^# //p' "$0"
  exit 2
  ;;
esac

folder=build-$1
clang=/usr/lib/llvm-22/bin
cmake -S . -B "$folder" -G Ninja -DECHELON_SANITIZE="$sanitize" -DCMAKE_C_COMPILER="$clang/clang" \
  -DCMAKE_CXX_COMPILER="$clang/clang++" -DECHELON_RUNTIME_FLAGS="-O1;-march=native;-Wno-pass-failed" >/dev/null
ninja -C "$folder" ${JOBS:+-j "$JOBS"} "${targets[@]}"

# MPI and OpenBLAS keep what they allocate; LLVM's allocators mark memory in headers alone, which its libraries do not see.
export ASAN_OPTIONS=detect_leaks=0:allow_user_poisoning=0
export UBSAN_OPTIONS=halt_on_error=1:print_stacktrace=1
# A process whose rank fails ends without joining its threads.
export TSAN_OPTIONS=halt_on_error=1:report_thread_leaks=0:suppressions=$PWD/scripts/thread.suppressions
# Long messages of three ranks among threads alone, for ThreadSanitizer, which sees no race of processes.
skipped='*EqualTheSequentialResult/shm3Shared:*EqualTheSequentialResult/tcp3'
if [ "$1" = address ]; then
  skipped+=':*EqualTheSequentialResult/threads3'
else
  skipped+=':*/shm*'
fi
export GTEST_FILTER="-$skipped"
ctest --test-dir "$folder" -j 2 --output-on-failure -R "$tests" -E mpi
test/sanitizers/programs.sh $compiler "$folder" "$sanitize"
