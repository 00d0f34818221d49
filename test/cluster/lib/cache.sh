# Sourced: where built programs are kept, and how to speak. Programs lie outside of the checkout, by version, so that a
# second run, also of another checkout, starts in seconds.
cache=${DRA_CLUSTER_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/dra-sdk/cluster}

say() { printf 'cluster: %s\n' "$*" >&2; }
