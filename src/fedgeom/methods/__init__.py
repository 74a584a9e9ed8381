"""The methods. A method that comes with fedgeom is one package (an algorithm: one file) and one line here.

Importing this module registers them all (`fedgeom.federation.method.METHODS`); what is slow to import, such as
scikit-learn, they import where they use it.
"""

from fedgeom.methods.hulls.method import Hulls as Hulls
from fedgeom.methods.hyperfed.method import HyperFed as HyperFed
from fedgeom.methods.iterative.algorithms.ditto import Ditto as Ditto
from fedgeom.methods.iterative.algorithms.fedavg import FedAvg as FedAvg
from fedgeom.methods.iterative.algorithms.fedavgm import FedAvgM as FedAvgM
from fedgeom.methods.iterative.algorithms.fedbabu import FedBABU as FedBABU
from fedgeom.methods.iterative.algorithms.feddyn import FedDyn as FedDyn
from fedgeom.methods.iterative.algorithms.fedlc import FedLC as FedLC
from fedgeom.methods.iterative.algorithms.fednova import FedNova as FedNova
from fedgeom.methods.iterative.algorithms.fedopt import FedAdam as FedAdam
from fedgeom.methods.iterative.algorithms.fedopt import FedYogi as FedYogi
from fedgeom.methods.iterative.algorithms.fedper import FedPer as FedPer
from fedgeom.methods.iterative.algorithms.fedproto import FedProto as FedProto
from fedgeom.methods.iterative.algorithms.fedprox import FedProx as FedProx
from fedgeom.methods.iterative.algorithms.fedrep import FedRep as FedRep
from fedgeom.methods.iterative.algorithms.fedrod import FedRoD as FedRoD
from fedgeom.methods.iterative.algorithms.interpolated import Interpolated as Interpolated
from fedgeom.methods.iterative.algorithms.local_only import LocalOnly as LocalOnly
from fedgeom.methods.iterative.algorithms.moon import Moon as Moon
from fedgeom.methods.iterative.algorithms.pfedme import PFedMe as PFedMe
from fedgeom.methods.iterative.algorithms.scaffold import Scaffold as Scaffold
from fedgeom.methods.iterative.algorithms.spherefed import SphereFed as SphereFed
from fedgeom.methods.moments.method import Moments as Moments
from fedgeom.methods.ptopofl.method import PTopoFL as PTopoFL
from fedgeom.methods.ridge.method import Ridge as Ridge
from fedgeom.methods.shrunk.method import Shrunk as Shrunk
from fedgeom.methods.xclp.method import XCLP as XCLP
from fedgeom.methods.xclp_training.method import XCLPTraining as XCLPTraining
