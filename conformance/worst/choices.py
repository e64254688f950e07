"""The choices of which a request is made, and their variation.

A generator of requests asks a `Choices` for each size, each part and each switch by its name. The choices that it gets
are recorded. A request is repeated by giving the recorded choices to the same generator, and varied by changing some of
them first: no generator knows anything about repetition or variation.

Sizes are heavy-tailed: a tenth of them are the maximum, a tenth the minimum, and the logarithms of the others are
distributed evenly, so that 10 is as likely as 10,000.
"""

import math
import random

CHANGED_MAX = 4


class Choices:
    """The choices of one request.

    `given` maps names of choices to (value, least, most, heavy-tailed). Choices without a given value come from the
    seed.
    """

    def __init__(self, seed, given=None):
        self.random = random.Random(str(seed))
        self.given = given or {}
        self.made = {}

    def integer(self, name, least, most, heavy=False):
        """Returns an integer from `least` to `most`."""
        most = max(least, most)
        number = 1
        while f"{name} {number}" in self.made:
            number += 1
        key = f"{name} {number}"
        if key in self.given:
            value = min(max(self.given[key][0], least), most)
        else:
            value = fresh(self.random, least, most, heavy)
        self.made[key] = (value, least, most, heavy)
        return value

    def size(self, name, most, least=1):
        """Returns a heavy-tailed size from `least` to `most`."""
        return self.integer(name, least, most, heavy=True)

    def one(self, name, options):
        """Returns one of the options."""
        return options[self.integer(name, 0, len(options) - 1)]

    def some(self, name, options, most=3):
        """Returns one to `most` of the options, in any order. An option may occur several times."""
        return [self.one(name, options) for _ in range(self.integer(f"{name} parts", 1, most))]

    def chance(self, name, percent):
        """Returns True with the given probability."""
        return self.integer(name, 0, 99) < percent


def fresh(dice, least, most, heavy):
    """Returns a new value of a choice."""
    if not heavy or most == least:
        return dice.randint(least, most)
    kind = dice.random()
    if kind < 0.1:
        return most
    if kind < 0.2:
        return least
    return min(most, max(least, round(math.exp(dice.uniform(math.log(max(least, 1)), math.log(most))))))


def varied(made, seed):
    """Returns a variation of recorded choices: some sizes are larger or smaller, and some parts are others."""
    dice = random.Random(str(seed))
    result = dict(made)
    # Few choices have many values. Those of large sizes matter most, so they are changed more often.
    keys = list(made) + [key for key, choice in made.items() if choice[3]] * 2
    for _ in range(dice.randint(1, CHANGED_MAX) if keys else 0):
        key = dice.choice(keys)
        if key not in result:
            continue
        value, least, most, heavy = result[key]
        if not heavy or dice.random() < 0.3:
            del result[key]
        else:
            value = dice.choice((value * 2, value * 4, value // 2, value + 1, value - 1, most))
            result[key] = (min(max(value, least), most), least, most, heavy)
    return result
