#!/usr/bin/env bash
# From a fresh machine to passed tests: environment, installation, pytest on the CPU.
# Two processes share the tests; --numprocesses=0 is one. `--long` first runs the tests that
# take minutes or gigabytes instead; all other arguments go to pytest. PYTHON=... chooses the
# interpreter (3.11 to 3.13, the newest by default).
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
source scripts/environment.sh
make_environment test '.[test]'
if [[ "${1:-}" == --long ]]; then
  shift
  set -- -m long "$@"
fi
export JAX_PLATFORMS="${JAX_PLATFORMS:-cpu}"
exec "$ENVIRONMENT/bin/python" -m pytest --numprocesses=2 --dist=loadfile --no-loadscope-reorder "$@"
