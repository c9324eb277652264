#!/usr/bin/env bash
# From a fresh machine to notebooks that ran: those of docs/colab, top to bottom, on the CPU, in minutes.
# Names choose some; --save keeps their new outputs. PYTHON=... chooses the interpreter (3.11 to
# 3.13, the newest by default).
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
source scripts/environment.sh
make_environment notebooks '.[notebooks,plan]'
export JAX_PLATFORMS="${JAX_PLATFORMS:-cpu}"
exec "$ENVIRONMENT/bin/python" scripts/run_notebooks.py "$@"
