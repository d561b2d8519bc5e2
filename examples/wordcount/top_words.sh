#!/bin/sh
# top_words.sh COUNTS N: the N most frequent words; of equally frequent ones the first.
set -eu
sort -k 1,1nr -k 2,2 "$1" | sed "$2q"
