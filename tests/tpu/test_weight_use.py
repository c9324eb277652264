"""What the audit sees in a program's text: reads, prefetches, copies and loops."""

import pytest

from specdec_jax.tpu.weight_use import audit

NAMES = ("target.params['a']['kernel']", "target.params['b']['kernel']",
         "drafter.draft.params['c']['kernel']", "target.params['embedding']")
TYPE = 'bf16[8,16]{1,0:T(8,128)(2,1)}'
TABLE = 'bf16[64,8]{1,0:T(8,128)(2,1)}'
CACHE = 'bf16[1,2,9,4]{3,2,1,0}'

FUSED = '''
%multiply (x: bf16[1,8], w: bf16[8,16]) -> bf16[1,16] {
  %x = bf16[1,8]{1,0} parameter(0)
  %w = bf16[8,16]{1,0} parameter(1)
  ROOT %y = bf16[1,16]{1,0} convolution(%x, %w), dim_labels=bf_io->bf
}

%look_up (t: bf16[64,8], i: s32[1]) -> bf16[1,8] {
  %t = bf16[64,8]{1,0} parameter(0)
  %i = s32[1]{0} parameter(1)
  ROOT %r = bf16[1,8]{1,0} gather(%t, %i), offset_dims={1}
}

%turn (w.1: bf16[8,16]) -> bf16[16,8] {
  %w.1 = bf16[8,16]{1,0} parameter(0)
  ROOT %t.1 = bf16[16,8]{1,0} transpose(%w.1), dimensions={1,0}
}

%on_sparse_core () -> bf16[1,8] {
  %given = bf16[1,8]{1,0} get-tuple-element(%outside), index=0
  ROOT %summed = bf16[1,8]{1,0} all-reduce(%given), to_apply=%add
}
'''


def product(name, weight, x='%x0'):
  return f'%{name} = bf16[1,16]{{1,0}} fusion({x}, %{weight}), kind=kOutput, calls=%multiply'


def program(before=(), body=(), inner=()):
  """A program whose loop carries four weights, a row and a cache; `inner` is a loop inside it."""
  types = f'{TYPE}, {TYPE}, {TYPE}, {TABLE}, bf16[1,8]{{1,0}}, {CACHE}'
  elements = '\n'.join(f'  %{n} = {t} get-tuple-element(%p), index={i}' for i, (n, t) in enumerate(
      zip(('a', 'b', 'c', 'e', 'x0', 'cache'), (TYPE, TYPE, TYPE, TABLE, 'bf16[1,8]{1,0}', CACHE))))
  given = '\n'.join(f'  %w{i} = {TABLE if i == 3 else TYPE} parameter({i}), metadata={{op_name="{name}"}}'
                    for i, name in enumerate(NAMES))
  lines = lambda added: '\n'.join('  ' + line for line in added)
  nested = f'%q = ({types}) while(%p), condition=%test, body=%inner' if inner else ''
  return f'''HloModule jit_decode_loop, is_scheduled=true
{FUSED}
%inner (p: ({types})) -> ({types}) {{
  %p = ({types}) parameter(0)
{elements}
{lines(inner)}
  ROOT %out = ({types}) tuple(%a, %b, %c, %e, %x0, %cache)
}}

%body (p: ({types})) -> ({types}) {{
  %p = ({types}) parameter(0)
{elements}
{lines(body)}
  {nested}
  ROOT %out = ({types}) tuple(%a, %b, %c, %e, %x0, %cache)
}}

ENTRY %main (w0: bf16[8,16]) -> bf16[1,8] {{
{given}
  %x = bf16[1,8]{{1,0}} parameter(4)
  %k = {CACHE} parameter(5)
{lines(before)}
  %start = ({types}) tuple(%w0, %w1, %w2, %w3, %x, %k)
  %loop = ({types}) while(%start), condition=%test, body=%body
  ROOT %r = bf16[1,8]{{1,0}} get-tuple-element(%loop), index=4
}}
'''


def test_each_weight_is_read_once():
  found = audit(program(body=[product('y', 'a'), product('z', 'b')]))
  assert found.reads == {'target/a/kernel': 1.0, 'target/b/kernel': 1.0}
  assert found.rewritten == () and found.copied_caches == () and found.collectives == {}
  assert found.bytes_read('target') == 2 * 8 * 16 * 2 and found.bytes_read('draft') == 0


