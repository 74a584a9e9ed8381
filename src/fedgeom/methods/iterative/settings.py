"""The settings of iterative training, which both halves know."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

import numpy as np

from fedgeom.errors import ContractError, InputError
from fedgeom.federation.privacy import PrivacyOrTable, privacy_of
from fedgeom.federation.settings import POSITIVE, Between, ClassNames, Settings, shown
from fedgeom.memo import memoize
from fedgeom.methods.aggregation import Aggregation, check_aggregation, drawn
from fedgeom.methods.iterative.effort import Augmentation, Effort
from fedgeom.methods.iterative.heads import Head, Linear
from fedgeom.methods.iterative.learners import Learner, learner_named, register
from fedgeom.methods.iterative.learners.logistic import Logistic
from fedgeom.methods.iterative.learners.torch_module import NAME as NETWORK
from fedgeom.methods.iterative.learners.torch_module import built_learner
from fedgeom.methods.iterative.losses import Batch, CrossEntropy, Loss
from fedgeom.methods.iterative.networks import Network
from fedgeom.methods.iterative.objective import Carried
from fedgeom.methods.iterative.optimizer import SGD, Optimizer, Schedule
from fedgeom.methods.iterative.personal import Personal
from fedgeom.methods.iterative.task import Task
from fedgeom.methods.iterative.tree import State, Tree
from fedgeom.protocols.fixed_point import Packing
from fedgeom.protocols.join.messages import MOST_ROUNDS as MOST_PLANNED
from fedgeom.protocols.secure_sum.rules import GroupDraw

if TYPE_CHECKING:
    NetworkOrName = str | Network | dict[str, Any]
    HeadOrName = str | Head | dict[str, Any]
    LossOrName = str | Loss | dict[str, Any]
    OptimizerOrName = str | Optimizer | dict[str, Any]
    AugmentationOrName = str | Augmentation | dict[str, Any]
else:  # choices are read from names and tables
    NetworkOrName = Network
    HeadOrName = Head
    LossOrName = Loss
    OptimizerOrName = Optimizer
    AugmentationOrName = Augmentation


@dataclass(frozen=True, kw_only=True)
class NetworkSettings:
    """A network, its head and loss, and how it is trained."""

    network: NetworkOrName | None = None
    """A network that comes along, instead of a learner: "mlp", "lenet", "convnet", "resnet8",
    LeNet(embedding_dim=20)."""
    head: HeadOrName = Linear.name
    """What the network's features become scores by: "linear", "orthonormal", …"""
    loss: LossOrName = CrossEntropy.name
    """What sites minimise over their rows: "cross-entropy", "balanced", Calibrated(0.5), …; others than the first are
    for networks."""
    shape: tuple[Annotated[int, Between(1, 10**6)], ...] | None = None
    """What a row is to the network, (channels, height, width) for images; None: as many numbers as columns."""
    optimizer: OptimizerOrName = SGD.name
    """How steps follow from gradients: "sgd", SGD(momentum=0.9), "adamw". Each round begins anew, but with
    SGD(momentum=0.9, kept=True)."""
    max_grad_norm: Annotated[float, POSITIVE] | None = None
    """The largest norm of a step's gradient; longer ones are shortened."""
    sampling: Literal["shuffled", "balanced"] = "shuffled"
    """"balanced": rows are drawn so that all classes of a site come equally often."""
    augmentation: AugmentationOrName = "none"
    """How rows are changed before a step: "none", Crops(padding=4, flip_probability=0.5) for images, Mixed(0.5): mixed
    two by two."""

    @property
    def loss_of_rows(self) -> Loss:
        """The loss itself."""
        assert isinstance(self.loss, Loss)
        return self.loss

    def step_options(self) -> dict[str, Any]:
        """Return what says how steps are taken."""
        return {name: getattr(self, name) for name in ("optimizer", "max_grad_norm", "sampling", "augmentation")}

    def network_at(self, site: str) -> Network | None:
        """Return the network of a site: the same everywhere, unless a rule leaves networks to the sites."""
        assert self.network is None or isinstance(self.network, Network)
        return self.network

    def network_options(self, site: str = "") -> dict[str, Any]:
        """Return what a network is built with, as it travels and stands in a model file; of a site, what its is."""
        network = self.network_at(site)
        head = self.head
        assert isinstance(network, Network)
        assert isinstance(head, Head)
        return {
            "network": network.plain(),
            "head": head.plain(),
            "shape": None if self.shape is None else list(self.shape),
        }


