"""What can go wrong between this machine and the hub, each as one sentence.

A proxy, a certificate, a token or an address that is set wrongly shows in whatever way the client's
libraries choose: as a file that is missing, an answer that cannot be read, a package to install. So
after any failure the settings are looked at first, and the one at fault is named.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from urllib.parse import urlsplit
from urllib.request import getproxies

from huggingface_hub import constants
from huggingface_hub.errors import (
    HfHubHTTPError,
    HTTPError,
    LocalEntryNotFoundError,
    RepositoryNotFoundError,
    RevisionNotFoundError,
)

from lnattn.errors import CheckpointError, HubError, one_line

_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_INSTEAD = "or use the embedded model 'book-gpt2' or a local folder"


@contextmanager
def hub_errors(repo: str) -> Iterator[None]:
    """Turn whatever goes wrong between here and the hub into one `HubError`.

    Errors of lnattn pass as they are: they are about what arrived, not about the way.
    """
    try:
        yield
    except CheckpointError:
        raise
    # The client's libraries raise what they like for a wrong setting, an ImportError among them,
    # and what stands between us and the hub must never end more than the question itself.
    except Exception as error:
        # An answer with a status has come through, so no setting kept it from coming.
        answered = isinstance(error, HfHubHTTPError)
        why = (not answered and wrong_setting()) or _reason(error, repo)
        raise HubError(one_line(why, 600)) from error


def wrong_setting() -> str | None:
    """The setting of this process with which no hub can be asked, as a sentence; None if all fit.

    HF_ENDPOINT, the proxies, the certificates and the token are looked at. The token itself is
    never part of the sentence.
    """
    for check in (_wrong_endpoint, _wrong_proxy, _wrong_certificates, _wrong_token):
        if sentence := check():
            return sentence
    return None


def _wrong_endpoint() -> str | None:
    address = urlsplit(constants.ENDPOINT)
    if address.scheme in ("http", "https") and address.netloc:
        return None
    return (
        f"HF_ENDPOINT is {constants.ENDPOINT!r}, which is no address of a hub; begin it with "
        "https://."
    )


def _wrong_proxy() -> str | None:
    for kind, proxy in getproxies().items():
        if kind not in ("http", "https", "all"):
            continue
        name = f"{kind.upper()}_PROXY"
        address = urlsplit(proxy if "://" in proxy else f"http://{proxy}")
        # A password may stand before the host.
        shown = f"{address.scheme}://{address.hostname}"
        if address.scheme in ("socks5", "socks5h"):
            if find_spec("socksio") is None:
                return (
                    f"{name} names a SOCKS proxy ({shown}), for which the package socksio is "
                    f"missing; pip install socksio, unset {name}, {_INSTEAD}."
                )
        elif address.scheme not in ("http", "https") or not address.hostname:
            return (
                f"{name} names a proxy of a kind that is not known ({shown}); write http://, "
                f"https:// or socks5:// and its host, or unset {name}."
            )
    return None


def _wrong_certificates() -> str | None:
    for name in ("SSL_CERT_FILE", "SSL_CERT_DIR"):
        path = os.environ.get(name)
        if path and not Path(path).exists():
            return (
                f"{name} names certificates that are not there ({path}), so no server can be "
                f"trusted; correct it, or unset {name}."
            )
    return None


def _wrong_token() -> str | None:
    for name in ("HF_TOKEN", "HUGGING_FACE_HUB_TOKEN"):
        token = os.environ.get(name, "").strip()
        if not (token.isascii() and token.isprintable()):
            return (
                f"{name} holds a letter that no token has, perhaps from copying it; copy it anew, "
                f"or unset {name} (the models named here are public)."
            )
    return None


def _reason(error: Exception, repo: str) -> str:
    """What an error of the hub's client means, as a sentence."""
    host = urlsplit(constants.ENDPOINT).netloc
    if isinstance(error, HfHubHTTPError):
        return _refusal(error, host, repo)
    if isinstance(error, HTTPError | LocalEntryNotFoundError):
        return (
            f"the connection to {host} failed ({type(error).__name__}); check the network, "
            f"{_INSTEAD}."
        )
    if isinstance(error, OSError):
        place = "is on a disk with room" if error.errno in _FULL else "can be written to"
        return (
            f"{repo} cannot be put into the cache ({error.strerror or error}); see that the folder "
            f"HF_HOME {place}."
        )
    if isinstance(error, ValueError | KeyError | TypeError | AttributeError):
        return (
            f"what {host} answers about {repo} is no list of its files; check HF_ENDPOINT, and "
            "whether this network asks for a login."
        )
    return (
        f"{host} could not be asked for {repo} ({type(error).__name__}: {error}); mend that, "
        f"{_INSTEAD}."
    )


def _refusal(error: HfHubHTTPError, host: str, repo: str) -> str:
    """What the hub answered in place of the model."""
    code = error.response.status_code
    if isinstance(error, RepositoryNotFoundError) or code in (401, 403):
        return (
            f"{host} refuses {repo} ({code}): there is no such public model, or it needs a login; "
            "check its name, or run 'hf auth login'."
        )
    if isinstance(error, RevisionNotFoundError):
        return f"{repo} has no such revision; check it, or leave it away."
    return f"{host} answers {code} for {repo}; try again later, or check the model's name."
