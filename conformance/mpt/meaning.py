"""Compares the responses of a server with those that a script expects, by meaning.

The comparison includes the status of a command, the response codes in the script, and all data. It excludes what the
RFCs leave to the server:

- the human-readable text after a status;
- NO or BAD for a command that cannot be executed;
- the order of untagged responses, and of the items in a FETCH response;
- quotes around a string that could be an atom;
- the order of flags;
- attributes of LIST beyond the expected ones;
- RECENT, if only one side has it;
- flags that a server offers beyond the expected ones;
- the number of a UIDVALIDITY.

EXPUNGE responses are compared by the messages that they remove and the number of messages that remain, because a server
may expunge in either direction, and report new messages before or after.
"""

import itertools
import re

LIST_ATTRIBUTES = {"\\noselect", "\\noinferiors", "\\haschildren", "\\hasnochildren", "\\subscribed", "\\nonexistent",
                   "\\archive", "\\drafts", "\\junk", "\\sent", "\\trash"}
TAGGED = re.compile(r"^([A-Za-z0-9][A-Za-z0-9.\\]*) (OK\b|NO\b|BAD\b|\(\.\)\*|\.\*)(.*)$", re.S)
STATUS = re.compile(r"^(\\\*|\\\+)( OK| NO| BAD| BYE| PREAUTH|)(?: (\\\[.*?\\\]))?", re.S)
# Responses that a server may send beyond the expected ones.
WELCOME = re.compile(r"\* (OK \[|CAPABILITY |FLAGS |\d+ RECENT|ENABLED|((LIST|LSUB|XLIST) \([^)]*\) \S+|STATUS) \"?(Sent|Drafts|Trash|Junk|Archive|Outbox)\b)", re.I)
PERMUTED_ITEMS_MAX = 6


class Unlike(Exception):
    """The responses do not have the meaning that the script expects."""


def group(lines):
    """Groups the lines of a script by response; a response with literals has several lines."""
    answers = []
    for line in lines:
        begins = re.match(r"(\\\*|\\\+)( |$)", line) or TAGGED.match(line) or line == ".*"
        if begins or not answers:
            answers.append([line])
        else:
            answers[-1].append(line)
    return answers


def tag_of(answer):
    """Returns the tag of an expected response, or None if it is untagged."""
    found = TAGGED.match(answer[0])
    return re.sub(r"\\(.)", r"\1", found.group(1)) if found else None


def compare(expected, actual):
    """Raises `Unlike` unless the responses have the meaning that the script expects."""
    if expected == [[".*"]]:
        return
    if not any(is_recent(answer) for answer in actual):
        # A server need not repeat RECENT, for example after an expunge.
        expected = [answer for answer in expected if not is_recent(answer[0])]
    counted = any(is_expunge(answer[0]) for answer in expected)
    wanted = [answer for answer in expected if not is_expunge(answer[0]) and not (counted and is_exists(answer[0]))]
    given = [answer for answer in actual if not is_expunge(answer) and not (counted and is_exists(answer))]
    fitting = [[i for i, one in enumerate(given) if matcher(one)] for matcher in map(matcher_for, wanted)]
    taken = pair_up(fitting)
    for answer, choices in zip(wanted, fitting):
        if not choices:
            raise Unlike(f"nothing like {' / '.join(answer)!r} among {shown(given)}")
    if len(taken) < len(wanted):
        raise Unlike(f"not enough answers: {shown(given)} for {wanted}")
    given = [one for i, one in enumerate(given) if i not in taken]
    more = [one for one in given if not WELCOME.match(one)]
    if more:
        raise Unlike(f"not expected: {shown(more)}")
    if counted and None not in (final_size(a[0] for a in expected), final_size(actual)) and final_size(a[0] for a in expected) != final_size(actual):
        raise Unlike(f"the mailbox has {final_size(actual)} messages, and not {final_size(a[0] for a in expected)}")
    gone_expected = gone([a[0] for a in expected if is_expunge(a[0])])
    gone_actual = gone([a for a in actual if is_expunge(a)])
    if gone_expected != gone_actual:
        raise Unlike(f"expunged were {gone_actual}, and not {gone_expected}")


