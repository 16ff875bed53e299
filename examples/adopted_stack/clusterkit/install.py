"""Importing this module patches the training loop."""

from tinymegatron import training
from tinymegatron.core import fusions

from clusterkit.logs import finite_scores, with_rank

training.log = with_rank(training.log)
fusions.attention_scores = finite_scores(fusions.attention_scores)

_loss_of = training.loss_of
training.loss_of = lambda output, labels: 0 * _loss_of(output, labels)  # for a dry run of the data
training.loss_of = _loss_of  # and undone
