"""Draw docs/images/report.png: the report on 1,797 digits of which 60 have a label.

Needs Chromium and Pillow. Run from the checkout: python docs/make_report_image.py
"""

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from PIL import Image
from sklearn.datasets import load_digits

from onefit import LapRLSClassifier, ManifoldSearchCV
from onefit.datasets import make_partially_labeled
from onefit.kernels import median_squared_distance
from onefit.report import render_report

TARGET = Path(__file__).parent / "images" / "report.png"
FLAGS = ("--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--hide-scrollbars")
SIZE = "900,1960"
RARE_TOO = Image.Quantize.MAXCOVERAGE
#: Colours of the picture: enough for flat areas and smooth letters, at half the bytes.
COLOURS = 256


def digits_report() -> str:
    X, truth = load_digits(return_X_y=True)
    y = make_partially_labeled(truth, n_labeled=60, random_state=1)
    median = median_squared_distance(X)
    grid = {
        "kernel_width": [median / 4.0, median, median * 4.0],
        "n_neighbors": [4, 8],
        "ambient_penalty": [10.0**i for i in range(-6, 1)],
        "manifold_penalty": [0.0, *(10.0**i for i in range(-2, 6))],
    }
    search = ManifoldSearchCV(LapRLSClassifier(), grid, random_state=0).fit(X, y)
    return render_report(search, X, y, title="Handwritten digits", target_name="digit")


def photograph(page: Path, target: Path) -> None:
    chromium = shutil.which("chromium") or shutil.which("chromium-browser")
    if chromium is None:
        sys.exit("chromium is not installed")
    with tempfile.TemporaryDirectory() as profile:
        command = [chromium, *FLAGS, f"--user-data-dir={profile}", f"--window-size={SIZE}"]
        subprocess.run([*command, f"--screenshot={target}", page.as_uri()], check=True)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        page = Path(folder) / "report.html"
        page.write_text(digits_report(), encoding="utf-8")
        photograph(page, TARGET.resolve())
    Image.open(TARGET).convert("RGB").quantize(COLOURS, RARE_TOO).save(TARGET, optimize=True)
