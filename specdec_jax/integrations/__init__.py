from specdec_jax import lazy

lazy.show_modules(__name__)
