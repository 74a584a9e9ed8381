"""What any method or engine, ours or a stranger's, must keep: `check_method(MyMethod)`, `check_engine(open_mine)`."""

from fedgeom.testing.check import Check as Check
from fedgeom.testing.check import CheckResult as CheckResult
from fedgeom.testing.check import check_method as check_method
from fedgeom.testing.check import checks_of as checks_of
from fedgeom.testing.check import parametrize_with_checks as parametrize_with_checks
from fedgeom.testing.engine import check_engine as check_engine
from fedgeom.testing.rehearsal import example_sites as example_sites
