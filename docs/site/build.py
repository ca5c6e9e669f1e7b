"""Build the documentation as a site, in `site/`: `make site`.

The builder lives in `.venv-site`, made from `docs/site/requirements.txt` (pinned, hashed). It is strict: a link to a
page or a heading that does not exist fails. Then every address in the site is looked up: nothing may come from another
host.
"""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
VENV, SITE, BUILD = ROOT / ".venv-site", ROOT / "site", ROOT / ".site-build"
REQUIREMENTS = HERE / "requirements.txt"
BESIDE = {"README.md": "index.md"}
"""Pages that have another name in the site. Those of docs/ lie at its root, others where they are."""

_LINK = re.compile(r"(\]\()([^)\s#:]+)((?:#[^)\s]*)?\))")
_ADDRESS = re.compile(r"""<(?P<element>[a-z]+)[^>]*?\s(?:href|src)=["']?(?P<address>[^"'\s>]+)""")
_FROM_ELSEWHERE = re.compile(r"(?:https?:)?//")


class SiteError(Exception):
    """The site would have a broken link, or would ask another host for something."""


def stage_pages(pages: Path) -> None:
    """Copy everything that the site shows, with the links as they are there."""
    beside = ("README.md", "CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md")
    beside += ("examples/arena/README.md", "clients/python/README.md")
    sources = [ROOT / name for name in beside]
    sources += [path for path in sorted((ROOT / "docs").rglob("*.md")) if HERE not in path.parents]
    for source in sources:
        target = pages / place_of(source)
        target.parent.mkdir(parents=True, exist_ok=True)
        text = _LINK.sub(lambda found, source=source: _relink(found, source, pages), source.read_text(encoding="utf-8"))  # type: ignore[misc]
        target.write_text(text, encoding="utf-8")


def place_of(source: Path) -> Path:
    """Return where a file of the project is in the site."""
    name = source.relative_to(ROOT)
    return Path(BESIDE.get(str(name), str(name).removeprefix("docs/")))


def check_site(site: Path) -> int:
    """Look up every address of the site and return their number.

    Raises
    ------
    SiteError
        A file does not exist, or a page loads something from another host.
    """
    number, wrong = 0, []
    for page in sorted(site.rglob("*.html")):
        for found in _ADDRESS.finditer(page.read_text(encoding="utf-8")):
            address, number = found["address"], number + 1
            if _FROM_ELSEWHERE.match(address):
                if found["element"] != "a":
                    wrong.append(f"{page.name} loads {address}")
            elif not address.startswith(("#", "data:", "mailto:")):
                path = address.partition("#")[0].partition("?")[0]
                target = site / path.lstrip("/") if path.startswith("/") else page.parent / path
                if page.name != "404.html" and not target.exists():
                    wrong.append(f"{page.name} has a link to {address}, which does not exist")
    if wrong:
        raise SiteError("\n".join(wrong))
    return number


def make_environment() -> Path:
    """Create the builder's environment where it is missing or older than its requirements."""
    python, done = VENV / "bin" / "python", VENV / "ready"
    if not done.exists() or done.stat().st_mtime < REQUIREMENTS.stat().st_mtime:
        subprocess.run([sys.executable, "-m", "venv", "--clear", VENV], check=True)
        install = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        subprocess.run([*install, "--require-hashes", "--requirement", str(REQUIREMENTS)], check=True)
        done.touch()
    return VENV / "bin" / "zensical"


def build(builder: Path) -> None:
    """Build the site, check it, and put it in place."""
    shutil.rmtree(BUILD, ignore_errors=True)
    stage_pages(BUILD / "pages")
    shutil.copy(HERE / "zensical.toml", BUILD)
    subprocess.run([builder, "build", "--strict", "--clean"], cwd=BUILD, check=True)
    number = check_site(BUILD / "site")
    shutil.rmtree(SITE, ignore_errors=True)
    (BUILD / "site").rename(SITE)
    shutil.rmtree(BUILD)
    size = sum(file.stat().st_size for file in SITE.rglob("*") if file.is_file())
    print(f"{SITE}: {len(list(SITE.rglob('*.html')))} pages, {number:,} addresses, {size / 1e6:.1f} MB")


def _relink(found: re.Match[str], source: Path, pages: Path) -> str:
    target = (source.parent / found[2]).resolve()
    if ROOT not in target.parents or not target.exists():
        return found[0]  # the builder says what is wrong with it
    place = place_of(target)
    if target.is_dir():
        raise SiteError(f"{source.name} links to the folder {found[2]}")
    if target.suffix != ".md" and not (pages / place).exists():
        (pages / place).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(target, pages / place)
    return f"{found[1]}{os.path.relpath(place, place_of(source).parent)}{found[3]}"


if __name__ == "__main__":
    try:
        build(make_environment())
    except (SiteError, subprocess.CalledProcessError) as error:
        sys.exit(f"error: {error}")
