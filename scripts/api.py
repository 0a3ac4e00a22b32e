#!/usr/bin/env python3
"""The public interface of the library, a line an item, beside what api/ holds of it.

usage: scripts/api.py check     says what differs; exit code 1 if something does
       scripts/api.py renew     writes api/ anew

What `cargo doc` knows is written as JSON by the installed compiler. Types of ours stand with their whole path, others with
their name alone, so that another compiler version changes nothing.
"""

import difflib
import json
import os
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
API = ROOT / "api"
FOLDER = ROOT / "target" / "doc"


def crates():
    """Name of each crate that is published, and that of its library."""
    done = subprocess.run(["cargo", "metadata", "--format-version", "1", "--locked", "--no-deps"], cwd=ROOT, check=True,
                          stdout=subprocess.PIPE, text=True)
    for package in json.loads(done.stdout)["packages"]:
        if package["publish"] is None:
            yield package["name"], next(it["name"] for it in package["targets"] if "lib" in it["kind"])


def documents():
    """Has rustdoc write JSON; gives the documents by the crate's name."""
    found = dict(crates())
    only = [word for name in found for word in ("-p", name)]
    # JSON is an unstable form, which the stable compiler writes if it is told to.
    env = {**os.environ, "RUSTDOC": str(ROOT / "scripts" / "rustdoc_json.sh")}
    done = subprocess.run(["cargo", "doc", "--quiet", "--locked", "--no-deps", "--lib", *only], cwd=ROOT, env=env, check=False)
    if done.returncode != 0:
        sys.exit("cargo doc failed")
    for name, library in sorted(found.items()):
        yield name, json.loads((FOLDER / f"{library}.json").read_text())


