#!/bin/sh
# Says what it is given, leaves a file, and fails.
echo mpirun "$@"
: >"$NAME" && echo it left a file
exit 9
