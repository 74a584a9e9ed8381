"""From raw tables to features: each step fitted over all sites by secure sums, equal to the fit on pooled rows.

>>> import fedgeom
>>> from fedgeom.preparation import Impute, OneHot, Scale
>>> fedgeom.Pipeline(OneHot(), Impute(), Scale(), fedgeom.Ridge()).prepare == fedgeom.Ridge(prepare="table").prepare
True
"""

from fedgeom.federation.preparation import fit_plain as fit_plain
from fedgeom.preparation.impute import Impute as Impute
from fedgeom.preparation.landmark_map import LandmarkMap as LandmarkMap
from fedgeom.preparation.log_counts import LogCounts as LogCounts
from fedgeom.preparation.one_hot import OneHot as OneHot
from fedgeom.preparation.pca import PCA as PCA
from fedgeom.preparation.pipeline import Pipeline as Pipeline
from fedgeom.preparation.scale import Clip as Clip
from fedgeom.preparation.scale import Scale as Scale
from fedgeom.preparation.select_variable import SelectVariable as SelectVariable
from fedgeom.preparation.to_disc import ToDisc as ToDisc
