"""Decodes the same batch on one device and on meshes of eight virtual ones; see virtual_devices.py.

  python eight_devices.py DIRECTORY NAME...     writes DIRECTORY/NAME.npz for each of NAMEs, such as
                                                2x4_greedy, and DIRECTORY/facts.json
"""

import json
import re
import sys

import loops
import numpy as np
import tiny
from refilled import drain

import specdec_jax as sd
from specdec_jax.decoding import decode_loop, running, running_decode

SAMPLINGS = {'greedy': sd.Sampling(temperature=0.0), 'sampled': sd.Sampling(temperature=1.0)}
SAMPLINGS |= {f'sampled{kind}': SAMPLINGS['sampled'] for kind in ('layer', 'parallel')}
SAMPLINGS |= {'greedytree': SAMPLINGS['greedy'], 'sampledtree': SAMPLINGS['sampled']}
MESHES = {'one': None, **{f'{d}x{8 // d}': sd.Mesh(data=d, model=8 // d) for d in (1, 2, 4, 8)}}
GAMMA, LENGTH = 2, 12
TREE = sd.Tree((-1, -1, 0, 0, 1, 3))


def models(directory, mesh=None, heads=None):
  """A target split over the mesh and a draft on every device of it, or heads of a kind."""
  target = sd.load_model(f'{directory}/target', mesh=mesh)
  if heads:
    return target, sd.load_heads(f'{directory}/{heads}', mesh=mesh)
  return target, sd.ModelDrafter(sd.load_model(f'{directory}/draft', mesh=mesh, replicated=mesh is not None))


def decode(directory, name):
  mesh, sampling = name.split('_')
  kind = sampling.removeprefix('sampled')
  target, drafter = models(directory, MESHES[mesh], kind if kind in ('layer', 'parallel') else None)
  shape = TREE if sampling.endswith('tree') else GAMMA
  result = sd.speculative_decode(target, drafter, tiny.inputs(8), tree=shape, max_decode_len=LENGTH,
                                 sampling=SAMPLINGS[sampling], seed=3)
  np.savez(f'{directory}/{name}.npz', tokens=result.tokens, scores=result.scores,
           accepted=result.stats.accepted, calls=result.stats.target_calls)


def decode_refilled(directory, mesh):
  """As `decode`, sampled, in four rows that are filled again; how many programs of the loop, and of rows put in."""
  target, drafter = models(directory, MESHES[mesh])
  loop = running_decode(target, drafter, rows=4, length=7, gamma=GAMMA, max_decode_len=LENGTH, seed=3)
  result = drain(loop, tiny.inputs(8), np.arange(8))
  np.savez(f'{directory}/{mesh}-refilled_sampled.npz', tokens=result.tokens, scores=result.scores,
           accepted=result.stats.accepted, calls=result.stats.target_calls)
  return running._advance._cache_size(), running._put._cache_size()


def carried(directory, mesh):
  """What the loop carries, as one device holds it: the shapes of the compiled program's `while`."""
  target, drafter = models(directory, MESHES[mesh])
  args, settings = loops.arguments(target, drafter, tiny.inputs(8), gamma=GAMMA, max_decode_len=LENGTH,
                                   sampling=SAMPLINGS['greedy'])
  text = decode_loop.lower(*args, settings).compile().as_text()
  carries = [line.split(' while(')[0] for line in text.splitlines() if ' while(' in line]
  return re.findall(r'\w+\[[\d,]*\]', max(carries, key=len))


def held(directory, mesh):
  """Shapes of some weights as the mesh's last device holds them."""
  target, drafter = models(directory, MESHES[mesh])
  layer = target.params['decoder']['layers_0']
  leaves = {'query': layer['self_attention']['query']['kernel'], 'wo': layer['mlp']['wo']['kernel'],
            'embedding': target.params['token_embedder']['embedding'],
            'norm': layer['pre_mlp_layer_norm']['scale'],
            'draft': drafter.draft.params['decoder']['layers_0']['mlp']['wo']['kernel']}
  return {name: x.addressable_shards[-1].data.shape for name, x in leaves.items()}


def refused(directory):
  """The messages of what does not divide."""
  messages = []
  target, drafter = models(directory, MESHES['2x4'])
  other = sd.load_model(f'{directory}/draft', mesh=sd.Mesh(model=2))
  for call in (lambda: sd.load_model(f'{directory}/draft', mesh=sd.Mesh(model=4)),
               lambda: sd.Mesh(data=3, model=4).devices(),
               lambda: sd.speculative_decode(target, drafter, tiny.inputs(3)),
               lambda: sd.speculative_decode(target, sd.ModelDrafter(other), tiny.inputs(2))):
    try:
      call()
    except ValueError as e:
      messages.append(str(e))
  return messages


if __name__ == '__main__':
  folder, names = sys.argv[1], sys.argv[2:]
  facts = {'held': held(folder, '2x4'), 'refused': refused(folder)}
  if 'carried' in names:
    facts['carried'] = carried(folder, '2x4')
  if 'refilled' in names:
    facts['refilled'] = decode_refilled(folder, '4x2')
  with open(f'{folder}/facts.json', 'w', encoding='utf-8') as f:
    json.dump(facts, f)
  for name in names:
    if name not in ('carried', 'refilled'):
      decode(folder, name)
