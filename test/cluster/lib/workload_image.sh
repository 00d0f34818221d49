#!/usr/bin/env bash
# Writes the image that the pods of a cluster run, as an archive that containerd imports: Debian's static busybox and
# bash, under the names that manifests want. Without a command it waits until it is told to end; it is the sandbox's too.
#   workload_image.sh OUTPUT
set -euo pipefail
templates=$(cd "$(dirname "$0")/../../../templates/image" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
root=$work/workload
bin=$root/usr/local/bin # the PATH that oci_archive.py gives to an image
mkdir -p "$bin" "$root"/{dev,etc,proc,sys,tmp,var}
ln -s usr/local/bin "$root/bin"
ln -s local/bin "$root/usr/bin"
cp /bin/busybox "$bin/busybox"
cp /bin/bash-static "$bin/bash"
for applet in $("$bin/busybox" --list); do [ -e "$bin/$applet" ] || ln -s busybox "$bin/$applet"; done
cat > "$bin/wait-for-end" <<'S'
#!/bin/bash
trap 'exit 0' TERM INT
while :; do sleep 3600 & wait $!; done
S
cp "$(dirname "$0")/show.sh" "$bin/show"
chmod 755 "$bin/wait-for-end" "$bin/show"
"$templates/oci_archive.py" --output "$1" --layer "$root" --entrypoint /bin/wait-for-end --epoch 0 \
  --architecture "$(dpkg --print-architecture)" --name docker.io/local/workload:1 --name docker.io/library/busybox:1 \
  --name docker.io/library/ubuntu:22.04 > /dev/null
