import pytest

from specdec_jax.data import ids as ids_lib
from specdec_jax.data.ids import Ids
from specdec_jax.errors import InputError

MANY = [0, '0', 'größe', 2**70, -5, '\ud800', '']


def test_places():
  ids = Ids.of(MANY)
  assert len(ids) == len(MANY)
  for place, example_id in enumerate(MANY):
    assert ids.is_at(place, example_id) and ids.place(example_id) == place == ids.place(example_id, place)
    assert not ids.is_at(place + 1, example_id) and not ids.is_at(-1, MANY[-1])
  for unknown in ('1', 1, None, [0], 0.5):
    assert ids.place(unknown) is None and not ids.is_at(0, unknown)
  assert not ids.is_at('0', 0) and not ids.is_at(None, 0)
  assert len(Ids.of([])) == 0 and Ids.of([]).place(1) is None


def test_the_same_id_twice():
  Ids.of(MANY).check(MANY)
  with pytest.raises(InputError, match=r"Two examples have the id 'größe'"):
    Ids.of([*MANY, 'größe']).check([*MANY, 'größe'])


def test_ids_of_one_checksum_are_refused_and_named(monkeypatch):
  monkeypatch.setattr(ids_lib, 'number', lambda example_id: 7)
  with pytest.raises(InputError, match=r"The ids 'a', 'b' have one checksum"):
    Ids.of(['a', 'b']).check(['a', 'b'])
