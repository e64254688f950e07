"""Formulas and full-text queries: expressions of the three types, nested, over the items of the documents.

`docs/formula.md` lists the functions of the language; a test of the server compares the list with the program. Those
that are expensive have forms of their own here. All others are called with arguments of any type.
"""

import functools
import os
import re

from . import contents

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), os.pardir, os.pardir)
FORMULA_BYTES, QUERY_BYTES = 64 << 10, 4_096
DEPTH = 5
ITEMS = ("Body", "Subject", "Categories", "Names", "Many", "Numbers", "When", "Form", "From", "SendTo", "absent")

# {t} is a text, {l} a list, {n} a number, {s} a size up to the limits of an evaluation.
TEXTS = (
    "{t}",
    "@LowerCase({t})",
    "@UpperCase({t})",
    "@ProperCase({t})",
    "@Trim({l})",
    "@Repeat({t}; {s})",
    "@Implode({l}; {t})",
    "@ReplaceSubstring({t}; {l}; {l})",
    "@Left({t}; {t})",
    "@RightBack({t}; {t})",
    "@Middle({t}; {n}; {n})",
    "@Word({t}; {t}; {n})",
    "@Ascii({t})",
    "@Soundex({l})",
    '@URLEncode("utf-8"; {t})',
    '@URLDecode("utf-8"; {t})',
    '@Text({l}; "D0T0")',
    "@Name([Abbreviate]; {l})",
    "@Name([Canonicalize]; {t})",
    "{t} + {t}",
    "@If({n}; {t}; {t})",
    "@Subset({l}; {n})",
    "@Eval({q})",
    "@Max({l}; {l})",
)
LISTS = (
    "{l}",
    "{t}",
    "{l} : {l}",
    "@Explode({t}; {t})",
    "@Explode({t})",
    "@Sort({l})",
    "@Sort({l}; [CustomSort]; $A < $B)",
    "@Unique({l})",
    '@Transform({l}; "x"; {t})',
    "@Replace({l}; {l}; {l})",
    "@Keywords({l}; {l})",
    "@Keywords({t}; {l}; {t})",
    "{l} *+ {l}",
    "@Subset({l}; {s})",
    "@Trim({l})",
    "@LowerCase({l})",
    "@ReplaceSubstring({l}; {l}; {l})",
    "@Compare({l}; {l})",
    "@Repeat({l}; {s})",
    "@Left({l}; {t})",
    '@Explode(@TextToTime("1/1/1980-1/1/2200"))',
    "@Text({l})",
    "@TextToTime({l})",
    "@DocFields",
    '@DbColumn(""; ""; "By Category"; 1)',
    '@DbLookup(""; ""; "By Category"; {t}; 1)',
)
NUMBERS = (
    "{n}",
    "@Length({t})",
    "@Elements({l})",
    "@Sum(@Length({l}))",
    "@Member({t}; {l})",
    "@IsMember({l}; {l})",
    "@Contains({t}; {l})",
    "@Contains({l}; {l})",
    "@Begins({l}; {l})",
    "@Ends({l}; {l})",
    "@Matches({t}; {p})",
    "@Like({t}; {p})",
    "@Matches({l}; {p})",
    "{l} = {l}",
    "{l} *= {l}",
    "{l} < {l}",
    "@Count({l})",
    "@IsError({l})",
    "@BusinessDays(@Date(1900; 1; 1); @Date(2200; 1; 1))",
    "@For(i := 1; i < {s}; i := i + 1; v := {t})",
    "@While(@Length(w) < {s}; w := w + {t})",
    "@DoWhile(u := u + 1; u < {s})",
    "@CheckFormulaSyntax({q})",
    "@Sum({l})",
    "@Modulo({n}; 7)",
    "@IsTime({l})",
)
PATTERNS = ("*a*", "{!a}", "(a|b)*", "+a", "*?*?", "%a%", "_%", "a*b", "**", "\\a", "{a-z}*")


@functools.cache
def functions():
    """Returns the names of all functions and the numbers of their arguments."""
    with open(os.path.join(ROOT, "docs/formula.md"), encoding="utf-8") as page:
        found = re.findall(r"^\| `(@\w+)(?:\((.*?)\))?` \|", page.read(), re.MULTILINE)
    if len(found) < 100:
        raise RuntimeError("docs/formula.md has no list of functions")
    return [(name, len(arguments.split(";")) if arguments else 0) for name, arguments in found]


