#!/bin/sh
# Says what it is given, leaves a file and a process, and fails.
echo mpirun "$@"
: >"$NAME" && echo it left a file
sleep 60 >/dev/null 2>&1 &
echo it left process $!
exit 9
