"""A logits processor that does nothing, but for failing in the process that FAILS_IN_PROCESS names."""

import os

import gin

from specdec_jax.parallel import hosts


@gin.configurable
def fails_in_process():
  def processor(logits, context):
    del context
    if os.environ['FAILS_IN_PROCESS'] == str(hosts.index()):
      raise RuntimeError('out of something')
    return logits

  return processor
