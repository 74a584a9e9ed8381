"""Event files for TensorBoard: ``tensorboard --logdir runs``. Neither torch nor TensorFlow is needed."""

from __future__ import annotations

import shutil
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

from tensorboard.compat.proto.event_pb2 import Event
from tensorboard.compat.proto.summary_pb2 import Summary
from tensorboard.summary.writer.event_file_writer import EventFileWriter

from fedgeom.federation.writers import Writer
from fedgeom.storage import make_private_folder


class TensorBoardWriter(Writer):
    """Writes scalars to ``tensorboard/`` in the run's folder."""

    name: ClassVar[str] = "tensorboard"

    def __init__(self, folder: Path, config: Mapping[str, Any]):
        inner = folder / "tensorboard"
        if inner.exists():  # what a run that broke off had written comes once more
            shutil.rmtree(inner)
        self._events = EventFileWriter(str(make_private_folder(inner)))

    def value(self, name: str, number: float, step: int) -> None:
        """Write a scalar; it is in the file at once, so that a run can be followed."""
        summary = Summary(value=[Summary.Value(tag=name, simple_value=number)])
        self._events.add_event(Event(wall_time=time.time(), step=step, summary=summary))
        self._events.flush()

    def close(self, state: str) -> None:
        """Close the file."""
        self._events.close()
