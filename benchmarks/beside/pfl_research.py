"""The job with pfl-research."""

import job
import torch
from pfl.aggregate.simulate import SimulatedBackend
from pfl.aggregate.weighting import WeightByDatapoints
from pfl.algorithm.base import NNAlgorithmParams
from pfl.algorithm.federated_averaging import FederatedAveraging
from pfl.data.federated_dataset import FederatedDataset
from pfl.data.pytorch import PyTorchTensorDataset
from pfl.data.sampling import get_user_sampler
from pfl.hyperparam import NNEvalHyperParams, NNTrainHyperParams
from pfl.metrics import Weighted
from pfl.model.pytorch import PyTorchModel


class Net(job.Net):
    """The network with what pfl-research asks of it."""

    def loss(self, X, y, eval=False):
        """Return the mean loss."""
        self.eval() if eval else self.train()
        return torch.nn.functional.cross_entropy(self(X), y)

    @torch.no_grad()
    def metrics(self, X, y):
        """Return the loss as pfl-research adds it up."""
        return {"loss": Weighted(self.loss(X, y, eval=True).item() * len(y), len(y))}


data = [[torch.from_numpy(part) for part in job.client(number)] for number in range(job.CLIENTS)]
sampler = get_user_sampler("minimize_reuse", list(range(job.CLIENTS)))
sets = FederatedDataset(lambda user: PyTorchTensorDataset(tensors=data[user], user_id=str(user)), sampler)
net = Net()
model = PyTorchModel(net, torch.optim.SGD, torch.optim.SGD(net.parameters(), 1.0))
params = NNAlgorithmParams(
    central_num_iterations=job.ROUNDS, evaluation_frequency=1000, train_cohort_size=job.CLIENTS, val_cohort_size=0
)
FederatedAveraging().run(
    algorithm_params=params,
    backend=SimulatedBackend(training_data=sets, val_data=sets, postprocessors=[WeightByDatapoints()]),
    model=model,
    model_train_params=NNTrainHyperParams(
        local_num_epochs=1, local_learning_rate=job.RATE, local_batch_size=job.BATCH
    ),
    model_eval_params=NNEvalHyperParams(local_batch_size=1000),
    callbacks=[],
)
job.report(job.predicted(net))
