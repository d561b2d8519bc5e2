#!/bin/sh
# count_words.sh TEXT: how often each word occurs, as "COUNT WORD" in the order of the words.
set -eu
tr -cs 'A-Za-z' '\n' <"$1" | tr 'A-Z' 'a-z' | sed '/^$/d' | sort | uniq -c | awk '{ print $1, $2 }'
