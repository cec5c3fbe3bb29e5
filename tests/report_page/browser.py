"""A headless Chromium that opens a page, runs a script on it, and tells what the script returns."""

import html
import json
import re
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Any

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
FLAGS = ("--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking", "--window-size=1500,850")
# Runs when the page is ready; an error is a result too.
FRAME = """<script>
(async () => {
  const rest = () => new Promise(done => setTimeout(done, 100));
  const until = async (what, holds) => {
    for (let n = 0; n < 100; n++) { if (holds()) return; await rest(); }
    throw new Error("never: " + what);
  };
  const click = element => {
    if (!element) throw new Error("nothing to click");
    element.dispatchEvent(new MouseEvent("click", {bubbles: true}));
  };
  const $ = (selector, from = document) => from.querySelector(selector);
  const $$ = (selector, from = document) => [...from.querySelectorAll(selector)];
  let result;
  try { await until("ready", () => document.body.dataset.ready); result = await (async () => { %s })(); }
  catch (error) { result = {error: String(error)}; }
  const told = document.createElement("pre"); told.id = "result"; told.textContent = JSON.stringify(result); document.body.append(told);
})();
</script></body>"""


def evaluate(page: Path, script: str, fragment: str = "") -> Any:
    """The value that `script`, the body of an async function, returns on the page."""
    copy = page.with_name(f"{page.stem}.probe.html")
    copy.write_text(page.read_text().replace("</body>", FRAME % script))
    with tempfile.TemporaryDirectory() as profile:
        what = ("--virtual-time-budget=30000", "--dump-dom", f"file://{copy}#{fragment}")
        done = run(profile, *what)
    found = re.search(r'<pre id="result">(.*?)</pre>', done.stdout, re.DOTALL)
    assert found, f"the script did not end: {done.stderr[-2000:]}"
    result = json.loads(html.unescape(found[1]))
    assert not (isinstance(result, dict) and "error" in result), result
    return result


def run(profile: str, *arguments: str) -> subprocess.CompletedProcess:
    command = [CHROMIUM, *FLAGS, f"--user-data-dir={profile}", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
