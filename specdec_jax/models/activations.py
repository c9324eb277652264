"""The activations of feed-forward layers by name: T5X's names, and GELU's exact form."""

import functools
from collections.abc import Callable

import jax
from flax import linen as nn

ACTIVATIONS: dict[str, Callable[[jax.Array], jax.Array]] = {
    'relu': nn.relu,
    'gelu': nn.gelu,  # the tanh approximation, T5 v1.1's and GPT-2's
    'gelu_exact': functools.partial(nn.gelu, approximate=False),
    'quick_gelu': lambda x: x * nn.sigmoid(1.702 * x),
    'silu': nn.silu,
    'swish': nn.silu,
    'sigmoid': nn.sigmoid,
    'tanh': nn.tanh,
    'relu2': lambda x: nn.relu(x) ** 2,
    'relu6': nn.relu6,
    'leaky_relu': nn.leaky_relu,
    'mish': lambda x: x * nn.tanh(nn.softplus(x)),
    'hard_swish': nn.hard_swish,
    'linear': lambda x: x,
}
