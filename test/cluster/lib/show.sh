#!/bin/sh
# In the workload image: prints what the container sees, one thing a line, and waits; `show once` ends instead.
env | sort | sed 's/^/env /'
for path in $(find /dev -type c -o -type b | sort); do
  echo "device $path $(stat -c '%F %t:%T' "$path")"
done
awk '{ print "mount", $5, $6 }' /proc/self/mountinfo
echo end
[ "$1" = once ] || exec wait-for-end
