"""The alphas run's report as markdown."""

from specdec_jax.reports import paper_tables, tables


def markdown(result: dict) -> str:
  """The table: a row a drafter and sampling, a column a lenience."""
  fewest = min(m['tokens'] for m in result['alphas'])
  return (f"# Alpha [cor. 3.6] over the target's own texts\n\nTarget: {result['target']}. "
          f"{fewest} tokens or more each, of {result['examples']} inputs.\n\n"
          + tables.markdown(*paper_tables.alphas(result, digits=3)))
