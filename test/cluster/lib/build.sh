# Sourced: builds programs of the Go modules of test/cluster into the cache.
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
modules=$(dirname "$here")
. "$here/cache.sh"

version_of() { # MODULE FOLDER: what its go.mod requires
  awk -v module="$1" '$1 == "require" { $1 = ""; $0 = $0 } $1 == module && $2 ~ /^v/ { print $2; exit }' "$modules/$2/go.mod"
}

# One build at a time: two would only slow each other down, and may want the same programs.
lock_cache() {
  mkdir -p "$cache"
  exec 9> "$cache/lock"
  flock -n 9 || { say "waiting for another build into $cache ..."; flock 9; }
  rm -rf "$cache"/.build-* # of a build that was killed: whoever makes one holds the lock
}

# Builds `package`s of one module folder into a folder of the cache, which appears whole or not at all.
build() { # TARGET FOLDER LDFLAGS TAGS NAME=PACKAGE...
  local target=$1 folder=$2 ldflags=$3 tags=$4 log work go name package number=0
  shift 4
  [ ! -d "$target" ] || return 0
  lock_cache
  [ ! -d "$target" ] || return 0
  log=$target.log
  go=$("$here/go.sh")
  work=$(mktemp -d "$cache/.build-XXXXXX")
  for name_and_package in "$@"; do
    name=${name_and_package%%=*}
    package=${name_and_package#*=}
    number=$((number + 1))
    say "building $name of ${target##*/} ($number of $#; minutes the first time) ..."
    (cd "$modules/$folder" && GOFLAGS=-mod=readonly \
      "$go" build -buildvcs=false -ldflags "$ldflags" -tags "$tags" -o "$work/$name" "$package") > "$log" 2>&1 || {
      tail -20 "$log" >&2
      say "$name of ${target##*/} does not build; the whole output is in $log"
      rm -rf "$work"
      exit 1
    }
  done
  mv -T "$work" "$target"
  chmod 755 "$target"
  rm -f "$log"
  say "built ${target##*/} after $SECONDS s"
}