def expression(choices, kind, depth=DEPTH):
    """Returns an expression of a type: t, l or n."""
    if depth == 0 or choices.chance("leaf", 25):
        return leaf(choices, kind)
    if choices.chance("any function", 4):
        name, count = choices.one("function", functions())
        arguments = "; ".join(expression(choices, choices.one("argument", "tln"), depth - 1) for _ in range(count))
        return f"{name}({arguments})" if count else name
    form = choices.one(f"form {kind}", {"t": TEXTS, "l": LISTS, "n": NUMBERS}[kind])
    return re.sub(r"\{([tlnspq])\}", lambda found: _argument(choices, found.group(1), depth - 1), form)


def _argument(choices, kind, depth):
    if kind == "s":
        return str(choices.size("steps", 2_000_000))
    if kind == "q":
        return quoted(expression(choices, "t", min(depth, 1)))
    if kind == "p":
        return quoted(contents.repeated(choices.one("pattern", PATTERNS), choices.size("pattern size", 4_000)))
    return expression(choices, kind, depth)


def leaf(choices, kind):
    """Returns an item or a constant."""
    if kind == "n":
        return choices.one("number", ("1", "0", "-1", "2", "1000", "1E9", "Numbers"))
    if choices.chance("item", 70):
        return choices.one("item", ITEMS)
    if kind == "t":
        return quoted(choices.one("constant", ("a", "", " ", "x", "word", "\u0130", "ab")))
    unit = choices.one("element", ("a", "b", "x", "word", ""))
    return " : ".join(quoted(unit + str(number)) for number in range(choices.size("elements", 1_000)))


def quoted(text):
    """Returns a text as a constant of a formula."""
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def formula(choices, most=FORMULA_BYTES, lookups=True):
    """Returns the formula of a column: one expression, or many of the same kind. Views permit no lookups."""
    one = expression(choices, choices.one("type", "tln"))
    while not lookups and "@Db" in one:
        one = expression(choices, choices.one("type", "tln"))
    joint = choices.one("repeated with", (" : ", " + ", "; ", " & "))
    count = min(choices.size("repetitions", 2_000), max(1, most // (len(one.encode()) + 3)))
    text = joint.join([f"({one})"] * count) if count > 1 else one
    return text if len(text.encode()) <= most else "@All"


def selection(choices, most=FORMULA_BYTES, lookups=True):
    """Returns a selection formula."""
    kind = choices.one("selection", ("all", "responses", "formula", "formula"))
    if kind != "formula":
        return {"all": "SELECT @All", "responses": 'SELECT Form = "Topic" | @AllDescendants'}[kind]
    found = formula(choices, most - 100, lookups)
    return f'SELECT ({found}) != "absent"' if "; " not in found else found


def query(choices):
    """Returns a full-text query of up to 4,096 bytes."""
    kinds = [
        choices.one(
            "term",
            (
                "w",
                "w*",
                "*w",
                "*w*",
                "?w",
                "w?*",
                '"w w w"',
                "FIELD Subject CONTAINS w",
                "NOT w",
                "w NEAR/99 w",
                '"w w"~99',
                "Subject:*w*",
                "FIELD Numbers > 5",
                "date>=2001-01-01",
                "-w",
                "*",
                "body:w*",
            ),
        )
        for _ in range(choices.integer("terms", 1, 3))
    ]
    words = [choices.one("query word", (*contents.WORDS, "a", "x", "e", "\u6f22")) for _ in range(choices.integer("words", 1, 3))]
    joint = choices.one("joint", (" OR ", " AND ", " ", " NEAR "))
    depth = choices.size("query depth", 30, 0)
    count, left, terms = choices.size("query terms", 120), QUERY_BYTES - 2 * depth, []
    for number in range(count):
        term = kinds[number % len(kinds)].replace("w", words[number % len(words)])
        left -= len((term + joint).encode())
        if left < 0:
            break
        terms.append(term)
    return "(" * depth + (joint.join(terms) or "x") + ")" * depth
