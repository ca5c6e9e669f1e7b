"""Markdown of models and of those who ask, as HTML that is safe in any page.

Raw HTML is shown as text. Everything passes nh3 at last, which lets the elements below through and nothing else: no
script, no style, no id, no image. What looks like an image becomes a link, so that no other host learns who reads.
"""

import html
import signal
from collections.abc import Sequence
from typing import Any, NamedTuple, NoReturn
from xml.etree import ElementTree as ET

import nh3
from latex2mathml.converter import convert_to_element
from markdown_it import MarkdownIt
from markdown_it.renderer import RendererHTML
from markdown_it.rules_inline import StateInline
from markdown_it.token import Token
from markdown_it.utils import EnvType, OptionsDict
from mdit_py_plugins.dollarmath import dollarmath_plugin
from pygments import highlight
from pygments.formatters import HtmlFormatter
from pygments.lexers import get_lexer_by_name
from pygments.util import ClassNotFound

_MATH = {
    "math", "merror", "mfrac", "mi", "mmultiscripts", "mn", "mo", "mover", "mpadded", "mphantom", "mprescripts",
    "mroot", "mrow", "mspace", "msqrt", "mstyle", "msub", "msubsup", "msup", "mtable", "mtd", "mtext", "mtr", "munder",
    "munderover",
}  # fmt: skip
_MATH_ATTRIBUTES = {"columnalign", "display", "fence", "form", "linethickness", "mathvariant", "stretchy", "width"}
_TAGS = {
    "a", "blockquote", "br", "code", "del", "div", "em", "h4", "h5", "h6", "hr", "li", "ol", "p", "pre", "s", "span",
    "strong", "table", "tbody", "td", "th", "thead", "tr", "ul",
}  # fmt: skip
_ATTRIBUTES = {
    "a": {"href", "title"},
    "div": {"class"},
    "ol": {"start"},
    "pre": {"tabindex"},
    "span": {"class"},
    **dict.fromkeys(_MATH, _MATH_ATTRIBUTES),
}
_SCHEMES = {"http", "https", "mailto"}
_LANGUAGES = {
    "bash", "c", "c++", "cpp", "csharp", "css", "diff", "docker", "dockerfile", "go", "haskell", "html", "ini", "java",
    "javascript", "js", "json", "jsx", "kotlin", "latex", "lua", "make", "markdown", "nginx", "perl", "php",
    "powershell", "py", "python", "python3", "r", "ruby", "rust", "scala", "sh", "shell", "sql", "swift", "toml", "ts",
    "tsx", "typescript", "xml", "yaml", "yml",
}  # fmt: skip
_LONGEST_CODE = 20_000  # characters; a longer block is shown without colours
_LONGEST_FORMULA = 1_000
_BELOW_THE_PAGE = 3  # levels: an answer's first heading is below those of the page

_FORMATTER = HtmlFormatter(nowrap=True)


def render_markdown(text: str) -> str:
    """Return Markdown as safe HTML, with tables, coloured code and MathML."""
    return nh3.clean(
        _MARKDOWN.render(text),
        tags=_TAGS | _MATH,
        attributes=_ATTRIBUTES,
        url_schemes=_SCHEMES,
        link_rel="nofollow noopener noreferrer",
        set_tag_attribute_values={"a": {"target": "_blank"}},
    )


MOST_HTML = 500_000
"""Characters: five times as many as the longest text has. A page of formulas grows twentyfold."""


class Rendered(NamedTuple):
    """A text as HTML and, where that is its source, why."""

    html: str
    refusal: str | None = None


class _TookTooLong(BaseException):  # code that catches every Exception must not catch it
    pass


def render_within(text: str, seconds: float) -> Rendered:
    """Return Markdown as HTML; its source where that takes more processor time, or becomes longer, than it may.

    In the main thread of a process that does nothing else: the time is the process's.
    """
    signal.signal(signal.SIGVTALRM, _end)
    try:
        signal.setitimer(signal.ITIMER_VIRTUAL, seconds)
        try:
            made = render_markdown(text)
        finally:
            signal.setitimer(signal.ITIMER_VIRTUAL, 0)
    except _TookTooLong:
        return show_source(text, f"it takes more than {seconds:g} seconds")
    except Exception as error:  # noqa: BLE001  a text that a library fails on must not hold up the others
        return show_source(text, repr(error)[:200])
    return Rendered(made) if len(made) <= MOST_HTML else show_source(text, f"its HTML has {len(made):,} characters")


