#!/usr/bin/env bash
# Tests of templates/chart without a cluster: helm lint, and what helm renders or refuses for Kubernetes 1.34 to 1.37.
#   test/chart/run.sh [unittest arguments, such as pod_test.Probes]
# Builds helm on its first run, into the cache of test/cluster.
set -euo pipefail
cd "$(dirname "$0")"
python3 -c 'import yaml' 2> /dev/null || ../../sdk/cmake/install-packages.sh python3-yaml
HELM=${HELM:-$(../cluster/lib/helm.sh)}
export HELM
export PYTHONDONTWRITEBYTECODE=1
if [ $# -gt 0 ]; then exec python3 -m unittest "$@"; fi
exec python3 -m unittest discover --start-directory . --pattern '*_test.py'
