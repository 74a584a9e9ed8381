"""What one needs to write a method, an algorithm, a learner or a reader of one's own, in one place.

A method (examples/own_method.py, docs/own-method.md): `Method`, `Model`, `Site`, `SumQuestion`, `answers`, `join`,
`hand_out`, `agree_on_names`, `Plain`. An algorithm (examples/own_algorithm.py, docs/own-algorithm.md): `Algorithm`,
`Task`, `Tree`, `Objective`, `Round`. Settings say what they may be: `Between`, `Choice`. Hold what you wrote to the
contract with `fedgeom.testing.check_method`. A learner: `Learner`; a torch module: `TorchLearner`. Also an
`Aggregation`, a `Schedule`, a `Personal` part; for networks a body (`Network`, or a function and `own_network`), a
`Head`, a `Loss` of a `Batch`, an `Optimizer` (`TorchOptimizer`: any of torch's), an `Augmentation`, and the hooks
`Algorithm.local_step` and `Algorithm.local_train`. A reader of files (examples/own_reader.py): `register_reader`,
`Table`, and for tables with named columns `from_columns` and `read_text`.
"""

from fedgeom.data.csv import read_text as read_text
from fedgeom.data.readers import Reader as Reader
from fedgeom.data.readers import register_reader as register_reader
from fedgeom.data.tables import Table as Table
from fedgeom.data.tables import from_columns as from_columns
from fedgeom.federation.messages import Array as Array
from fedgeom.federation.messages import Message as Message
from fedgeom.federation.messages import Question as Question
from fedgeom.federation.method import Method as Method
from fedgeom.federation.model import Model as Model
from fedgeom.federation.plain import Plain as Plain
from fedgeom.federation.plan import Ask as Ask
from fedgeom.federation.plan import Sum as Sum
from fedgeom.federation.settings import Between as Between
from fedgeom.federation.settings import Choice as Choice
from fedgeom.federation.settings import ClassNames as ClassNames
from fedgeom.federation.site import Part as Part
from fedgeom.federation.site import answers as answers
from fedgeom.methods.aggregation import Aggregation as Aggregation
from fedgeom.methods.iterative.algorithm import Algorithm as Algorithm
from fedgeom.methods.iterative.effort import Augmentation as Augmentation
from fedgeom.methods.iterative.heads import Head as Head
from fedgeom.methods.iterative.learners import Learner as Learner
from fedgeom.methods.iterative.learners.torch_module import TorchLearner as TorchLearner
from fedgeom.methods.iterative.losses import Batch as Batch
from fedgeom.methods.iterative.losses import Loss as Loss
from fedgeom.methods.iterative.networks import Network as Network
from fedgeom.methods.iterative.networks import own_network as own_network
from fedgeom.methods.iterative.objective import Objective as Objective
from fedgeom.methods.iterative.optimizer import Optimizer as Optimizer
from fedgeom.methods.iterative.optimizer import Schedule as Schedule
from fedgeom.methods.iterative.optimizer import TorchOptimizer as TorchOptimizer
from fedgeom.methods.iterative.personal import Personal as Personal
from fedgeom.methods.iterative.settings import Round as Round
from fedgeom.methods.iterative.task import Task as Task
from fedgeom.methods.iterative.tree import Tree as Tree
from fedgeom.protocols.cohort import Cohort as Cohort
from fedgeom.protocols.cohort import join as join
from fedgeom.protocols.model_delivery import HandOut as HandOut
from fedgeom.protocols.model_delivery import hand_out as hand_out
from fedgeom.protocols.names import AgreeOnNames as AgreeOnNames
from fedgeom.protocols.names import CountNames as CountNames
from fedgeom.protocols.names import LabelNames as LabelNames
from fedgeom.protocols.names import agree_on_names as agree_on_names
from fedgeom.protocols.secure_sum.messages import SumQuestion as SumQuestion
from fedgeom.protocols.secure_sum.messages import SumResult as SumResult
from fedgeom.protocols.site import SecureMemory as SecureMemory
from fedgeom.protocols.site import SummingSite as Site  # noqa: F401