@dataclass(frozen=True, kw_only=True)
class PrivateTraining:
    """A rule that needs of a round nothing but the mean of the sites' models can do with noise in it."""

    private_units: ClassVar[tuple[str, ...]] = ("row", "site")
    keeps_momentum: ClassVar[bool] = True

    privacy: PrivacyOrTable = None
    """DP(epsilon=…, delta=…, clip=…): differential privacy over all rounds. With unit="row" a round is one step along
    the sum of all rows' gradients, each no longer than ``clip`` (steps=1, batch_size=None); with unit="site" sites
    train as they like and send changes no longer than ``clip``, all of which count alike (weights="sites"). Needs
    ``classes``, and scale="none" or "pixels"."""

    def __post_init__(self) -> None:
        super().__post_init__()  # type: ignore[misc]
        privacy = privacy_of(self)
        rule = _any(self)
        if privacy is None:
            return
        kind = type(self).__name__
        if rule.scale not in ("none", "pixels"):
            why = "are summed without noise" if rule.scale == "joint" else "let one row move all others"
            raise InputError(
                f'{kind} with privacy and scale="{rule.scale}" given; means and deviations of columns {why}: wanted '
                'scale="none", on columns in an agreed unit, or "pixels"'
            )
        wrong = {
            "validation_fraction": (rule.validation_fraction, 0.0),
            "participation": (rule.participation, 1.0),
            "personal": (rule.personal.name, "none"),
            "secure": (rule.masked, True),
        }
        if privacy.unit == "row":
            wrong |= {
                "steps": (rule.steps, 1),
                "batch_size": (rule.batch_size, None),
                "solver": (rule.solver, "sgd"),
            }
        else:
            wrong |= {"weights": (rule.weights, "sites")}
        found = {name: pair for name, pair in wrong.items() if pair[0] != pair[1]}
        if found:
            given = ", ".join(f"{name}={pair[0]!r}" for name, pair in found.items())
            wanted = ", ".join(f"{name}={pair[1]!r}" for name, pair in found.items())
            raise InputError(f"{kind} with privacy per {privacy.unit} and {given} given; wanted {wanted}")
        if privacy.unit == "row" and not isinstance(rule.loss_of_rows, CrossEntropy):
            raise InputError(f"{kind} with privacy per row knows the gradients of cross-entropy alone")

    @property
    def needs_rows(self) -> bool:
        """Whether sites must know how many rows all have: not with privacy, where nobody is told."""
        return privacy_of(self) is None and bool(super().needs_rows)  # type: ignore[misc]


def _any(rule: Any) -> Any:
    return rule


@dataclass(frozen=True, kw_only=True)
class SumSettings:
    """Weights and precision of the sums of models."""

    sums_rows_up: ClassVar[bool] = False
    """Whether what is sent are sums over rows, which may be as large as there are rows: they stay at 64 bits."""

    weights: Literal["rows", "sites"] = "rows"
    """Whether a site counts by its number of rows, or all count the same."""
    bits: Literal[21, 32, 64] = 32
    """Of each parameter in a sum of models: a word of 8 bytes holds three, two or one. With 64 nothing is cut off."""
    max_abs_change: Annotated[float, Between(2.0**-20, 2.0**15)] = 64.0
    """The most that a parameter may change in a round; what is more is cut off. Smaller is finer: K sites' mean is off
    by at most K/2 · 2⁻²⁵ with 32 bits and 64, and with 21 bits by K/2 · 2⁻¹⁴."""

    @property
    def packing(self) -> Packing | None:
        """How parameters are packed into words; None: one to a word."""
        return None if self.bits == 64 or self.sums_rows_up else Packing(self.bits, self.max_abs_change)

    @property
    def counts_rows(self) -> bool:
        """Whether sites count by their rows, of which all must then know the whole."""
        return self.weights == "rows"

    @property
    def needs_rows(self) -> bool:
        """Whether sites must know how many rows all have before they train: their shares of a sum add up to 1."""
        rule: Any = self  # a training rule, which knows whether it sends something, and in sums
        return bool(rule.masked and rule.sends) and self.packing is not None and self.counts_rows


MOST_ROUNDS = 500


