#!/bin/sh
# merge_counts.sh COUNTS...: the sums of several tables that count_words.sh wrote.
set -eu
cat "$@" | awk '{ sum[$2] += $1 } END { for (word in sum) print sum[word], word }' | sort -k 2
