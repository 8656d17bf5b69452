"""Does a library compute the first layer right? `python check.py my_adapter.py [CASE ...]`.

The adapter is a Python file with one function, attention(folder, token_ids) -> [head, query, key]:
the attention weights of layer 0 for one text, as the library computes them from folder/config.json
and folder/model.safetensors, in float32 or wider. It raises NotImplementedError, with the reason,
where the library does not read such a model. Exit status: 1 if any case is wrong.
"""

import json
import runpy
import sys
from pathlib import Path

import numpy as np
from safetensors.numpy import load_file

FORMAT = 1
TOLERANCE = 1e-5  # single precision stays below 1e-6, an ingredient left out moves 1e-3 or more


def judge(attention, folder):
    """One case: name, largest difference, verdict, and the first row that differs or a reason."""
    name, nothing = folder.name, float("nan")
    case = json.loads((folder / "case.json").read_text(encoding="utf-8"))
    if case["format"] != FORMAT:
        return name, nothing, "error", f"its format is {case['format']}, this check reads {FORMAT}"
    right = load_file(folder / "expected.safetensors")
    largest, first = 0.0, ""
    for text, ids in enumerate(case["sequences"]):
        try:
            found = np.asarray(attention(folder, ids), dtype=np.float64)
        except NotImplementedError as reason:
            return name, nothing, "not read", str(reason)
        except Exception as error:  # a library raises what it likes, and the next case runs
            return name, nothing, "error", f"{type(error).__name__}: {error}".split("\n")[0]
        wanted = right[f"{text}.attention"]
        if found.shape != wanted.shape:
            return name, nothing, "wrong", f"shape {found.shape}, not {wanted.shape}"
        away = np.nan_to_num(np.abs(found - wanted).max(axis=-1), nan=np.inf)  # [head query]
        largest = max(largest, float(away.max()))
        if away.max() > TOLERANCE and not first:
            first = "text {}, head {}, query {}".format(text, *np.argwhere(away > TOLERANCE)[0])
    return name, largest, "wrong" if first else "right", first


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    sys.path.insert(0, str(Path(sys.argv[1]).parent))
    cases = Path(__file__).parent / "cases"
    names = sys.argv[2:] or sorted(folder.name for folder in cases.iterdir())
    try:
        attention = runpy.run_path(sys.argv[1])["attention"]
        rows = [judge(attention, cases / name) for name in names]
    except (ImportError, KeyError, OSError) as error:  # no library, no function, no such file
        sys.exit(f"{sys.argv[1]} is skipped, nothing was checked: {type(error).__name__}: {error}")
    for name, largest, verdict, said in rows:
        print(f"{name:24}{largest:9.1e}  {verdict:9}{said[:90]}")
    sys.exit(any(verdict not in ("right", "not read") for _, _, verdict, _ in rows))