class Interface:
    """The lines of one crate."""

    def __init__(self, document):
        self.index, self.paths = document["index"], document["paths"]
        self.lines, self.seen = set(), set()
        root = self.index[str(document["root"])]
        self.module(root, root["name"])

    def text(self):
        """In the order of paths."""
        place = {line: (re.search(r"(?<= )[\w:]*\w", line)[0], line) for line in self.lines}
        return "".join(f"{line}\n" for line in sorted(self.lines, key=place.get))

    def add(self, kind, rest):
        """A line."""
        self.lines.add(f"{kind} {rest}")

    # Items.

    def module(self, item, path):
        """What a module shows."""
        if (item["id"], path) in self.seen:
            return
        self.seen.add((item["id"], path))
        for number in item["inner"]["module"]["items"]:
            self.item(self.index.get(str(number)), path)

    def item(self, item, parent):
        """An item that is seen in `parent`."""
        if item is None or item["visibility"] != "public" and "macro" not in item["inner"]:
            return
        (kind, inner), = item["inner"].items()
        path = f"{parent}::{item['name']}"
        if kind == "module":
            self.add("mod", path)
            self.module(item, path)
        elif kind == "use":
            self.used(inner, parent)
        elif kind in ("struct", "union", "enum", "trait"):
            self.type_item(kind, inner, path)
        elif kind == "function":
            self.function(inner, path)
        elif kind == "type_alias":
            self.add("type", f"{path}{self.generics(inner['generics'])} = {self.type(inner['type'])}")
        elif kind == "constant":
            self.add("const", f"{path}: {self.type(inner['type'])}")
        elif kind == "static":
            self.add("static", f"{path}: {self.type(inner['type'])}")
        elif kind in ("macro", "proc_macro"):
            self.add("macro", path)
        else:
            sys.exit(f"{path}: an item of kind {kind}, which scripts/api.py does not know")

    def used(self, use, parent):
        """What is handed on: of this crate as if it stood here, of others by name."""
        target = self.index.get(str(use["id"]))
        if target is None:
            self.add("use", f"{parent}::{'*' if use['is_glob'] else use['name']} = {use['source']}")
        elif use["is_glob"]:
            if "module" in target["inner"]:
                self.module(target, parent)
            else:
                for number in target["inner"]["enum"]["variants"]:
                    self.variant(self.index[str(number)], parent)
        else:
            self.item({**target, "name": use["name"], "visibility": "public"}, parent)

    def type_item(self, kind, inner, path):
        """A struct, an enum or a trait, and what belongs to it."""
        bounds = self.bounds(inner["bounds"]) if kind == "trait" else ""
        head = f"{path}{self.generics(inner['generics'])}{': ' + bounds if bounds else ''}{self.where(inner['generics'])}"
        self.add(("unsafe " if inner.get("is_unsafe") else "") + kind, head)
        if kind == "trait":
            for number in inner["items"]:
                self.member(self.index[str(number)], path)
            return
        if kind == "enum":
            for number in inner["variants"]:
                self.variant(self.index[str(number)], path)
        else:
            self.fields(inner.get("kind", {"plain": {"fields": inner.get("fields", [])}}), path, only_public=True)
        self.implementations(inner["impls"], path)

    def variant(self, item, path):
        """A variant, with its fields."""
        path = f"{path}::{item['name']}"
        self.add("variant", path)
        self.fields(item["inner"]["variant"]["kind"], path, only_public=False)

    def fields(self, shape, path, only_public):
        """Fields of a struct or a variant."""
        if shape in ("unit", "plain"):
            return
        (kind, inner), = shape.items()
        for number in inner if kind == "tuple" else inner["fields"]:
            field = number is not None and self.index.get(str(number))
            if field and (field["visibility"] == "public" or not only_public):
                self.add("field", f"{path}::{field['name']}: {self.type(field['inner']['struct_field'])}")
        hidden = any(it is None for it in inner) if kind == "tuple" else inner.get("has_stripped_fields")
        if hidden:
            self.add("field", f"{path}::.. (private)")

    def implementations(self, impls, path):
        """Functions of a type, and the traits that it has: those of the type as it stands in one line."""
        traits = set()
        for number in impls:
            item = self.index.get(str(number))
            inner = item and item["inner"]["impl"]
            if not inner or inner["is_synthetic"] or inner["blanket_impl"] is not None:
                continue
            if inner["trait"] is None:
                for member in inner["items"]:
                    member = self.index.get(str(member))
                    if member and member["visibility"] == "public":
                        self.member(member, path)
                continue
            generics, kind = self.generics(inner["generics"]), self.type(inner["for"])
            trait = ("!" if inner["is_negative"] else "") + self.path(inner["trait"])
            if generics or "<" in kind:
                self.add("impl", f"{path}: {trait} for {kind} with {generics}{self.where(inner['generics'])}")
            # What `derive` adds besides, for the compiler's own sake.
            elif trait != "StructuralPartialEq":
                traits.add(trait)
        if traits:
            self.add("impl", f"{path}: {', '.join(sorted(traits))}")

    def member(self, item, path):
        """A function, a constant or a type of an implementation or of a trait."""
        (kind, inner), = item["inner"].items()
        path = f"{path}::{item['name']}"
        if kind == "function":
            self.function(inner, path)
        elif kind == "assoc_const":
            self.add("const", f"{path}: {self.type(inner['type'])}")
        else:
            value = f" = {self.type(inner['type'])}" if inner["type"] else ""
            self.add("type", f"{path}{self.generics(inner['generics'])}: {self.bounds(inner['bounds'])}{value}")

    def function(self, inner, path):
        """A function with its signature."""
        header = inner["header"]
        words = [word for word in ("const", "async", "unsafe") if header[f"is_{word}"]]
        given = "" if inner["has_body"] else " (required)"
        self.add("fn", f"{path}{self.generics(inner['generics'])}{self.signature(inner['sig'])}{self.where(inner['generics'])}"
                 f"{' ' + ' '.join(words) if words else ''}{given if header['abi'] == 'Rust' else ' extern'}")

    # Their types.

    def signature(self, sig):
        """Types alone: names of arguments may change."""
        output = f" -> {self.type(sig['output'])}" if sig["output"] else ""
        inputs = [self.type(kind) for _, kind in sig["inputs"]]
        if sig["inputs"] and sig["inputs"][0][0] == "self":
            inputs[0] = inputs[0].replace("Self", "self")
        return f"({', '.join(inputs)}){output}"

    def path(self, path):
        """A type or a trait by name, with its arguments."""
        known = self.paths.get(str(path["id"]))
        full = "::".join(known["path"]) if known else path["path"]
        ours = known and known["path"][0] not in ("core", "std", "alloc")
        return (full if ours else full.rpartition("::")[2]) + self.arguments(path["args"])

    def arguments(self, args):
        """`<...>` or `(...) -> ...`."""
        if not args or args == "return_type_notation":
            return ""
        if "parenthesized" in args:
            inner = args["parenthesized"]
            output = f" -> {self.type(inner['output'])}" if inner["output"] else ""
            return f"({', '.join(map(self.type, inner['inputs']))}){output}"
        inner = args["angle_bracketed"]
        words = [self.argument(it) for it in inner["args"]] + [self.constraint(it) for it in inner["constraints"]]
        return f"<{', '.join(words)}>" if words else ""

    def argument(self, it):
        """One of `<...>`."""
        if it == "infer":
            return "_"
        (kind, inner), = it.items()
        return self.type(inner) if kind == "type" else inner if kind == "lifetime" else inner["expr"]

    def constraint(self, it):
        """`Item = u8`."""
        (kind, inner), = it["binding"].items()
        if kind == "equality":
            return f"{it['name']} = {self.type(inner['type']) if 'type' in inner else inner['constant']['expr']}"
        return f"{it['name']}: {self.bounds(inner)}"

    def generics(self, generics):
        """What is between `<` and `>` of a declaration."""
        words = []
        for param in generics["params"]:
            (kind, inner), = param["kind"].items()
            if kind == "lifetime":
                words.append(param["name"])
            elif kind == "const":
                words.append(f"const {param['name']}: {self.type(inner['type'])}")
            elif not inner["is_synthetic"]:
                bounds = self.bounds(inner["bounds"])
                words.append(param["name"] + (f": {bounds}" if bounds else ""))
        return f"<{', '.join(words)}>" if words else ""

    def where(self, generics):
        """` where ...`."""
        words = []
        for predicate in generics["where_predicates"]:
            (kind, inner), = predicate.items()
            if kind == "bound_predicate":
                words.append(f"{self.type(inner['type'])}: {self.bounds(inner['bounds'])}")
            elif kind == "lifetime_predicate":
                words.append(f"{inner['lifetime']}: {' + '.join(inner['outlives'])}")
        return f" where {', '.join(words)}" if words else ""

    def bounds(self, bounds):
        """`A + B`."""
        words = []
        for bound in bounds:
            (kind, inner), = bound.items()
            if kind == "trait_bound":
                words.append(("?" if inner["modifier"] == "maybe" else "") + self.path(inner["trait"]))
            elif kind == "outlives":
                words.append(inner)
        return " + ".join(words)

    def type(self, it):
        """A type as it is written."""
        if it == "infer":
            return "_"
        (kind, inner), = it.items()
        if kind == "resolved_path":
            return self.path(inner)
        if kind in ("generic", "primitive"):
            return inner
        if kind == "tuple":
            return f"({', '.join(map(self.type, inner))})"
        if kind == "slice":
            return f"[{self.type(inner)}]"
        if kind == "array":
            return f"[{self.type(inner['type'])}; {inner['len']}]"
        if kind == "borrowed_ref":
            lifetime = f"{inner['lifetime']} " if inner["lifetime"] else ""
            return f"&{lifetime}{'mut ' if inner['is_mutable'] else ''}{self.type(inner['type'])}"
        if kind == "raw_pointer":
            return f"*{'mut' if inner['is_mutable'] else 'const'} {self.type(inner['type'])}"
        if kind == "impl_trait":
            return f"impl {self.bounds(inner)}"
        if kind == "dyn_trait":
            words = [self.path(bound["trait"]) for bound in inner["traits"]] + [inner["lifetime"]] * bool(inner["lifetime"])
            return f"dyn {' + '.join(words)}"
        if kind == "function_pointer":
            return f"fn{self.signature(inner['sig'])}"
        if kind == "qualified_path":
            trait = self.path(inner["trait"]) if inner["trait"] else ""
            return f"<{self.type(inner['self_type'])} as {trait}>::{inner['name']}"
        return sys.exit(f"a type of kind {kind}, which scripts/api.py does not know")