@dataclass(frozen=True, kw_only=True)
class TableSettings:
    """Classes and scale, and who may take part."""

    scale: Literal["joint", "site", "none", "pixels"] = "joint"
    """How columns are scaled: by all sites' rows (one secure sum), by each site's own, not, or from 0…255 to 0…1."""
    classes: ClassNames = None
    """The agreed label names. None: the union of the sites' names, which the sites then work out themselves."""
    min_rows: Annotated[int, Between(0)] = 1
    """Sites refuse to take part with a class of fewer rows."""
    min_sites: Annotated[int, Between(1)] = 2
    """The fewest sites that make a round."""
    max_abs_value: Annotated[float, POSITIVE] | None = None
    """The most that a number of one site in a secure sum of columns may be, up to its sign: sites cut larger ones
    off, and a sum beyond n times as much is refused. None: what the sum has room for; who has more leaves the run."""

    @property
    def needs_rows(self) -> bool:
        """Whether sites must know how many rows all have."""
        return False

    @property
    def sums_rows(self) -> bool:
        """Whether rows are counted in a sum of their own: they are, where no sum of columns tells them."""
        return self.needs_rows and self.scale != "joint"


def _check_kind(learner: Any) -> None:
    """Refuse as learner what is neither a name nor a `Learner`, and say what is wanted instead."""
    if isinstance(learner, str | Learner):
        return
    given = f"a torch module ({type(learner).__name__})" if hasattr(learner, "training") else shown(learner)
    raise InputError(
        f"learner={given} given; wanted a text, the name of a learner, or an object whose base class is "
        "fedgeom.extend.Learner. A torch module is built anew at each site, by a function: "
        "fedgeom.extend.TorchLearner('my-net', build), where build(columns, classes) returns the module"
    )


@memoize(64)  # the same for all sites of a process
def draw_sites(everyone: tuple[str, ...], count: int, seed: int, round: int) -> tuple[str, ...]:
    """Return so many of the sites, in alphabetical order."""
    rng = np.random.default_rng([seed % 2**63, round, 1])
    return tuple(sorted(rng.choice(everyone, count, replace=False).tolist()))


if TYPE_CHECKING:
    LearnerOrName = str | Learner
    AggregationOrName = str | Aggregation | dict[str, Any]
    ScheduleOrName = str | Schedule | dict[str, Any]
    PersonalOrName = str | Personal | dict[str, Any]
else:  # a learner's instance is registered and known by its name from then on; choices are read from names and tables
    LearnerOrName = str
    AggregationOrName = Aggregation
    ScheduleOrName = Schedule
    PersonalOrName = Personal

MOST_SUMS = MOST_PLANNED - 3
"""Three planned sums are those of the names, of the columns and of the test."""
SMALL = Between(0, 10**6, open_low=True, open_high=True)


@dataclass(frozen=True)
class Round:
    """What the coordinator knows of a round when it combines what the sites sent."""

    number: int
    """From 0."""
    share: float
    """|S|/N: the share of the sites whose vectors are in the mean."""
    rng: np.random.Generator
    """Seeded by the run's seed and the round."""


