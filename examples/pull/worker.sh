#!/bin/sh
# Takes tasks with curl and says how they ended: a worker in any shell that has curl.
#
# HQ_PULL_SOCKET names the socket (`eval "$(hq pull env)"`), the bag is the first argument. What a task is to do is here the
# length of its payload.
set -eu
bag=$1
say() { curl --silent --show-error --unix-socket "$HQ_PULL_SOCKET" --data "$2" "http://hq/v1/pull/$1?as=shell-$$"; }
# The text of a member whose value is a string without quotes in it.
text() { sed -n "s/.*\"$1\":\"\([^\"]*\)\".*/\1/p"; }

while :; do
    answer=$(say take "{\"bags\":[\"$bag\"],\"wait\":60}")
    case $answer in
    *'"state":"over"'*) exit 0 ;;
    *'"state":"wait"'*) continue ;;
    *'"error"'*) echo "$answer" >&2; exit 1 ;;
    esac
    id=$(echo "$answer" | text id)
    attempt=$(echo "$answer" | text attempt)
    payload=$(echo "$answer" | text payload)
    say complete "{\"tasks\":[{\"id\":\"$id\",\"attempt\":\"$attempt\",\"result\":\"${#payload}\"}]}" >/dev/null
done
