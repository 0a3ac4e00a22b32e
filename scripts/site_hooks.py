"""Hooks of MkDocs: what the site has besides the pages of docs/, and what it checks besides MkDocs.

* README.md is the first page, CHANGELOG.md one of its own, and the help of every command the reference.
* A link out of docs/ (an experiment, a source file) leads to a page with that file's text.
* Anchors are made as GitHub makes them.
* A page that GitHub would show with other headings, lists, tables or code than the site has is an error: GitHub reads
  CommonMark, MkDocs's reader is older and wants, for one, empty lines before lists.
"""

import collections
import logging
import os
import re
import subprocess
from html.parser import HTMLParser
from pathlib import Path
from posixpath import dirname, join, normpath, relpath

from markdown_it import MarkdownIt
from mkdocs.structure.files import File

ROOT = Path(__file__).resolve().parent.parent
LINK = re.compile(r"(\]\()([^)\s#]+)(#[^)\s]*)?(\))")
FENCE = re.compile(r"^ *(```|~~~)")
LANGUAGES = {".toml": "toml", ".rs": "rust", ".py": "python", ".ipynb": "json", ".sh": "bash", ".pkt": "c"}
COUNTED = ("h1", "h2", "h3", "h4", "ul", "ol", "li", "table", "tr", "pre", "img", "blockquote")
log = logging.getLogger("mkdocs.hooks.site")


def on_config(config):
    """Anchors as GitHub makes them."""
    config.mdx_configs.setdefault("toc", {})["slugify"] = github_slug
    return config


def github_slug(text, separator):
    return re.sub(r"[^\w\- ]", "", text.strip().lower()).replace(" ", separator)


def on_files(files, config):
    """Adds README, changes, and every file outside docs/ that a page links to."""
    for name, page in (("README.md", "index.md"), ("CHANGELOG.md", "CHANGELOG.md")):
        files.append(File.generated(config, page, content=(ROOT / name).read_text()))
    files.append(File.generated(config, "reference/cli.md", content=command_line()))
    sources = set()
    for file in list(files.documentation_pages()):
        for line in prose(file.content_string):
            sources.update(path for _, path in outside(file.src_uri, line) if (ROOT / path).exists())
    for path in sorted(sources - {"README.md", "CHANGELOG.md"}):
        files.append(File.generated(config, f"source/{path}.md", content=source_page(path)))
    return files


def on_page_markdown(markdown, page, config, files):
    """Turns links out of docs/ into links to the pages made of what they lead to."""
    lines, code = [], False
    for line in markdown.split("\n"):
        code ^= bool(FENCE.match(line))
        lines.append(line if code else LINK.sub(lambda found: turned(found, page.file.src_uri), line))
    return "\n".join(lines)


def on_page_content(html, page, config, files):
    """Compares what stands on the page with what CommonMark, as GitHub has it, makes of the same text."""
    ours, theirs = shape(html), shape(MarkdownIt("commonmark").enable(["table", "strikethrough"]).render(page.markdown))
    if ours != theirs:
        differs = {tag: (ours[tag], theirs[tag]) for tag in COUNTED if ours[tag] != theirs[tag]}
        log.warning("%s: GitHub shows it otherwise (here, there): %s", page.file.src_uri, differs)


def command_line():
    """The reference of the command line, from what clap prints as help of each command."""
    overall = help_of()
    commands = re.findall(r"^  (\w+) +(.+)$", overall.split("Commands:\n")[1].split("\n\n")[0], re.M)
    commands = [(name, about) for name, about in commands if name != "help"]
    page = ["# Command line", "From the help of the program: `ackwright --help`, `ackwright COMMAND --help`."]
    page.append("\n".join(f"* [`{name}`](#ackwright-{name}): {about}" for name, about in commands))
    page.append("```text\n" + overall[overall.index("Exit codes:"):].rstrip() + "\n```")
    for name, _ in commands:
        about, *sections = help_of(name).rstrip().split("\n\n")
        page += [f"## ackwright {name}", f"{about}.", *help_sections("\n\n".join(sections))]
    return "\n\n".join(page) + "\n"


