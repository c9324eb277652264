"""Python that documents show: whether the names and the keyword arguments in it exist, without running it."""

import ast
import inspect


def imports(source):
  """The names that a source's imports bind, but for IPython's."""
  lines = [node for node in ast.parse(source).body if isinstance(node, ast.Import | ast.ImportFrom)]
  namespace = {}
  for node in lines:
    if 'IPython' not in ast.unparse(node):
      exec(ast.unparse(node), namespace)
  return namespace


def unknown(source, namespace):
  """What a source uses and the imported modules and functions do not have."""
  found = []
  for node in ast.walk(ast.parse(source)):
    if isinstance(node, ast.Attribute | ast.Name):
      try:
        value = eval(ast.unparse(node), dict(namespace))
      except AttributeError:
        found.append(ast.unparse(node))
      except NameError:
        pass  # a variable of its own
    if isinstance(node, ast.Call) and ast.unparse(node.func).startswith(('sd.', *namespace)):
      try:
        value = eval(ast.unparse(node.func), dict(namespace))
        parameters = inspect.signature(value).parameters
      except (AttributeError, NameError, TypeError, ValueError):
        continue
      if not any(p.kind is p.VAR_KEYWORD for p in parameters.values()):
        found += [f'{ast.unparse(node.func)}({k.arg}=)' for k in node.keywords
                  if k.arg and k.arg not in parameters]
  return found
