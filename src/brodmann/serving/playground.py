"""The playground: one page that asks the server what its reader types."""

import base64
import hashlib
from importlib import resources


def page_and_policy() -> tuple[str, str]:
    """The page with its style and script, and the policy that allows these two alone."""
    own = resources.files("brodmann.serving") / "page"
    report = resources.files("brodmann.reporting") / "page"
    style = (report / "page.css").read_text("utf-8") + (own / "playground.css").read_text("utf-8")
    script = (own / "playground.js").read_text("utf-8")
    page = (own / "playground.html").read_text("utf-8")
    page = page.replace("{{ style }}", style).replace("{{ script }}", script)
    policy = (
        f"default-src 'none'; script-src '{_digest(script)}'; style-src '{_digest(style)}'; "
        "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    )
    return page, policy


def _digest(text: str) -> str:
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"