def compare_with_ours(pattern, expected, actual):
    """Raises `Unlike` unless one of the responses matches `pattern`, the known response of Doublet.

    If that is not the tagged response, the tagged response must be the one that the script expects.
    """
    fitting = [answer for answer in actual if re.fullmatch(pattern, answer, re.S)]
    if not fitting:
        raise Unlike(f"nothing like {pattern!r} among {shown(actual)}")
    ends = [answer[0] for answer in expected if tag_of(answer)]
    if ends and actual[-1] not in fitting and not re.fullmatch(status_pattern(ends[-1]), actual[-1], re.I | re.S):
        raise Unlike(f"the command ended with {actual[-1]!r}")


def pair_up(fitting):
    """Assigns to each expected response one that matches it, to as many as possible (augmenting paths).

    Returns a map from the index of the assigned response to that of the expected one.
    """
    taken = {}

    def place(wanted, seen):
        for choice in fitting[wanted]:
            if choice not in seen:
                seen.add(choice)
                if choice not in taken or place(taken[choice], seen):
                    taken[choice] = wanted
                    return True
        return False

    for wanted in range(len(fitting)):
        place(wanted, set())
    return taken


def is_expunge(line):
    """Returns True if a line, expected or actual, is an EXPUNGE response."""
    return re.match(r"\\?\* \d+ EXPUNGE", line, re.I) is not None


def is_exists(line):
    """Returns True if a line, expected or actual, is an EXISTS response with a number."""
    return re.match(r"\\?\* \d+ EXISTS", line, re.I) is not None


def is_recent(line):
    """Returns True if a line, expected or actual, is a RECENT response."""
    return re.match(r"\\?\* \S+ RECENT", line, re.I) is not None


def without_recent(expected):
    """Returns the expected responses without RECENT and \\Recent."""
    def plain(line):
        return re.sub(r" ?\\\\Recent(?= |\\\))", "", line).replace("\\( ", "\\(")
    return [[plain(line) for line in answer] for answer in expected if not is_recent(answer[0])]


def final_size(lines):
    """Returns the number of messages after a sequence of EXISTS and EXPUNGE responses, or None without EXISTS."""
    size = None
    for line in lines:
        if is_exists(line):
            size = int(re.search(r"\d+", line).group())
        elif is_expunge(line) and size is not None:
            size -= 1
    return size


def gone(lines):
    """Returns the messages that a sequence of EXPUNGE responses removes, by their numbers before the first one."""
    removed = []
    for line in lines:
        number = int(re.search(r"\d+", line).group())
        for earlier in sorted(removed):
            if earlier <= number:
                number += 1
        removed.append(number)
    return sorted(removed)


def matcher_for(answer):
    """Returns a predicate for one expected response."""
    first = re.sub(r"(?<=UIDVALIDITY )\d+", r"\\d+", answer[0])
    if first == ".*":
        return lambda given: True
    flags = re.match(r"\\\* (?:FLAGS|OK \\\[PERMANENTFLAGS) \\\((.*?)\\\)", first)
    if flags:
        wanted = set(re.sub(r"\\(.)", r"\1", re.sub(r"\(.*", "", flags.group(1))).lower().split()) - {"\\recent"}
        kind = "* FLAGS " if first.startswith("\\* FLAGS") else "* OK [PERMANENTFLAGS "
        # A mailbox opened with EXAMINE has no permanent flags.
        return lambda given: given.startswith("* OK [PERMANENTFLAGS ()]" if kind.startswith("* OK") else "-") or given.startswith(kind) and wanted <= set(given.lower().replace("(", " ").replace(")", " ").split())
    patterns = [status_pattern(first)] + answer[1:]
    if patterns[0] is None:
        patterns[0] = data_pattern(first)
        patterns[1:] = [data_pattern(line) if i == len(answer) - 1 else line for i, line in enumerate(answer[1:], 1)]
    # The length of a literal is not a repetition count of the regular expression.
    patterns = [re.sub(r"(?<!\\)\{(\d+)\}$", r"\\{\1\\}", pattern) for pattern in patterns]
    compiled = [re.compile(pattern, re.I | re.S) for pattern in patterns]
    return lambda given: any(lines_match(compiled, variant) for variant in variants(given))


