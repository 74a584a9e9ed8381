"""What a site's processes do first, and a question that takes more memory than the site allows."""

from __future__ import annotations

import subprocess
import sys

import msgspec
import pytest

from fedgeom.deploy.journal import Journal
from fedgeom.engines.nats.site import FAILED, AnswerOutcome
from fedgeom.methods.catalogue import METHODS
from tests.deploy.making import edit, make_coordinator, make_sites
from tests.deploy.test_answering import hello


def test_what_is_imported_ahead_is_what_every_method_answers_with(tmp_path):
    code = (
        "import sys\nfrom fedgeom.deploy import programs\nprograms.import_ahead()\n"
        "ahead = set(sys.modules)\nfrom fedgeom.methods.catalogue import METHODS, method_class\n"
        "print(all(method_class(name).site.understands() for name in METHODS), set(sys.modules) == ahead)\n"
        "print('sklearn' in ahead)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=tmp_path)
    assert done.stdout.split() == ["True"] * 3
    assert len(METHODS) > 4


SHORT_OF_MEMORY = """
import sys
from pathlib import Path
import numpy as np
from fedgeom.deploy import nats_site
from fedgeom.deploy.site_folder import SiteFolder
from fedgeom.engines.nats.site import answer_with
from fedgeom.federation.runner import SiteRunner

work = SiteRunner.answer
SiteRunner.answer = lambda *given: (np.ones(2**29), work(*given))[1]
folder = SiteFolder(Path(sys.argv[1]))
outcome = answer_with(lambda request: nats_site.answer(folder, request))
sys.stdout.buffer.write(outcome(bytes.fromhex(sys.argv[2])))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="memory is limited on Linux only")
def test_a_question_that_takes_more_memory_than_allowed_fails_and_the_steward_learns_why(tmp_path):
    """Four gigabytes, where the policy allows one and a half: the coordinator learns only that the site failed."""
    anna = make_sites(tmp_path, make_coordinator(tmp_path / "c"))["anna"]
    edit(anna, "max_memory_mb = 8192", "max_memory_mb = 1500")
    command = [sys.executable, "-c", SHORT_OF_MEMORY, str(anna.path), hello().hex()]
    done = subprocess.run(command, capture_output=True, check=False)
    assert msgspec.msgpack.decode(done.stdout, type=AnswerOutcome) == AnswerOutcome(refused=FAILED), done.stderr
    (entry,) = Journal(anna.path).entries()
    for told in (entry.note, done.stderr.decode()):
        assert "more memory than max_memory_mb = 1500 in site.toml" in told
    assert (entry.question, entry.answer, entry.sent) == ("join.hello", "none", 0)
