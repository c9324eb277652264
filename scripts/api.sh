#!/usr/bin/env bash
# From a fresh machine to the API reference, made of the docstrings: build/api/index.html, in seconds once the
# environment is there, which is the one of scripts/test.sh. PYTHON=... chooses the interpreter.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
source scripts/environment.sh
make_environment test '.[test]'
export JAX_PLATFORMS="${JAX_PLATFORMS:-cpu}"
"$ENVIRONMENT/bin/pdoc" --docformat=google --no-show-source --output-directory=build/api specdec_jax \
  specdec_jax.analysis.theory specdec_jax.errors
echo "The API reference is build/api/index.html."