def test_a_second_read_counts():
  assert audit(program(body=[product('y', 'a'), product('z', 'a')])).reads == {'target/a/kernel': 2.0}


def test_what_stands_before_the_loop_is_not_of_the_iteration():
  assert audit(program(before=[product('y', 'w1', '%x')], body=[product('y', 'a')])).reads == {
      'target/a/kernel': 1.0}


def test_the_draft_s_loop_turns():
  found = audit(program(body=[product('y', 'c')], inner=[product('y', 'c')]), inner_trips=6)
  assert found.reads == {'draft/c/kernel': 7.0}


def test_a_prefetch_is_one_read():
  chip = TYPE.replace('(2,1)', '(2,1)S(3)')
  body = [f'%s = ({chip}, {TYPE}, u32[]{{:S(2)}}) copy-start(%a)', f'%d = {chip} copy-done(%s)',
          product('y', 'd')]
  found = audit(program(body=body))
  assert found.reads == {'target/a/kernel': 1.0} and not found.rewritten


def test_a_prefetch_in_slices_is_one_read():
  half = 'bf16[4,16]{1,0:T(8,128)(2,1)S(3)}'
  body = []
  for i in (0, 1):
    body += [f'%s{i} = (({TYPE}), {half}, s32[]{{:S(2)}}) slice-start(%a), slice={{[0:4], [0:16]}}',
             f'%d{i} = {half} slice-done(%s{i})']
  chip = TYPE.replace('(2,1)', '(2,1)S(3)')
  body += [f'%j = {chip} custom-call(%d0, %d1), custom_call_target="ConcatBitcast"', product('y', 'j')]
  found = audit(program(body=body))
  assert found.reads == {'target/a/kernel': 1.0} and not found.rewritten


@pytest.mark.parametrize('line', [
    '%t = bf16[8,16]{0,1:T(8,128)(2,1)} copy(%SOURCE)',
    '%t = bf16[8,16]{0,1:T(8,128)(2,1)S(3)} copy(%SOURCE)',
    '%t = bf16[16,8]{1,0} transpose(%SOURCE), dimensions={1,0}',
    '%t = f32[8,16]{1,0} convert(%SOURCE)',
    '%t = bf16[16,8]{1,0} fusion(%SOURCE), kind=kLoop, calls=%turn',
    f'%t = ({TYPE}, {TYPE}, u32[]{{:S(2)}}) copy-start(%SOURCE)'])
@pytest.mark.parametrize('hoisted', [False, True])
def test_a_rewritten_weight_is_found(line, hoisted):
  line = line.replace('SOURCE', 'w0' if hoisted else 'a')
  found = audit(program(before=[line] * hoisted, body=[line] * (not hoisted)))
  assert len(found.rewritten) == 1 and found.rewritten[0].startswith('target/a/kernel')


def test_a_look_up_reads_no_table():
  body = ['%i = s32[1]{0} constant({3})',
          '%r = bf16[1,8]{1,0} fusion(%e, %i), kind=kLoop, calls=%look_up']
  assert audit(program(body=body)).reads == {'target/embedding': 0.0}


def test_many_looked_up_rows_are_no_copy_of_the_table():
  body = ['%i = s32[64]{0} iota()', '%r = bf16[64,8]{1,0} fusion(%e, %i), kind=kLoop, calls=%look_up']
  assert audit(program(body=body)).rewritten == ()


def test_copied_caches_and_collectives_are_counted():
  body = [f'%m = {CACHE} copy(%cache)', '%g = bf16[1,8]{1,0} all-reduce(%x0), to_apply=%add',
          '%h = (bf16[1,8]{1,0}, bf16[1,8]{1,0}) all-gather-start(%x0), dimensions={0}']
  found = audit(program(body=body), cache_dims=[(1, 2, 9, 4)])
  assert len(found.copied_caches) == 1 and found.collectives == {'all-reduce': 1, 'all-gather': 1}


def test_collectives_that_sparse_cores_do_are_counted():
  start = ('%call-start = ((), (), s32[1]{0}) custom-call-start(), custom_call_target="x", '
           'called_computations={%on_sparse_core}')
  found = audit(program(body=[start, '%call-done = bf16[1,8]{1,0} custom-call-done(%call-start)']))
  assert found.collectives == {'all-reduce': 1}
