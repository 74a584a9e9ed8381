"""What the commands print: progress, question by question and site by site, and complaints."""

from __future__ import annotations

import sys
from types import TracebackType
from typing import TYPE_CHECKING, Any

from fedgeom.errors import printable

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Task, TaskID
    from rich.text import Text

    from fedgeom.federation.conversation import Event

MOST_LINES = 14
"""Methods with hundreds of rounds show the last ones."""

WORDS = {
    "join.hello": "invite the sites, collect signed keys",
    "join.draw": "draw who masks with whom",
    "join.share": "exchange sealed shares of keys",
    "ellipses.scales": "masked means and deviations of the columns, for a joint scale",
    "ellipses.classes": "masked numbers of classes",
    "ellipses.sum": "masked counts, means and covariances of each class",
    "ellipses.learn": "give every site the model",
    "ellipses.covers": "masked ticks: what each word covers",
    "ellipses.tree": "give every site the joint tree",
    "prepare.seal": "sealed names of columns and categories",
    "prepare.hold": "everybody's sealed columns",
    "prepare.categories": "masked numbers of sites and rows of each category",
    "prepare.keep": "the joint columns, and categories that enough have",
    "prepare.cells": "masked numbers of cells with a value",
    "prepare.bins": "masked numbers of values in bins, for a quantile",
    "prepare.moments": "masked sums of columns, or of squares",
    "prepare.products": "masked products of columns, for components",
    "prepare.directions": "masked covariance times directions, for components",
    "prepare.ranks": "masked choices of columns",
    "prepare.rows": "show every site the last sum; it prepares its rows",
    "hulls.scales": "masked means and deviations of the columns, for a joint scale",
    "hulls.scatter": "masked scatter, for a joint map",
    "hulls.reach": "masked sizes",
    "hulls.encode": "masked hulls",
    "hulls.corners": "masked corners of each class",
    "hulls.learn": "give every site the model",
    "hyperfed.compare": "train; begin to compare the changes",
    "hyperfed.pass": "compare the changes of two sites",
    "names.seal": "sealed label names",
    "names.open": "the union of the label names",
    "names.hold": "everybody's sealed label names",
    "names.count": "masked numbers of sites and rows of each label name",
    "names.keep": "the label names that enough sites and rows have",
    "train.columns": "masked sums of the columns",
    "train.rows": "masked numbers of rows",
    "train.begin": "tell the sites classes and scale",
    "train.masked": "train; masked models",
    "train.open": "train; each site's model",
    "train.finish": "give every site the model",
    "model.take": "give every site the model",
    "model.result": "give every site the sum; it checks it and makes the model",
    "moments.sum": "masked counts, sums and squares of each class",
    "ridge.columns": "masked counts of classes, sums and squares of columns",
    "ridge.patches": "masked sums and squares of patches",
    "ridge.patch-counts": "masked sizes of clusters of patches",
    "ridge.clusters": "masked clusters of patches, the next filters",
    "ridge.gram": "masked products of features",
    "ridge.solution": "give every site the solution",
    "ridge.check": "show every site the sum; it checks the solution",
    "ridge.surprise": "masked fit of probabilities",
    "semi.embed": "give the sites the model whose features are compared",
    "ridge.evidence": "masked evidence on personal models",
    "ridge.settle": "each site makes its own model",
    "ridge-update.base": "give every site the features and sums from before",
    "ridge-update.counts": "masked numbers of changed rows",
    "ridge-update.gram": "masked change of the products of features",
    "ridge-update.check": "show every site the sums; it checks the solution",
    "topo.describe": "the shape of each site's rows",
    "topo.describe.activations": "give every site the model; the shape of what it makes of the rows",
    "topo.describe.private": "the shape of each site's rows, with noise",
    "shrunk.terms": "masked losses and their derivatives",
    "shrunk.evidence": "masked scores of the candidates",
    "shrunk.settle": "give every site the joint models; it makes its own",
    "xclp.ask-rows": "how many rows, and which have a label",
    "xclp.begin": "hash the rows, begin to compare them",
    "xclp.pass": "compare rows of two sites",
    "xclp.count": "masked numbers of labelled rows",
    "xclp.spread": "masked labels, spread along the graph",
    "xclp.collect": "give every site the labels of its rows",
    "xclp.mean": "masked mean direction",
    "xclp.cell-counts": "masked sizes of clusters",
    "xclp.cell-sums": "masked centres of clusters",
    "xclp.codes": "masked ties between clusters",
    "xclp.read-model": "give every site anchors and their scores",
    "xclp.label-counts": "masked numbers of labels found",
    "xclp.weigh": "give every site the scale of confidences",
    "evaluation.sum": "test the model; masked counts",
    "sum.confirm": "  agree on who is in the sum",
    "sum.witness": "  let the others sign it too",
    "sum.unmask": "  unmask the sum, and only the sum",
}
"""Questions in plain words; others are shown by their kind."""


