"""gs:// without a network, by an object store's rules: objects appear whole, nothing is appended or renamed."""

import io

from etils.epath import gpath


class ObjectStore:
  """In place of etils' backend for addresses.

  Attributes:
    objects: contents by address.
    history: what there was after each write and removal.
    refused: addresses that end in one of these cannot be written.
  """

  def __init__(self):
    self.objects: dict[str, bytes] = {}
    self.history: list[dict[str, bytes]] = []
    self.written: list[str] = []
    self.refused: tuple[str, ...] = ()

  def open(self, path, mode):
    path = str(path)
    if mode == 'rb':
      if path not in self.objects:
        raise FileNotFoundError(path)
      return io.BytesIO(self.objects[path])
    assert mode == 'wb', f'{mode}: an object is written whole'
    return _Upload(self, path)

  def put(self, path, data):
    if path.endswith(self.refused) and self.refused:
      raise PermissionError('403 storage.objects.create')
    self.objects[path] = data
    self.written.append(path)
    self.history.append(dict(self.objects))

  def exists(self, path):
    return str(path) in self.objects or self.isdir(path)

  def isdir(self, path):
    return any(name.startswith(str(path) + '/') for name in self.objects)

  def listdir(self, path):
    start = str(path) + '/'
    return sorted({name.removeprefix(start).split('/')[0] for name in self.objects if name.startswith(start)})

  def remove(self, path):
    if str(path) not in self.objects:
      raise FileNotFoundError(str(path))
    del self.objects[str(path)]
    self.history.append(dict(self.objects))

  def __getattr__(self, name):
    raise NotImplementedError(f'an object store has no {name}')


class _Upload(io.BytesIO):

  def __init__(self, store, path):
    super().__init__()
    self._store, self._path = store, path

  def close(self):
    if not self.closed:
      self._store.put(self._path, self.getvalue())
    super().close()


def replace(monkeypatch) -> ObjectStore:
  """Puts a store in the place of all that addresses name."""
  store = ObjectStore()
  local = gpath._GPath._backend.fget
  monkeypatch.setattr(gpath._GPath, '_backend', property(lambda path: store if path._uri_scheme else local(path)))
  return store