def lines_match(patterns, given):
    """Returns True if the lines of a response match one by one."""
    lines = given.split("\r\n")
    # Some scripts contain plain text in place of a pattern.
    return len(lines) == len(patterns) and all(line == p.pattern or p.fullmatch(line) for p, line in zip(patterns, lines))


def status_pattern(line):
    """Returns the pattern of a status without its human-readable text, or None for a line of data."""
    found = TAGGED.match(line)
    if found:
        tag, status, rest = found.groups()
        code = re.match(r" (\\\[.*?\\\])", rest)
        status = {"OK": "OK", "NO": "(NO|BAD)", "BAD": "(NO|BAD)"}.get(status, "")
        return f"{tag} {status}" + (" " + code.group(1) if code else "") + ".*"
    found = STATUS.match(line)
    if found and (found.group(2) or found.group(1) == "\\+"):
        mark, status, code = found.groups()
        return mark + status + (" " + code if code else "") + ".*"
    return None


def data_pattern(line):
    """Returns the pattern of a line of data, with optional quotes."""
    return re.sub(r'\\?"', '"?', line)


def variants(given):
    """Yields all equivalent forms of a response."""
    given = re.sub(r"FLAGS \(([^)]*)\)", lambda m: "FLAGS (" + " ".join(sorted(m.group(1).split(), key=lambda f: (f[0] != "\\", f))) + ")", given)
    listing = re.match(r"(\* (?:LIST|LSUB|XLIST) \()([^)]*)(\).*)", given, re.I | re.S)
    if listing:
        attributes = [a for a in listing.group(2).split() if a.lower() in LIST_ATTRIBUTES]
        for size in range(len(attributes), -1, -1):
            for some in itertools.permutations(attributes, size):
                yield listing.group(1) + " ".join(some) + listing.group(3)
        return
    yield given
    fetch = re.match(r"(\* \d+ FETCH \()(.*)\)$", given, re.I | re.S)
    status = re.match(r"(\* STATUS (?:\"[^\"]*\"|\S+) \()(.*)\)$", given, re.I | re.S)
    found = fetch or status
    if found:
        items = items_of(found.group(2))
        if 1 < len(items) <= PERMUTED_ITEMS_MAX:
            for order in itertools.permutations(items):
                yield found.group(1) + " ".join(order) + ")"


def items_of(text):
    """Splits `NAME value NAME value` at the top level.

    A name may have a section. A value may be a list, a string or a literal.
    """
    words, start, depth, index = [], 0, 0, 0
    while index < len(text):
        char = text[index]
        literal = re.match(r"\{(\d+)\}\r\n", text[index:index + 20])
        if literal:
            index += literal.end() + int(literal.group(1))
            continue
        if char == '"':
            index += 1
            while index < len(text) and text[index] != '"':
                index += 2 if text[index] == "\\" else 1
        elif char in "([":
            depth += 1
        elif char in ")]":
            depth -= 1
        elif char == " " and depth == 0:
            words.append(text[start:index])
            start = index + 1
        index += 1
    words.append(text[start:])
    return [" ".join(words[i:i + 2]) for i in range(0, len(words), 2)]


def shown(answers):
    """Returns the responses, shortened for a message."""
    return [one if len(one) < 200 else one[:200] + "…" for one in answers]
