"""Records of texts: the lines of a .jsonl file, or of a .tsv file with a header, as field -> text."""

import os
from collections.abc import Iterator

from specdec_jax import paths
from specdec_jax.data.lines import BadLine, Faults, check_text, decoded, json_object, kind_of, raw_lines


def read_records(path: str | os.PathLike) -> Iterator[dict[str, str]]:
  """Goes through the records; each has the fields of the first.

  Raises:
    MissingError, InputError: it cannot be read, or a line is bad, which is named.
  """
  path = paths.resolve(path)
  kind, faults = kind_of(path, ('.tsv', '.jsonl')), Faults(path)
  fields: list[str] = []
  for number, line in raw_lines(path):
    try:
      text = decoded(line)
      if kind == '.tsv' and not fields:
        fields = text.split('\t')
        continue
      record = json_object(text) if kind == '.jsonl' else dict(zip(fields, text.split('\t')))
      fields = fields or list(record)
      for field in fields:
        if not isinstance(record.get(field), str):
          raise BadLine(f'no text in field {field!r}')
        check_text(f'field {field!r}', record[field])
    except BadLine as e:
      faults.add(number, e)
      faults.check()
    yield {field: record[field] for field in fields}
