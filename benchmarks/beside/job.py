"""The job that all do: images of 20 clients, a small ConvNet, five rounds of one epoch; with NumPy and torch alone."""

import json
import os

import numpy as np
import torch
from torch import nn

CLIENTS, ROUNDS, BATCH, RATE = 20, 5, 32, 0.05
torch.set_num_threads(1)


class Net(nn.Module):
    """Three convolutions with groups normalised, and two linear layers: 33,274 parameters."""

    def __init__(self):
        super().__init__()
        layers = [nn.Unflatten(1, (1, 28, 28))]
        for inputs, outputs in ((1, 16), (16, 32), (32, 32)):
            layers += [nn.Conv2d(inputs, outputs, 3, padding=1, bias=False), nn.GroupNorm(outputs // 16, outputs)]
            layers += [nn.ReLU(), nn.MaxPool2d(2)]
        self.layers = nn.Sequential(*layers, nn.Flatten(), nn.Linear(288, 64), nn.ReLU(), nn.Linear(64, 10))

    def forward(self, rows):
        """Return a score for each class."""
        return self.layers(rows)


def client(number):
    """Return one client's rows, (rows, 784), f4, and labels."""
    with np.load(os.environ["PEERS_JOB"]) as file:
        return file[f"X{number}"].astype(np.float32) / 255, file[f"y{number}"].astype(np.int64)


def train(net, X, y, seed):
    """Take one epoch of plain steps."""
    rows, labels = torch.from_numpy(X), torch.from_numpy(y)
    steps = torch.optim.SGD(net.parameters(), RATE)
    for at in torch.from_numpy(np.random.default_rng(seed).permutation(len(y))).split(BATCH):
        steps.zero_grad()
        nn.functional.cross_entropy(net(rows[at]), labels[at]).backward()
        steps.step()


def predicted(net):
    """Return the classes of the test rows."""
    net.eval()
    with torch.no_grad():
        parts = torch.from_numpy(client("test")[0]).split(500)
        return torch.cat([net(part) for part in parts]).argmax(1).numpy()


def report(found):
    """Print what came of it, as the last line."""
    print(json.dumps({"accuracy": round(float((np.asarray(found) == client("test")[1]).mean()), 4)}), flush=True)