def help_sections(text):
    """Arguments and options of a command as lists, all else as clap has it."""
    parts = re.split(r"^(Arguments|Options):\n", text, flags=re.M)
    yield f"```text\n{parts[0].rstrip()}\n```"
    for kind, body in zip(parts[1::2], parts[2::2]):
        listed, rest = [], []
        for line in body.split("\n"):
            if found := re.match(r" {2,6}(-\S.*?|<\S.*?|\[\S.*?)(?: {2,}(.*))?$", line):
                listed.append([found[1], [found[2] or ""]])
            elif line.startswith("   ") and listed and not rest:
                listed[-1][1].append(line.strip())
            elif line.strip() or rest:
                rest.append(line)
        yield f"**{kind}**"
        yield "\n".join(f"* `{what}`: {escaped(' '.join(filter(None, about)))}" for what, about in listed)
        if rest:
            yield "```text\n" + "\n".join(rest).strip("\n") + "\n```"


def escaped(text):
    """A help text without what Markdown would take for its own, and with its possible values in one sentence."""
    text = re.sub(r" - (\w+): +", r"; \1: ", text).replace(" Possible values:;", ". Possible values:")
    return re.sub(r"([<>*_\[\]])", r"\\\1", text)


def help_of(*command):
    words = [ROOT / os.environ.get("ACKWRIGHT", "target/release/ackwright"), *command, "--help"]
    return subprocess.run(words, check=True, capture_output=True, text=True).stdout


def prose(text):
    """The lines of a page that are no code."""
    code = False
    for line in text.split("\n"):
        code ^= bool(FENCE.match(line))
        if not code:
            yield line


def place(page):
    """Where a page's file lies, from the root of the repository."""
    return {"index.md": "README.md", "CHANGELOG.md": "CHANGELOG.md"}.get(page, f"docs/{page}")


def outside(page, line):
    """Links of a line that lead out of docs/: as they are written, and from the root."""
    for found in LINK.finditer(line):
        if not re.match(r"[a-z]+:", found[2]):
            path = normpath(join(dirname(place(page)), found[2]))
            if not path.startswith("docs/"):
                yield found[2], path


def turned(found, page):
    """A link as it is on the site."""
    target = found[2]
    if re.match(r"[a-z]+:", target) or page.startswith("source/"):
        return found[0]
    path = normpath(join(dirname(place(page)), target))
    if path.startswith("docs/"):
        there = path.removeprefix("docs/")
    elif path in ("README.md", "CHANGELOG.md"):
        there = {"README.md": "index.md"}.get(path, path)
    elif (ROOT / path).exists():
        there = f"source/{path}.md"
    else:
        log.warning("%s: there is no %s", page, path)
        return found[0]
    return f"{found[1]}{relpath(there, dirname(page) or '.')}{found[3] or ''}{found[4]}"


def source_page(path):
    """A page with a file's text, or with the names of what a folder holds."""
    file = ROOT / path
    if file.is_dir():
        names = "\n".join(f"* `{entry.name}`" for entry in sorted(file.iterdir()))
        return f"# {path}\n\n{names}\n"
    text = file.read_text()
    if file.suffix == ".md":
        return text
    return f"# {path}\n\n````{LANGUAGES.get(file.suffix, 'text')}\n{text.rstrip()}\n````\n"


class Tags(HTMLParser):
    def __init__(self):
        super().__init__()
        self.counts = collections.Counter()

    def handle_starttag(self, tag, attrs):
        self.counts[tag] += 1


def shape(html):
    """How often each tag that makes a page's shape is there."""
    tags = Tags()
    tags.feed(html)
    return collections.Counter({tag: tags.counts[tag] for tag in COUNTED})
