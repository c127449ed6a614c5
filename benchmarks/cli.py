"""The command line on a large table: seconds, memory and size of the report.

python benchmarks/cli.py            # 20,000 rows, 20 mixed columns, 300 labels
python benchmarks/cli.py --rows 2000 --no-report
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from common import save


def mixed_table(n_rows: int, n_labels: int, seed: int = 0) -> pd.DataFrame:
    """Twelve numbers, six categories, a truth value and a date; three classes on a manifold."""
    rng = np.random.default_rng(seed)
    classes = rng.integers(3, size=n_rows)
    angle = rng.uniform(0, np.pi, n_rows)
    latent = np.column_stack(
        [np.cos(angle + 2 * classes), np.sin(angle + 2 * classes), classes == 2, angle]
    )
    numbers = latent @ rng.normal(size=(4, 12)) + 0.3 * rng.normal(size=(n_rows, 12))
    frame = pd.DataFrame(numbers, columns=[f"number_{i}" for i in range(12)])
    frame = frame.mask(rng.random(frame.shape) < 0.02)
    for i, n_categories in enumerate((2, 3, 5, 8, 40, 200)):
        level = (latent[:, i % 4] * 3 + rng.normal(size=n_rows)).round().astype(int)
        frame[f"category_{i}"] = [f"c{value % n_categories}" for value in level]
    frame["flag"] = rng.random(n_rows) < 0.3 + 0.2 * classes
    days = pd.Timestamp("2020-01-01") + pd.to_timedelta(rng.integers(1000, size=n_rows), "D")
    frame["day"] = days.strftime("%Y-%m-%d")
    labelled = rng.permutation(n_rows) < n_labels
    frame["kind"] = np.where(labelled, np.array(["ash", "beech", "cedar"])[classes], "")
    return frame


def run(arguments: list[str]) -> dict[str, Any]:
    """Run a command; its seconds, its peak memory in bytes and its output."""
    start = time.perf_counter()
    process = subprocess.Popen(
        [sys.executable, "-m", "onefit", *arguments], stdout=subprocess.PIPE, text=True
    )
    output = process.stdout.read() if process.stdout else ""
    _, status, usage = os.wait4(process.pid, 0)
    seconds = time.perf_counter() - start
    if status:
        sys.exit(f"onefit {' '.join(arguments)}: status {status}")
    return {"seconds": seconds, "peak_bytes": usage.ru_maxrss * 1024, "output": output}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=20_000)
    parser.add_argument("--labels", type=int, default=300)
    parser.add_argument("--no-report", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        data, model, report, out = (
            str(Path(folder) / name) for name in ("d.csv", "m.skops", "r.html", "p.csv")
        )
        mixed_table(options.rows, options.labels).to_csv(data, index=False)
        load = os.getloadavg()[0]
        wanted = [] if options.no_report else ["--report", report]
        select = run(["select", data, "--target", "kind", "--out", model, "--json", *wanted])
        facts = json.loads(select.pop("output"))
        predict = run(["predict", model, data, "--out", out, "--quiet"])
        predict.pop("output")
        result = {
            "rows": options.rows,
            "labels": options.labels,
            "data_bytes": os.path.getsize(data),
            "load_before": load,
            "select": select,
            "predict": predict,
            "model_bytes": os.path.getsize(model),
            "report_bytes": None if options.no_report else os.path.getsize(report),
            "candidates": facts["candidates"],
            "folds": facts["folds"],
            "cv_score": facts["cv_score"],
            "baselines": facts["baselines"],
        }
    print(json.dumps(result, indent=1))
    save("cli", result)


if __name__ == "__main__":
    main()
