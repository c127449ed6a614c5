"""The report in a real browser, Chromium driven by Selenium; skipped where there is none."""

import json
import shutil
import tempfile

import numpy as np
import pytest
from sklearn.datasets import make_moons

from onefit import LapRLSClassifier, LapRLSRegressor, ManifoldSearchCV
from onefit.datasets import load_penguins, make_partially_labeled
from onefit.report import render_report

webdriver = pytest.importorskip("selenium.webdriver", reason="selenium is not installed")
from selenium.webdriver.common.action_chains import ActionChains  # noqa: E402
from selenium.webdriver.common.by import By  # noqa: E402
from selenium.webdriver.common.keys import Keys  # noqa: E402
from selenium.webdriver.support.select import Select  # noqa: E402

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
DRIVER = shutil.which("chromedriver")
pytestmark = pytest.mark.skipif(
    not (CHROMIUM and DRIVER),
    reason="chromium and chromedriver are not installed (Debian: chromium, chromium-driver)",
)
FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
)
HOSTILE = '</script><script>window.hacked=1</script><img src=x onerror="window.hacked=1">\'&'

#: Text whose colour is too close to what is behind it: (text, ratio).
CONTRAST = """
const channels = (text) => (text.match(/[\\d.]+/g) || []).map(Number);
const luminance = (rgb) => {
  const [r, g, b] = rgb.slice(0, 3).map((v) => v / 255)
    .map((v) => (v <= 0.04045 ? v / 12.92 : Math.pow((v + 0.055) / 1.055, 2.4)));
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
};
function behind(node) {
  for (let at = node; at; at = at.parentElement) {
    const rgba = channels(getComputedStyle(at).backgroundColor);
    if (rgba.length === 3 || rgba[3] > 0) return rgba;
  }
  return [255, 255, 255];
}
const found = [];
let checked = 0;
for (const details of document.querySelectorAll("details")) details.open = true;
const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
while (walker.nextNode()) {
  const node = walker.currentNode.parentElement;
  if (!walker.currentNode.data.trim() || node.closest("script, noscript, option, title")) continue;
  if (node.closest("[aria-hidden=true]") || !node.getClientRects().length) continue;
  const style = getComputedStyle(node);
  const ink = channels(node.ownerSVGElement ? style.fill : style.color);
  const [a, b] = [luminance(ink), luminance(behind(node))];
  const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
  checked += 1;
  if (ratio < 4.5) found.push([walker.currentNode.data.trim(), ratio]);
}
return [checked, found];
"""


@pytest.fixture(scope="module")
def browser():
    options = webdriver.ChromeOptions()
    options.binary_location = CHROMIUM
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        for flag in (*FLAGS, f"--user-data-dir={profile}"):
            options.add_argument(flag)
        service = webdriver.ChromeService(executable_path=DRIVER)
        made = webdriver.Chrome(options=options, service=service)
        yield made
        made.quit()


def penguin_page():
    X, truth = load_penguins(return_X_y=True)
    y = make_partially_labeled(truth, n_labeled=24, random_state=0)
    grid = {
        "ambient_penalty": [1e-4, 1e-2, 1.0],
        "manifold_penalty": [0.0, 1.0, 100.0, 1e4],
        "kernel_width": [100.0, 10_000.0, 1e6],
        "laplacian": ["unnormalized", "normalized"],
    }
    search = ManifoldSearchCV(LapRLSClassifier(), grid, random_state=0).fit(X, y)
    text = render_report(
        search,
        X,
        y,
        title="Penguins",
        target_name="species",
        baselines=[("most frequent class", 0.44, 0.05)],
        command="onefit select penguins.csv --target species --report report.html",
    )
    return search, text


def hostile_page():
    pandas = pytest.importorskip("pandas")
    X, truth = make_moons(60, noise=0.1, random_state=0)
    X = pandas.DataFrame(X, columns=[HOSTILE, "b"])
    y = np.where(np.arange(60) < 20, np.array([HOSTILE, "plain"], dtype=object)[truth], None)
    grid = {
        "ambient_penalty": [1e-3, 0.1],
        "manifold_penalty": [0.0, 1.0],
        "class_weight": [None, {HOSTILE: 2.0, "plain": 1.0}],
    }
    search = ManifoldSearchCV(LapRLSClassifier(), grid, cv=4).fit(X, y)
    names = {"title": HOSTILE, "target_name": HOSTILE, "notes": [HOSTILE], "command": HOSTILE}
    return search, render_report(search, X, y, baselines=[(HOSTILE, 0.5, 0.1)], **names)


