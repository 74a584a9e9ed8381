"""What is looked at before a site connects: its data, its identity in the roster, the coordinator's certificate."""

from __future__ import annotations

import shlex
import socket
import ssl
from pathlib import Path

from fedgeom.deploy.answering import read_data
from fedgeom.deploy.approvals import ApprovalStore
from fedgeom.deploy.limits import memory_can_be_limited
from fedgeom.deploy.site_folder import SiteFolder
from fedgeom.engines.check import check_own
from fedgeom.engines.flower.processes import Say
from fedgeom.errors import InputError


def check_site(folder: SiteFolder, say: Say) -> None:
    """Look at everything that can be wrong at a site before it connects."""
    config = folder.config()
    folder.identity()
    data = read_data(folder)
    say(f"{config.name}: {len(data)} rows, {data.shape[1]} columns, {len(data.classes)} classes")
    report = check_own(None, data, config.policy)
    errors, warnings = len(report.errors), len(report.warnings)
    if errors or warnings:
        say(
            f"the table has {errors} fault{'' if errors == 1 else 's'} that no method takes, and {warnings} odd "
            f"thing{'' if warnings == 1 else 's'}: fedgeom site check --folder {shlex.quote(str(folder.path))}"
        )
    if config.policy.max_memory_mb and not memory_can_be_limited():
        say("max_memory_mb is not kept to on this system: memory is limited on Linux only")
    say(approval_line(folder))
    roster = folder.roster()
    if roster.get(config.name) != folder.identity().public:
        raise InputError(
            f"{folder.path / config.roster} does not hold {config.name!r} with this site's identity; send "
            f"{config.name}.pub to the coordinator and ask for the new roster.json"
        )
    if config.insecure:
        say("INSECURE: no TLS, and Flower does not check who connects; on this machine only, for trying out")
        return
    certificate = folder.path / config.certificate
    if not certificate.is_file():
        raise InputError(f"{certificate} is missing; ask the coordinator for ca.pem")
    check_certificate(config.coordinator, certificate)


def approval_line(folder: SiteFolder) -> str:
    """Say which jobs the site answers, and how many wait for its steward; a damaged file of approvals is named."""
    rule, file = folder.config().approve, ApprovalStore(folder.path).read()
    if rule != "ask":
        return f'site.toml says approve = "{rule}": such jobs are answered without asking you'
    waiting = f"; {len(file.waiting)} wait (fedgeom site approvals)" if file.waiting else ""
    return f"jobs are answered once you have approved them (fedgeom site approve FILE){waiting}"


def check_certificate(address: str, certificate: Path) -> None:
    """Shake hands once, so that a foreign certificate is named as such; nobody there is no error."""
    host, _, port = address.rpartition(":")
    try:
        context = ssl.create_default_context(cafile=str(certificate))
        with socket.create_connection((host, int(port)), 5) as raw, context.wrap_socket(raw, server_hostname=host):
            pass
    except ssl.SSLCertVerificationError as error:
        raise InputError(
            f"the certificate of {address} is foreign or not made out for this address: {error.verify_message} "
            f"(checked with {certificate})"
        ) from error
    except (OSError, ValueError):
        return
