"""Partitions of one set into sites: small objects that deal rows, print what came of it, and plot it.

>>> from fedgeom.partition import Pathological
>>> print(Pathological(classes_per_site=1).over([[0.0], [1.0], [2.0], [3.0]], ["a", "a", "b", "b"], n_sites=2))
Pathological(classes_per_site=1), seed 0: 2 sites with 2 to 2 rows and 1 to 1 of 2 classes; label skew 0.50
        rows  a  b
site-1     2  ·  2
site-2     2  2  ·
"""

from fedgeom.data.partition import IID as IID
from fedgeom.data.partition import ByColumn as ByColumn
from fedgeom.data.partition import Dirichlet as Dirichlet
from fedgeom.data.partition import FeatureNoise as FeatureNoise
from fedgeom.data.partition import FeatureSkew as FeatureSkew
from fedgeom.data.partition import Parted as Parted
from fedgeom.data.partition import Partition as Partition
from fedgeom.data.partition import Pathological as Pathological
from fedgeom.data.partition import QuantitySkew as QuantitySkew
from fedgeom.data.partition import Shards as Shards
from fedgeom.data.partition import natural as natural
