"""Learners: named arrays of parameters, trained with an objective, that give class probabilities."""

from fedgeom.methods.iterative.learners.base import LEARNERS as LEARNERS
from fedgeom.methods.iterative.learners.base import Learner as Learner
from fedgeom.methods.iterative.learners.base import Parameters as Parameters
from fedgeom.methods.iterative.learners.base import learner_named as learner_named
from fedgeom.methods.iterative.learners.base import register as register
