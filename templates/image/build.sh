#!/usr/bin/env bash
# Makes a container image of dra-driver with its backends, without Docker and without root: an OCI archive.
#   templates/image/build.sh (--build-dir DIR | --install-tree DIR) [--output FILE.tar] [--name NAME:TAG]...
#                            [--backend dra-backend-NAME.so]... [--source URL]
# --build-dir     a build of this repository (preset release); it is installed to a temporary place
# --install-tree  what `cmake --install` made of one: DIR/bin/dra-driver, DIR/lib/dra/backends
# --output        default dra-driver.tar
# --name          default localhost/dra-sdk/dra-driver:<version>; several names for one image may be given
# --backend       a vendor's library, copied in with the shared libraries that it needs
# --source        where the sources are, for the label org.opencontainers.image.source
# SOURCE_DATE_EPOCH is the time of every file in it; default: that of the last commit.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)

build= tree= output=dra-driver.tar names=() staging=() labels=()
while [ $# -gt 0 ]; do
  case $1 in --build-dir|--install-tree|--output|--name|--backend|--source)
    [ $# -ge 2 ] || { echo "$1 needs a value" >&2; exit 2; } ;; esac
  case $1 in
    --build-dir) build=$2 ;;
    --install-tree) tree=$2 ;;
    --output) output=$2 ;;
    --name) names+=(--name "$2") ;;
    --backend) staging+=(--backend "$2") ;;
    --source) labels+=(--label "org.opencontainers.image.source=$2") ;;
    *) sed -n '2,11s/^# \{0,1\}//p' "$0" >&2; exit 2 ;;
  esac
  shift 2
done
if [ -n "$build" ] && [ -n "$tree" ] || [ -z "$build$tree" ]; then
  echo "give one of --build-dir and --install-tree" >&2
  exit 2
fi
epoch=${SOURCE_DATE_EPOCH:-$(git -C "$here" log -1 --format=%ct 2>/dev/null || true)}
[ -n "$epoch" ] || { echo "this is no git checkout: set SOURCE_DATE_EPOCH" >&2; exit 2; }

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
if [ -n "$build" ]; then
  tree=$work/tree
  cmake --install "$build" --prefix "$tree" --component Runtime >/dev/null
fi
version=$("$tree/bin/dra-driver" --version)
version=${version##* }
[ ${#names[@]} -gt 0 ] || names=(--name "localhost/dra-sdk/dra-driver:$version")

python3 -B "$here/rootfs.py" --output "$work/rootfs" --install-tree "$tree" "${staging[@]}"
python3 -B "$here/oci_archive.py" --output "$output" "${names[@]}" --epoch "$epoch" \
  --architecture "$(dpkg --print-architecture)" --entrypoint /usr/local/bin/dra-driver \
  --layer "$work/rootfs/debian" --layer "$work/rootfs/dra" "${labels[@]}" \
  --label org.opencontainers.image.title=dra-driver --label "org.opencontainers.image.version=$version" \
  --label org.opencontainers.image.licenses=Apache-2.0
