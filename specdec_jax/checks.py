"""Checks of settings that several modules take."""


def whole(name: str, value, least: int, most: int | None = None, hint: str = '') -> int:
  """value as an int; ValueError unless it is a whole number from least to most."""
  if not float(value).is_integer() or value < least or (most is not None and value > most):
    bounds = f'of at least {least}' if most is None else f'from {least} to {most}'
    raise ValueError(f'{name} is {value}; it must be a whole number {bounds}{hint}.')
  return int(value)
