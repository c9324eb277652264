#!/usr/bin/env bash
# From a fresh machine to a first result: environment, installation, the embedded English-German
# pair decoded plainly and speculatively, in float32; then, where this machine computes the target faster
# in bfloat16, 50 sentences with it in that. Further arguments go to both runs, such as
# --gin.SEED=1. PYTHON=... chooses the interpreter (3.11 to 3.13, the newest by default).
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
source scripts/environment.sh
make_environment quickstart .
run() {
  "$ENVIRONMENT/bin/python" -m specdec_jax.main --gin_file=configs/demo/quickstart.gin "$@"
}
run "$@"
if "$ENVIRONMENT/bin/python" -c "import sys, specdec_jax as sd
sys.exit(sd.load_model('embedded:ende/target', dtype='auto').config.dtype != 'bfloat16')"; then
  echo 'The same with the target in bfloat16:'
  run "$@" --gin.target/load_model.dtype="'bfloat16'" --gin.read_examples.limit=50 \
    --output_dir=output/quickstart_bfloat16
fi
