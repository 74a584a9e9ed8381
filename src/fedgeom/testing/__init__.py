"""What any method, ours or a stranger's, must stand: ``fedgeom.testing.check_method(MyMethod)``."""

from fedgeom.testing.check import check_method as check_method
from fedgeom.testing.examples import example_sites as example_sites
