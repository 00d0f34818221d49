#!/usr/bin/env bash
# Packs what nvidia.sh needs of a build tree, with the shared libraries that it needs from this machine, into a folder:
# for a machine with a GPU where nothing can be installed or built. It runs where libc is this machine's or newer.
#   test/hardware/pack.sh BUILD FOLDER       then, there: DRA_BUILD_DIR=FOLDER test/hardware/nvidia.sh
# BUILD has dra-driver, dra-sandbox, dra-backend-conformance and the NVIDIA backend (target nvidia): a Release build
# with DRA_BUILD_TESTS=ON, as nvidia.sh makes one, is about 45 MiB.
set -euo pipefail
build=$(realpath "${1:?a build tree}")
folder=${2:?the folder to make}
mkdir -p "$folder/lib"
folder=$(realpath "$folder")
for file in sdk/programs/dra-driver/dra-driver sdk/programs/dra-sandbox/dra-sandbox \
  test/conformance/dra-backend-conformance backends/nvidia/dra-backend-nvidia.so; do
  mkdir -p "$folder/$(dirname "$file")"
  strip -o "$folder/$file" "$build/$file"
  # The C library and the loader are that machine's.
  ldd "$build/$file" | awk '$3 ~ /^\// && $1 !~ /^lib(c|m|dl|rt|pthread|resolv)\.so/ { print $3 }' |
    xargs -r cp -Lt "$folder/lib"
done
du -sh "$folder"
