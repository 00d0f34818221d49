#!/usr/bin/env bash
# Writes an image with glibc and no more, as an archive that containerd imports: the libraries of Debian's libc6, a loader's
# cache of them, and the program of probe.c. There is no shell and no ldconfig in it, as in images without a distribution.
#   glibc_image.sh OUTPUT
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
architecture=$(dpkg --print-architecture)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
root=$work/glibc
mkdir -p "$root"/{dev,etc,proc,sys,tmp,var} "$root"/usr/{bin,lib,lib64,local/bin}
ln -s usr/bin usr/lib usr/lib64 "$root"
# The package's files below /lib are those below /usr/lib.
dpkg -L "libc6:$architecture" | grep -E '^(/usr)?/lib(64)?/([^/]+/)?[^/]+\.so(\.[0-9]+)*$' | while read -r file; do
  cp -d --parents "$file" "$root"
done
cp --parents /etc/ld.so.conf "/etc/ld.so.conf.d/$(uname -m)-linux-gnu.conf" "$root"
"${CC:-cc}" -O1 -Wall -Wextra -Werror -o "$root/usr/local/bin/probe" "$here/probe.c"
/sbin/ldconfig -r "$root"
"$here/../../../templates/image/oci_archive.py" --output "$1" --layer "$root" --entrypoint /usr/local/bin/probe --epoch 0 \
  --architecture "$architecture" --name docker.io/local/glibc:1 > /dev/null
