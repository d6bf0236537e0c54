"""Functions over items, as the cards in regatta.toml name them. Nothing here knows of Regatta."""


def below(bound: int) -> int:
    """How many primes are below a number."""
    return sum(all(number % divisor for divisor in range(2, int(number**0.5) + 1)) for number in range(2, bound))


def length(word: str) -> dict[str, int]:
    """Letters of a word, and how many different ones it has."""
    return {"letters": len(word), "different": len(set(word))}


def power(base: int, exponent: int, modulus: int) -> int:
    """A power, less multiples of a modulus."""
    return pow(base, exponent, modulus)