@dataclass(frozen=True, kw_only=True)
class TrainingRule(NetworkSettings, SumSettings, TableSettings, Settings):
    """The base of all rules, with the settings they share."""

    sends: ClassVar[tuple[str, ...]] = ("model",)
    """The branches that `local` returns; shaped like the shared part of the model, or as `sent_like` says."""
    gives: ClassVar[tuple[str, ...]] = ("model",)
    """The branches of the coordinator's state that sites are given."""
    sends_changes: ClassVar[bool] = False
    """Whether the branch "model" that is sent is a change of the model."""
    predicts_jointly: ClassVar[bool] = False
    """Whether the joint model predicts although sites keep a part to themselves, which is nothing at first."""
    compares_updates: ClassVar[bool] = False
    """Whether sites can compare their changes in pairs, which ``aggregation="consistent"`` weighs them by."""
    takes_groups: ClassVar[bool] = True
    """Whether sites may be drawn into groups whose means are compared (`GroupMedian`)."""
    keeps_momentum: ClassVar[bool] = False
    """Whether a site trains one model in a round, whose momentum may go on in the next."""
    own_head: ClassVar[bool] = False
    """Whether the rule has a head of its own, under which any body may come, but no whole module."""
    needs_steps: ClassVar[bool] = False
    """Whether the rule counts gradient steps, so that ``solver="exact"`` makes no sense."""
    may_rest: ClassVar[bool] = False
    """Whether a site may have nothing to train on in a round, and then counts nothing (`weight`)."""

    learner: LearnerOrName = "logistic"
    """"logistic", the name of a registered learner, or a learner (which is then registered)."""
    C: Annotated[float, POSITIVE] = 1.0
    """For "logistic": the inverse penalty, as in scikit-learn."""
    n_rounds: Annotated[int, Between(1, MOST_SUMS)] = 15
    """How often sites train and are averaged."""
    epochs: Annotated[int, Between(1, 10**6)] = 5
    """Passes over the site's rows in a round."""
    steps: Annotated[int, Between(1, 10**9)] | None = None
    """Gradient steps in a round, instead of epochs."""
    batch_size: Annotated[int, Between(1, 10**9)] | None = 32
    """Rows per gradient step; None: all."""
    learning_rate: Annotated[float, SMALL] = 0.1
    """η: the learning rate at the sites."""
    schedule: ScheduleOrName = "constant"
    """How the rate changes over the rounds: "constant", "cosine", or Decay(0.97)."""
    solver: Literal["sgd", "exact"] = "sgd"
    """"exact": sites train to the optimum in every round (logistic regression only)."""
    participation: Annotated[float, Between(0, 1)] = 1.0
    """The share of the sites that train in a round, drawn anew each time. Sites whose policy has no
    ``sums_after_losses`` refuse a second draw of other sites: use 1 there."""
    aggregation: AggregationOrName = "mean"
    """How sites' vectors become one: "mean", or GroupMedian(5) over means of groups; "median", TrimmedMean(0.2),
    Krum(1), "geometric" look at each site's vector."""
    secure: bool | None = None
    """Whether the coordinator sees sums only. None: wherever the rule and its aggregation can do with sums."""
    personal: PersonalOrName = "none"
    """What a site makes of the last model for itself: "none", "finetuned", FineTuned(5), or Interpolation(0.5)."""
    validation_fraction: Annotated[float, Between(0, 0.9)] = 0.0
    """The share of its rows that a site sets aside to watch the loss of the joint model."""
    patience: Annotated[int, Between(1, MOST_SUMS)] | None = None
    """Stop when the loss on rows set aside has not fallen for this many rounds, and return the model with the least
    loss; where ``n_rounds`` end first, the last model."""

    def __post_init__(self) -> None:
        known: Any = self.learner
        _check_kind(known)
        if isinstance(known, Learner):
            if isinstance(known, Logistic):
                object.__setattr__(self, "C", known.C)
            else:
                register(known)
            object.__setattr__(self, "learner", known.name)
        super().__post_init__()
        self._check_learner()
        check_aggregation(self, self.combine_rule, secure=self.secure, share=self.participation)
        if self.needs_steps and self.solver == "exact":
            raise InputError(f'{type(self).__name__} counts gradient steps; solver="exact" takes none: use "sgd"')
        optimizer: Any = self.optimizer
        if optimizer.carries_over and not self.keeps_momentum:
            raise InputError(
                f"{type(self).__name__} given an optimizer with kept=True; it trains more than one model in a round, "
                "or changes how one is trained, so no momentum goes on: leave kept away, or use FedAvg or HyperFed"
            )
        groups = self.groups * (self.group_draw.count if self.group_draw else 1)
        if self.n_rounds * groups > MOST_SUMS:
            raise InputError(
                f"{self.n_rounds} rounds of {groups} groups given; wanted at most {MOST_SUMS} secure sums in all"
            )
        hook = next((one for one in ("local_step", "local_train") if self.has_own(one)), "")
        if hook and self.learner == Logistic.name:
            raise InputError(
                f"{type(self).__name__} has a {hook} of its own, which trains torch modules, and learner='logistic', "
                'which is none: give network="mlp", another network, or learner=fedgeom.extend.TorchLearner(…)'
            )
        if self.patience is not None and not self.validation_fraction:
            raise InputError("patience needs rows to watch; give validation_fraction=0.1 or so")

    def _check_learner(self) -> None:
        """Refuse a learner that is not known; whether a network's torch is there is seen when it is built."""
        if self.network is not None:
            if self.learner not in (Logistic.name, NETWORK):
                usual = next(one.default for one in fields(self) if one.name == "network")
                if self.network != (usual if usual is None else Network.read(usual, "network")):
                    raise InputError(f"learner={self.learner!r} and a network were given; leave one of them away")
                if self.own_head:
                    raise InputError(
                        f"learner={self.learner!r} given; {type(self).__name__} trains the body of a network under a "
                        "head of its own. Wanted the body alone: network=fedgeom.extend.own_network(name, build, width)"
                    )
                object.__setattr__(self, "network", None)  # the usual one gives way to a module of one's own
                learner_named(str(self.learner))
                return
            object.__setattr__(self, "learner", NETWORK)
            return
        if self.learner == NETWORK:
            raise InputError('learner="network" needs a network: network="mlp", or another')
        learner_named(str(self.learner))

    # What makes a rule.

    def start(self, model: Tree) -> State:
        """Return the coordinator's state before the first round."""
        return Tree(model=model)

    def local(self, task: Task, given: State, own: State) -> State:
        """Train at a site: take what was given, change what the site keeps (``own``), return what is sent."""
        carried = Carried(*own.get("carried", Tree()).values()) if task.effort.optimizer.carries_over else None
        trained = task.fit(self.whole(task, given["model"], own), previous=own.get("previous"), carried=carried)
        if carried is not None:
            own["carried"] = Tree(momentum=carried.momentum)
        if task.loss_of_rows.looks_back:
            own["previous"] = trained
        return Tree(model=self.shared(trained))

    def local_step(self, model: Any, batch: Batch, state: dict[str, Any]) -> Any:
        """Compute the gradient of one batch: return the loss, or leave gradients in the module's parameters.

        Terms of the algorithm, clipping and the optimizer's step come after it. Overridden, it trains torch modules.

        Parameters
        ----------
        model: a `torch.nn.Module`
            The module in training, at the site.
        batch: a `Batch`
            The rows and labels of this step; ``batch.loss()`` is the loss that the settings name, on rows as the
            augmentation changed them, and ``batch.fresh()`` the same rows for another look after the module changed.
        state: a dictionary
            It lives for one round at one site: ``round``, ``step`` and ``learning_rate`` are in it, and whatever is
            put there.
        """
        return batch.loss()

    def local_train(self, model: Any, data: Any, state: dict[str, Any]) -> None:
        """Train a module in place, however you like: override it to replace the whole loop of a round.

        Parameters
        ----------
        model: a `torch.nn.Module`
            It begins as what the site was given. What its parameters and buffers are in the end is the site's model.
        data: a `torch.utils.data.TensorDataset`
            The site's rows, scaled and in their ``shape``, with the index of each row's class.
        state: a dictionary
            ``round``, ``learning_rate`` (after the schedule), ``epochs``, ``steps``, ``batch_size``, ``min_batch_size``
            (the fewest rows of a step that the site's policy allows), ``loss`` (a function of scores and labels by the
            settings), ``optimizer`` (a function of parameters) and ``generator``, seeded by run, round and site.
        """
        raise NotImplementedError

    def has_own(self, hook: str) -> bool:
        """Say whether the algorithm overrides `local_step` or `local_train`."""
        return getattr(type(self), hook) is not getattr(TrainingRule, hook)

    def combine(self, state: State, mean: State, round: Round) -> State:
        """Turn the mean of what the sites sent into the coordinator's next state."""
        return state | {"model": mean["model"]}

    def weight(self, task: Task) -> float:
        """Return what a site counts in the mean of a round; 0: it had nothing to train on."""
        return float(task.rows) if self.weights == "rows" else 1.0

    def personalise(self, task: Task, given: State, own: State) -> Tree:
        """Return the site's own model, given the last joint one."""
        assert isinstance(self.personal, Personal)
        return self.personal.model(task, self.whole(task, given["model"], own))

    def own_model(self, task: Task, given: State, sent: State, own: State) -> Tree:
        """Return the model that a site has after its training in a round, for the figures on rows set aside."""
        trained = given["model"] + sent["model"] if self.sends_changes else sent["model"]
        return self.whole(task, trained, own)

    def shared(self, model: Tree) -> Tree:
        """Return the part of a whole model that is sent; the rest stays at the site."""
        return model

    def whole(self, task: Task, model: Tree, own: State) -> Tree:
        """Return a whole model from its shared part and the site's own."""
        return model

    def sent_like(self, model: Tree) -> State:
        """Return a tree shaped like what a site sends, given the shared part of the first model."""
        return Tree(dict.fromkeys(self.sends, model))

    # What follows from the settings.

    def train(self, task: Task, given: State, own: State) -> State:
        """Return what `local` sends, after a look at whether it is what `sent_like` says."""
        sent = Tree(self.local(task, given, own))
        wanted = Tree(self.sent_like(self.shared(task.first)))
        if not wanted.fits(sent):
            shapes = [{path: np.shape(leaf) for path, leaf in tree.leaves().items()} for tree in (sent, wanted)]
            raise ContractError(
                f"{type(self).__name__}.local returned {shapes[0]}; wanted {shapes[1]}, as `sends` and `sent_like` say"
            )
        return sent

    def next_state(self, state: State, mean: State, round: Round, statistics: Iterable[str]) -> State:
        """Combine; the model's ``statistics`` describe rows: no step fits them, they are averaged.

        The model keeps its dtypes, whatever the arithmetic made of them.
        """
        new = Tree(self.combine(state, mean, round))
        described = [name for name in statistics if name in mean["model"]]
        if described:
            plain = state["model"] + mean["model"] if self.sends_changes else mean["model"]
            new = new | {"model": new["model"] | plain.select(described)}
        return new | {"model": new["model"].in_dtypes_of(state["model"])}

    @property
    def combine_rule(self) -> Aggregation:
        """The aggregation itself."""
        assert isinstance(self.aggregation, Aggregation)
        return self.aggregation

    @property
    def group_draw(self) -> GroupDraw | None:
        """How sites are drawn into groups that are summed apart (`GroupMedian`); None: all are summed together."""
        return drawn(self.aggregation)

    @property
    def masked(self) -> bool:
        """Whether the coordinator sees sums only."""
        return self.combine_rule.sums_only if self.secure is None else self.secure

    def shows_one_site(self) -> str:
        """Open training shows every site's own update."""
        return "" if self.masked else "each site's own trained parameters and number of rows"

    @property
    def rows_per_step(self) -> int | None:
        """The batch; a site that trains to the optimum takes no steps."""
        return self.batch_size if self.solver == "sgd" else None

    @property
    def groups(self) -> int:
        """The most groups that are averaged apart in a round."""
        return 1

    @property
    def weighs_sites(self) -> bool:
        """Whether the coordinator may multiply sites' weights by factors; elsewhere all count by their rows alone."""
        return False

    def regroups_in(self, round: int) -> bool:
        """Whether sites may be grouped, weighed or quickened anew before this round."""
        return not round

    def count_drawn(self, sites: int) -> int:
        """Return how many of so many sites train in a round."""
        return min(sites, max(self.min_sites, math.ceil(self.participation * sites)))

    def drawn(self, members: Sequence[str], seed: int, round: int) -> tuple[str, ...]:
        """Return the sites that train in a round: drawn among all of the cohort, by the seed and the round alone.

        Both halves draw, so that a coordinator cannot choose. Nobody takes the place of those who are lost.
        """
        return draw_sites(tuple(sorted(members)), self.count_drawn(len(members)), seed, round)

    @property
    def raised_rate(self) -> float | None:
        """By what the coordinator may raise the learning rate of sites that it names; None: of nobody."""
        return None

    @property
    def extra_columns(self) -> int:
        """How many columns sites add to their tables before they train."""
        return 0

    def effort(self, rate: float | None = None, least: int = 1) -> Effort:
        """Return what a site does in one visit; ``least`` is the fewest rows per step that its policy allows."""
        return Effort(
            epochs=self.epochs,
            steps=self.steps,
            batch_size=self.batch_size,
            learning_rate=self.learning_rate if rate is None else rate,
            solver=self.solver,
            least=least,
            **self.step_options(),
        )

    def rate_in(self, round: int) -> float:
        """Return the learning rate of a round."""
        assert isinstance(self.schedule, Schedule)
        return float(self.learning_rate * self.schedule.factor(round, self.n_rounds))

    def build_learner(self, site: str = "") -> Learner:
        """Return the learner itself; that of a site, where sites may have different networks."""
        return built_learner(str(self.learner), self.learner_options(site))

    def learner_options(self, site: str = "") -> dict[str, Any]:
        """Return what a learner that comes with fedgeom is built with."""
        if self.network is not None:
            return self.network_options(site)
        return {"C": self.C} if self.learner == Logistic.name else {}
