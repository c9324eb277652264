"""Walks a traced program (jaxpr): its equations, and its one loop."""


def inner(equation):
  """The programs inside an equation."""
  for value in equation.params.values():
    for item in value if isinstance(value, (list, tuple)) else [value]:
      if hasattr(item, 'eqns') or hasattr(item, 'jaxpr'):
        yield getattr(item, 'jaxpr', item)


def equations(jaxpr):
  for equation in jaxpr.eqns:
    yield equation
    for program in inner(equation):
      yield from equations(program)


def only_loop(jaxpr):
  loop, = [e for e in jaxpr.eqns if e.primitive.name == 'while']
  return loop
