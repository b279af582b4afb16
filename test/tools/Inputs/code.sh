#!/bin/sh
# code.sh N COMMAND…: fine when the command ends with N.
wanted=$1
shift
"$@"
code=$?
[ $code -eq "$wanted" ] || { echo "ended with $code"; exit 1; }
