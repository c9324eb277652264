#!/usr/bin/env bash
# From a fresh machine to ruff and mypy over the project: seconds once the environment is there,
# which is the one of scripts/test.sh. `--fix` lets ruff mend what it can. PYTHON=... chooses the
# interpreter (3.11 to 3.13, the newest by default).
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
source scripts/environment.sh
make_environment test '.[test]'
"$ENVIRONMENT/bin/ruff" check "$@" .
"$ENVIRONMENT/bin/mypy"
