#!/bin/sh
# all.sh ECHELON: every hostile case, then every file that each command touches; the last two lines tell how many passed.
folder=$(dirname "$0")
python3 "$folder/hostile.py" "$1"
cases=$?
python3 "$folder/access.py" "$1" && [ $cases -eq 0 ]