def check(texts):
    """Whether api/ says the same; shows what differs."""
    differ = []
    for name, text in texts.items():
        file = API / f"{name}.txt"
        kept = file.read_text() if file.exists() else ""
        if kept != text:
            differ.append(name)
            lines = difflib.unified_diff(kept.splitlines(), text.splitlines(), f"api/{name}.txt", "now", lineterm="", n=0)
            print("\n".join(lines))
    extra = sorted(file.name for file in API.glob("*.txt") if file.stem not in texts)
    if differ or extra:
        sys.exit(f"api: {', '.join(differ + extra)} differ from the committed interface. If that is meant: `make api-renew`, "
                 "and a line for library users in CHANGELOG.md")
    print(f"api: the interface of {len(texts)} crates is as committed, {sum(text.count(chr(10)) for text in texts.values())} items")


def renew(texts):
    """Writes what there is now."""
    API.mkdir(exist_ok=True)
    for file in API.glob("*.txt"):
        file.unlink()
    for name, text in texts.items():
        (API / f"{name}.txt").write_text(text)


def main():
    if sys.argv[1:] not in (["check"], ["renew"]):
        sys.exit(__doc__)
    texts = {name: Interface(document).text() for name, document in documents()}
    {"check": check, "renew": renew}[sys.argv[1]](texts)


main()
