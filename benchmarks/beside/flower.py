"""The job with Flower's simulation on Ray."""

import job
from flwr.app import ArrayRecord, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import ServerApp
from flwr.serverapp.strategy import FedAvg
from flwr.simulation import run_simulation

client, server = ClientApp(), ServerApp()


@client.train()
def train(message, context):
    """Train one client."""
    net = job.Net()
    net.load_state_dict(message.content["arrays"].to_torch_state_dict())
    number = int(context.node_config["partition-id"])
    X, y = job.client(number)
    job.train(net, X, y, [int(message.content["config"]["server-round"]), number])
    metrics = MetricRecord({"num-examples": len(y)})
    content = RecordDict({"arrays": ArrayRecord(net.state_dict()), "metrics": metrics})
    return Message(content=content, reply_to=message)


@server.main()
def main(grid, context):
    """Conduct the rounds."""
    net = job.Net()
    strategy = FedAvg(fraction_train=1.0, fraction_evaluate=0.0, min_available_nodes=job.CLIENTS)
    result = strategy.start(grid=grid, initial_arrays=ArrayRecord(net.state_dict()), num_rounds=job.ROUNDS)
    net.load_state_dict(result.arrays.to_torch_state_dict())
    job.report(job.predicted(net))


if __name__ == "__main__":
    resources = {"client_resources": {"num_cpus": 1, "num_gpus": 0.0}}
    run_simulation(server_app=server, client_app=client, num_supernodes=job.CLIENTS, backend_config=resources)
