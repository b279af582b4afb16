#!/bin/sh
# A host compiler whose disk is full.
echo "ld: final link failed: No space left on device" >&2
exit 1
