#!/usr/bin/env bash
# Makes the image of templates/image from a build and looks into it.
#   test/image/run.sh BUILD-DIR [unittest arguments]
set -euo pipefail
[ $# -ge 1 ] || { sed -n '2,3s/^# \{0,1\}//p' "$0" >&2; exit 2; }
DRA_BUILD_DIR=$(cd "$1" && pwd)
export DRA_BUILD_DIR
shift
exec python3 -B -m unittest discover --start-directory "$(dirname "$0")" --pattern '*_test.py' "$@"