def console() -> Console:
    """Return the console for results."""
    from rich.console import Console

    class Careful(Console):
        """A console on which no text can do more than be read: rich itself lets escape sequences through."""

        def render_str(self, text: str, **options: Any) -> Text:
            return super().render_str(printable(text, lines=True), **options)

    # A pipe has no width; 80 columns would fold tables that a file has room for.
    return Careful(highlight=False, width=None if sys.stdout.isatty() else 132)


def complain(text: str, style: str = "red") -> None:
    """Print one message, red unless said otherwise, to the error stream."""
    from rich.console import Console
    from rich.text import Text

    Console(stderr=True, highlight=False, soft_wrap=True).print(Text(printable(text, lines=True), style=style))


SHORT = 60
"""How many characters of the reason for a loss are shown on the way; the whole is said at the end."""


class Terminated(KeyboardInterrupt):
    """A service manager, a queue or ``kill`` ended the command, not the person at the keyboard."""


class Questions:
    """A progress display: one line per question, filled as the sites answer."""

    def __init__(self, out: Console):
        from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
        from rich.text import Text

        class Sign(SpinnerColumn):
            """A hook for a step that all sites answered; another sign as soon as one was lost."""

            def render(self, task: Task) -> Any:
                return Text("✗", style="yellow") if task.fields["lost"] else super().render(task)

        class Note(TextColumn):
            """Who was lost, or who answered last."""

            def render(self, task: Task) -> Text:
                lost = [f"{site} is lost: {why}" for site, why in task.fields["lost"].items()]
                return Text("; ".join(lost), style="yellow") if lost else Text(task.fields["last"], style="dim")

        self._step = 0
        self._lines: list[TaskID] = []
        self._progress = Progress(
            Sign(finished_text="[green]✓[/green]"),
            TextColumn("{task.fields[step]:>3}"),
            TextColumn("{task.description}"),
            BarColumn(bar_width=20),
            TextColumn("{task.fields[came]}/{task.total:.0f}"),
            Note(""),
            TimeElapsedColumn(),
            console=out,
        )

    def __enter__(self) -> Questions:
        self._progress.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._progress.stop()

    def __call__(self, event: Event) -> None:
        """Take note of a question or an answer; this is what `fedgeom.run` calls as ``watch``."""
        if event.step != self._step:
            self._step = event.step
            words = WORDS.get(event.kind, printable(event.kind))
            self._lines.append(
                self._progress.add_task(words, total=0, step=event.step, last="", came=0, lost={}, answered=set())
            )
            if len(self._lines) > MOST_LINES:
                old = self._task(self._lines[-MOST_LINES - 1])
                self._progress.update(old.id, visible=bool(old.fields["lost"]))
        line = self._lines[-1]
        task = self._task(line)
        if event.state == "asked":
            self._progress.update(line, total=(task.total or 0) + 1)
            return
        if event.state == "figures":
            self._progress.update(line, last=printable(event.detail))
            return
        site = printable(event.site)
        if event.state == "waiting":
            self._progress.update(line, last=f"waiting for approval at {site}")
            return
        lost, answered = task.fields["lost"], task.fields["answered"]
        new = site not in lost and site not in answered  # one that answered may be left out afterwards
        if event.state == "lost":
            lost[site] = _shortened(printable(event.detail)) or "no reason was given"
            answered.discard(site)
        else:
            answered.add(site)
        self._progress.update(line, advance=int(new), last=site, came=len(answered))
        if task.completed >= (task.total or 0):
            self._progress.update(line, last="")

    def _task(self, line: TaskID) -> Task:
        return next(task for task in self._progress.tasks if task.id == line)


def _shortened(text: str) -> str:
    return text if len(text) <= SHORT else f"{text[: SHORT - 1]}…"