def regression_page():
    X, _ = make_moons(80, noise=0.1, random_state=0)
    y = np.where(np.arange(80) < 30, 1e6 * X[:, 0], np.nan)
    grid = {"ambient_penalty": np.geomspace(1e-6, 1.0, 30).tolist(), "kernel_width": [0.1, 1.0]}
    scoring = "neg_mean_squared_error"
    search = ManifoldSearchCV(LapRLSRegressor(), grid, cv=5, scoring=scoring).fit(X, y)
    return search, render_report(search, X, y, title="Values", target_name="value")


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    folder = tmp_path_factory.mktemp("report")
    made = {}
    makers = {"penguins": penguin_page, "hostile": hostile_page, "regression": regression_page}
    for name, make in makers.items():
        search, text = make()
        path = folder / f"{name}.html"
        path.write_text(text, encoding="utf-8")
        made[name] = (search, path.as_uri())
    return made


def emulate(browser, *, width=1100, scheme="light"):
    features = [{"name": "prefers-color-scheme", "value": scheme}]
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})
    size = {"width": width, "height": 800, "deviceScaleFactor": 1, "mobile": width < 500}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)


def load(browser, pages, name, **media):
    emulate(browser, **media)
    for kind in ("browser", "performance"):
        browser.get_log(kind)
    search, address = pages[name]
    browser.get(address)
    return search


def requests(browser):
    messages = [json.loads(entry["message"])["message"] for entry in browser.get_log("performance")]
    return [
        message["params"]["request"]["url"]
        for message in messages
        if message["method"] == "Network.requestWillBeSent"
    ]


def candidates(browser):
    """Candidate of every cell, in the order of the page."""
    cells = browser.find_elements(By.CSS_SELECTOR, "#heat [role=gridcell]")
    return [int(cell.get_attribute("data-candidate")) for cell in cells]


def readout(browser):
    return browser.find_element(By.ID, "readout").text


@pytest.mark.parametrize("name", ["penguins", "hostile", "regression"])
def test_loads_without_errors_and_without_the_network(browser, pages, name):
    load(browser, pages, name)
    assert browser.get_log("browser") == []
    asked = requests(browser)
    assert asked[0] == pages[name][1]
    assert all(url.startswith("data:") for url in asked[1:])
    assert browser.find_elements(By.CSS_SELECTOR, "#heat [role=gridcell]")


def test_heat_map_starts_at_the_choice(browser, pages):
    search = load(browser, pages, "penguins")
    assert len(candidates(browser)) == 12
    for index in candidates(browser):
        params = search.cv_results_["params"][index]
        for name in ("kernel_width", "laplacian"):
            assert params[name] == search.best_params_[name]
    chosen = browser.find_element(By.CSS_SELECTOR, "#heat .best")
    assert int(chosen.get_attribute("data-candidate")) == search.best_index_
    assert f"{search.best_score_:.3f}" in readout(browser)
    assert "(chosen)" in readout(browser)


def test_selectors_change_the_heat_map(browser, pages):
    search = load(browser, pages, "penguins")
    before = candidates(browser)
    labels = browser.find_elements(By.CSS_SELECTOR, "#controls label")
    assert [label.text for label in labels] == ["kernel_width", "laplacian"]
    width, laplacian = (
        Select(part) for part in browser.find_elements(By.CSS_SELECTOR, "#controls select")
    )
    laplacian.select_by_visible_text("normalized")
    width.select_by_index(0)
    after = candidates(browser)
    assert after != before
    cells = browser.find_elements(By.CSS_SELECTOR, "#heat [role=gridcell]")
    for index, cell in zip(after, cells, strict=True):
        params = search.cv_results_["params"][index]
        assert params["laplacian"] == "normalized"
        assert params["kernel_width"] == 100.0
        mean, std = (search.cv_results_[f"{k}_test_score"][index] for k in ("mean", "std"))
        assert f"accuracy {mean:.3f} ± {std:.3f}" in cell.get_attribute("aria-label")
    browser.find_element(By.ID, "to-best").click()
    assert candidates(browser) == before


