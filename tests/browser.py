"""Pages in headless Chromium: what runs over the edge, and what the console says."""

import contextlib
import html
import json
import re
import shutil
import subprocess
import tempfile
from pathlib import Path

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
_FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync", "--hide-scrollbars",
    "--enable-logging=stderr", "--v=0",
    "--allow-file-access-from-files",
)  # fmt: skip
# Everything that is wider than the window, but for what lies in a box that scrolls by itself.
_PROBE = """
<script>
addEventListener("load", () => {
  const scrolls = (e) => e && (/(auto|scroll|hidden)/.test(getComputedStyle(e).overflowX) || scrolls(e.parentElement));
  const beyond = [...document.body.querySelectorAll("*")].filter((e) => {
    const box = e.getBoundingClientRect();
    return box.width > 0 && box.right > innerWidth + 1 && !scrolls(e.parentElement);
  }).map((e) => e.tagName + "." + e.getAttribute("class") + ": " + e.textContent.slice(0, 60));
  const found = document.createElement("pre");
  found.id = "probe";
  found.textContent = JSON.stringify({
    name: window.name, width: innerWidth, page: document.documentElement.scrollWidth, beyond,
    dark: matchMedia("(prefers-color-scheme: dark)").matches,
    maths: [...document.querySelectorAll("math")].filter((e) => e.getBoundingClientRect().width > 4).length,
  });
  document.body.append(found);
});
</script>
"""


def look_at(pages, widths, *, dark):
    """What a probe finds in pages, by name and width, and the lines of the console; one start of Chromium for all.

    Each page is in a frame of its width: a window of Chromium's own is never narrower than 500 pixels.
    """
    folder, probed, frames = Path(pages[0]).parent, [], []
    for page in map(Path, pages):
        copy = page.with_name(f"probe-{dark}-{page.name}")
        copy.write_text(page.read_text(encoding="utf-8").replace("</body>", f"{_PROBE}</body>"), encoding="utf-8")
        probed.append(copy)
        frames += [(page.name, width, copy.absolute().as_uri()) for width in widths]
    outer = folder / f"frames-{dark}-{Path(pages[0]).name}"
    loaded = "document.body.append(this.contentDocument.getElementById('probe').cloneNode(true))"
    plain = f'height="800" style="border:0" onload="{loaded}"'
    shown = (f'<iframe src="{where}" name="{name}" width="{width}" {plain}></iframe>' for name, width, where in frames)
    outer.write_text(f"<!doctype html><body>{''.join(shown)}", encoding="utf-8")
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        scheme = f"--blink-settings=preferredColorScheme={0 if dark else 1}"
        command = [CHROMIUM, *_FLAGS, scheme, f"--user-data-dir={profile}", "--dump-dom", outer.absolute().as_uri()]
        done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    for each in (*probed, outer):
        with contextlib.suppress(OSError):
            each.unlink()
    found = {}
    for text in re.findall(r'<pre id="probe">(.*?)</pre>', done.stdout, re.S):
        one = json.loads(html.unescape(text))
        found[one["name"], one["width"]] = one
    # What Chromium says of itself, such as that the machine is slow, is none of the page.
    return found, [line for line in done.stderr.splitlines() if "CONSOLE" in line and "source: chrome://" not in line]
