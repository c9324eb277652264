#!/usr/bin/env bash
# From a fresh machine to a first result: environment, installation, the embedded English-German
# pair decoded plainly and speculatively. Further arguments go to the run, such as
# --gin.SEED=1. PYTHON=... chooses the interpreter (3.11 to 3.13, the newest by default).
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
source scripts/environment.sh
make_environment quickstart .
exec "$ENVIRONMENT/bin/python" -m specdec_jax.main --gin_file=configs/demo/quickstart.gin "$@"