def show_source(text: str, refusal: str) -> Rendered:
    """Return a text as it was written, as HTML."""
    return Rendered(f'<pre tabindex="0"><code>{html.escape(text, quote=False)}</code></pre>\n', refusal)


def _end(*_: object) -> NoReturn:
    raise _TookTooLong


def _highlight(code: str, language: str, _: str) -> str:
    if language.lower() not in _LANGUAGES or len(code) > _LONGEST_CODE:
        return ""
    try:
        coloured: str = highlight(code, get_lexer_by_name(language.lower()), _FORMATTER)
    except ClassNotFound:
        return ""
    return coloured


def _formula(source: str, options: dict[str, Any]) -> str:
    """Return a formula as MathML; as its source where it is not understood."""
    shown = f"<code>{html.escape(source)}</code>"
    if len(source) > _LONGEST_FORMULA:
        return shown
    try:
        element = convert_to_element(source, display="block" if options["display_mode"] else "inline")
    except Exception:  # noqa: BLE001  it raises many kinds for formulas that are cut off or unknown
        return shown
    for node in element.iter():
        if node.text:
            node.text = html.unescape(node.text)  # the library leaves entities for its own writer
    return ET.tostring(element, encoding="unicode")


def _bracketed_formula(state: StateInline, silent: bool) -> bool:
    r"""Read \( … \) and \[ … \]."""
    opening = state.src[state.pos : state.pos + 2]
    closing = {"\\(": "\\)", "\\[": "\\]"}.get(opening)
    if closing is None:
        return False
    begin = state.pos + 2
    end = state.src.find(closing, begin, begin + _LONGEST_FORMULA)
    if end < 0:
        return False
    if not silent:
        token = state.push("bracketed_formula", "math", 0)
        token.content, token.markup = state.src[begin:end].strip(), opening
    state.pos = end + 2
    return True


def _render_bracketed(
    _: RendererHTML, tokens: Sequence[Token], place: int, _options: OptionsDict, _env: EnvType
) -> str:
    token = tokens[place]
    return _formula(token.content, {"display_mode": token.markup == "\\["})


def _render_image(
    renderer: RendererHTML, tokens: Sequence[Token], place: int, options: OptionsDict, env: EnvType
) -> str:
    token = tokens[place]
    shown = renderer.renderInlineAsText(token.children, options, env) or "image"
    return f'<a href="{html.escape(str(token.attrs.get("src", "")))}">{html.escape(shown)}</a>'


def _render_fence(
    renderer: RendererHTML, tokens: Sequence[Token], place: int, options: OptionsDict, env: EnvType
) -> str:
    # A long line scrolls in its block, which the keyboard reaches by its tab stop.
    return renderer.fence(tokens, place, options, env).replace("<pre>", '<pre tabindex="0">', 1)


def _lower_headings(
    renderer: RendererHTML, tokens: Sequence[Token], place: int, options: OptionsDict, env: EnvType
) -> str:
    token = tokens[place]
    token.tag = f"h{min(6, int(token.tag[1:]) + _BELOW_THE_PAGE)}"
    return renderer.renderToken(tokens, place, options, env)


def _make_markdown() -> MarkdownIt:
    made = MarkdownIt("commonmark", {"html": False, "highlight": _highlight}).enable(["table", "strikethrough"])
    made.use(
        dollarmath_plugin,
        allow_labels=False,
        allow_space=False,
        allow_digits=False,
        allow_blank_lines=False,
        renderer=_formula,
    )
    made.inline.ruler.before("escape", "bracketed_formula", _bracketed_formula)
    for name, rule in {
        "bracketed_formula": _render_bracketed,
        "image": _render_image,
        "fence": _render_fence,
        "heading_open": _lower_headings,
        "heading_close": _lower_headings,
    }.items():
        made.add_render_rule(name, rule)
    return made


_MARKDOWN = _make_markdown()
