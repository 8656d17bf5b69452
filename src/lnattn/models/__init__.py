"""Checkpoints of many families, as the weights that the formulas need."""

from lnattn.errors import HubError

try:  # before any other module: the hub's client reads its settings when it is imported
    from huggingface_hub import constants as constants
except ValueError as error:
    raise HubError(
        f"a setting of the hub's client holds what is no number ({error}); give "
        "HF_HUB_ETAG_TIMEOUT and HF_HUB_DOWNLOAD_TIMEOUT whole seconds, or unset them."
    ) from error