def test_table_has_the_same_numbers(browser, pages):
    search = load(browser, pages, "penguins")
    browser.find_element(By.CSS_SELECTOR, "#surface details summary").click()
    cells = browser.find_elements(By.CSS_SELECTOR, "#plain td:not(.corner)")
    shown = [cell.text for cell in cells]
    columns = search.cv_results_
    assert shown == [
        f"{columns['mean_test_score'][i]:.3f} ± {columns['std_test_score'][i]:.3f}"
        for i in candidates(browser)
    ]


def test_keyboard_walks_through_the_cells(browser, pages):
    load(browser, pages, "penguins")
    cells = candidates(browser)

    def active():
        return int(browser.switch_to.active_element.get_attribute("data-candidate"))

    # From the last control, Tab leads to one cell, and the next Tab out of the picture.
    browser.find_element(By.ID, "to-best").send_keys(Keys.TAB)
    assert active() in cells
    browser.switch_to.active_element.send_keys(Keys.CONTROL, Keys.HOME)
    assert active() == cells[0]
    for key, expected in (
        (Keys.ARROW_RIGHT, 1),
        (Keys.ARROW_DOWN, 4),
        (Keys.END, 5),
        (Keys.ARROW_RIGHT, 5),
        (Keys.HOME, 3),
        (Keys.ARROW_UP, 0),
        (Keys.ARROW_UP, 0),
    ):
        browser.switch_to.active_element.send_keys(key)
        assert active() == cells[expected]
        label = browser.switch_to.active_element.get_attribute("aria-label")
        assert readout(browser) == label
    outline = browser.execute_script("return getComputedStyle(document.activeElement).outlineStyle")
    assert outline == "solid"
    assert len(browser.find_elements(By.CSS_SELECTOR, "#heat [tabindex='0']")) == 1
    browser.switch_to.active_element.send_keys(Keys.TAB)
    assert browser.switch_to.active_element.tag_name == "summary"


def test_hovering_shows_the_score(browser, pages):
    load(browser, pages, "penguins")
    cell = browser.find_elements(By.CSS_SELECTOR, "#heat [role=gridcell]")[7]
    ActionChains(browser).move_to_element(cell).perform()
    assert readout(browser) == cell.get_attribute("aria-label")


def test_hostile_names_run_nothing(browser, pages):
    load(browser, pages, "hostile")
    select = browser.find_element(By.CSS_SELECTOR, "#controls select")
    Select(select).select_by_index(1)
    assert browser.execute_script("return window.hacked") is None
    assert browser.find_elements(By.CSS_SELECTOR, "img") == []
    assert browser.find_element(By.TAG_NAME, "h1").text == HOSTILE
    assert browser.title == HOSTILE
    assert browser.get_log("browser") == []


def test_policy_refuses_what_could_be_slipped_in(browser, pages):
    load(browser, pages, "penguins")
    browser.execute_script(
        "const s = document.createElement('script'); s.textContent = 'window.hacked = 1';"
        "document.body.append(s);"
        "const i = document.createElement('img'); i.src = 'https://example.org/x.png';"
        "document.body.append(i);"
    )
    assert browser.execute_script("return window.hacked") is None
    refused = [entry["message"] for entry in browser.get_log("browser")]
    assert len(refused) == 2
    assert all("Content Security Policy" in message for message in refused)


@pytest.mark.parametrize("name", ["penguins", "hostile", "regression"])
def test_no_horizontal_scroll_on_a_phone(browser, pages, name):
    load(browser, pages, name, width=375)
    browser.execute_script("for (const d of document.querySelectorAll('details')) d.open = true")
    assert browser.execute_script("return document.documentElement.scrollWidth") <= 375
    wide = browser.execute_script(
        "return [...document.querySelectorAll('main *, header *')].filter((e) =>"
        "!e.closest('.scroll, svg, .skip') && e.getBoundingClientRect().right > 375.5)"
        ".map((e) => e.outerHTML.slice(0, 200))"
    )
    assert wide == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("name", ["penguins", "regression"])
def test_text_has_contrast(browser, pages, name, scheme):
    load(browser, pages, name, scheme=scheme)
    checked, faint = browser.execute_script(CONTRAST)
    assert checked > 100
    assert faint == []


def test_dark_is_dark(browser, pages):
    colours = []
    for scheme in ("light", "dark"):
        load(browser, pages, "penguins", scheme=scheme)
        colours.append(
            browser.execute_script("return getComputedStyle(document.body).backgroundColor")
        )
    assert colours == ["rgb(253, 253, 252)", "rgb(22, 24, 28)"]
