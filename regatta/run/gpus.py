"""Which GPUs a run has, and so where its ranks are: pure functions of what nodes tell of their cards."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from regatta.errors import UsageError
from regatta.frameworks.api import Framework
from regatta.frameworks.plan import Cards, Program, Rank
from regatta.hosts.cluster import Cluster, Node
from regatta.options.declaration import RunOptions
from regatta.run import placement
from regatta_protocol.operations.launch import Inspected

PART = "MIG-"
NAMED = "GPUs (--gpus)"


@dataclass(frozen=True)
class Choice:
    """`ranks`: placed by GPUs; None where cores decide. `cards`: those of each node. `lines`: for a person."""

    ranks: tuple[Rank, ...] | None = None
    cards: Mapping[str, Cards] = field(default_factory=dict)
    lines: tuple[str, ...] = ()


def well(framework: Framework, cluster: Cluster, answers: Mapping[str, Inspected]) -> tuple[set[str], list[str]]:
    """The nodes that may get ranks, and a line for each that may not, because a GPU of it is sick.

    UsageError where the framework has no other host.
    """
    told = {name: (answer.facts.get("gpus") or {}).get("sick") for name, answer in answers.items()}
    lines = [f"{name} gets no ranks: {said}. Restart that host, or repair it" for name, said in told.items() if said]
    found = {name for name, said in told.items() if not said}
    if not any(node.name in found for node in framework.hosts(cluster)):
        raise UsageError("; ".join(lines) or "no host of this run has answered")
    return found, lines


def granted(answer: Inspected, numbers: Sequence[int] | None, *, waits: bool) -> Inspected:
    """What a node tells with only those of its cards that the queue has granted, counted in the order of their files.

    `waits`: the run has no turn yet, and cards that others have now are free when it comes.
    """
    if waits:
        return answer.changed(gpus_taken=())
    if numbers is None:
        return answer
    told = answer.facts.get("gpus") or {}
    cards = sorted(told.get("cards", ()), key=lambda card: card["minor"])
    own = [card for number, card in enumerate(cards) if number in numbers]
    return answer.changed(facts={**answer.facts, "gpus": {**told, "cards": own}})


def choose(
    framework: Framework,
    program: Program,
    options: RunOptions,
    cluster: Cluster,
    answers: Mapping[str, Inspected],
    packages: Mapping[str, str],
) -> Choice:
    """GPUs for the ranks of a run with these packages. UsageError where `--gpus` asks for more than there is.

    Where a service of the cluster starts the ranks, it chooses among all cards of a host, and knows no parts of cards.
    """
    hosts = [node for node in framework.hosts(cluster) if node.name in answers]
    told = {node.name: answers[node.name].facts.get("gpus") or {} for node in hosts}
    troubles = tuple(
        f"{name}: no GPU of it can be used: {said['problem']}" for name, said in told.items() if said.get("problem")
    )
    there = sum(len(said.get("cards", ())) for said in told.values())
    why = framework.without_gpus(program, packages)
    none = {name: Cards() for name, said in told.items() if said.get("cards")}
    if why is None and framework.driver and _parts(card for said in told.values() for card in said.get("cards", ())):
        why = f"{framework.title} gives no rank a part of a card (MIG)"
    if options.gpus == 0:
        return Choice(cards=none, lines=troubles)
    if options.gpus and (why is not None or not there):
        reason = (why or f"{program.label} uses none under {framework.name}") if there else _none(troubles)
        raise UsageError(f"--gpus {options.gpus}: {reason}; --gpus 0 runs on processors")
    if why is None and there:
        asked = replace(options, workers=1) if framework.single else options
        return _placed(asked, hosts, told, answers, troubles, shared_out=not framework.served(cluster))
    unused = (f"{there} GPU(s) of the hosts are not used, and ranks are one a core: {why}",) if there and why else ()
    return Choice(cards=none if why and framework.driver else {}, lines=(*troubles, *unused))


def _none(troubles: Sequence[str]) -> str:
    return "; ".join(troubles) or "no host of this run has a GPU"


def _parts(cards: Iterable[Mapping[str, Any]]) -> bool:
    return any(card["visible"].startswith(PART) for card in cards)


def _placed(
    options: RunOptions,
    hosts: Sequence[Node],
    told: Mapping[str, Mapping[str, Any]],
    answers: Mapping[str, Inspected],
    lines: tuple[str, ...],
    *,
    shared_out: bool,
) -> Choice:
    """`shared_out`: other runs may have the rest of a host's cards; else a service chooses among all of them."""
    each = options.gpus or 1
    free = {node.name: _free(told[node.name], answers[node.name].gpus_taken) for node in hosts}
    if not shared_out:
        free = {name: cards if len(cards) == len(told[name].get("cards", ())) else [] for name, cards in free.items()}
    slots = {name: len(cards) // each for name, cards in free.items()}
    total, all_cards = sum(slots.values()), sum(len(said.get("cards", ())) for said in told.values())
    taken = all_cards - sum(map(len, free.values()))
    workers = options.workers or total
    if workers > total or not total:
        if options.gpus or taken:
            raise UsageError(
                f"{workers or 1} rank(s) of {each} GPU(s) do not fit: "
                f"{all_cards - taken} of {all_cards} GPU(s) are free"
                f"{f', {taken} belong to other runs' if taken else ''}"
                f"{', and those of a rank must be on one host' if each > 1 else ''}. "
                "Take fewer --workers or --gpus, or wait; --gpus 0 runs on processors"
            )
        return Choice(lines=(*lines, f"{workers} ranks for {total} GPU(s): they are placed by cores, and share GPUs"))
    if each > 1 and _parts(card for cards in free.values() for card in cards):
        raise UsageError(f"--gpus {each}: a process can use only one part of a card in MIG mode: --gpus 1")
    ranks = placement.spread(workers, [node for node in hosts if slots[node.name]], slots)
    counts = Counter(rank.node.name for rank in ranks)
    chosen = {name: free[name][: number * each] for name, number in counts.items()}
    cards = {name: _cards(own, each) for name, own in chosen.items()}
    if not shared_out:
        cards = {name: replace(own, uuids=tuple(card["uuid"] for card in free[name])) for name, own in cards.items()}
    return Choice(ranks, cards, (*lines, _line(counts, chosen, each), *_unequal(chosen)))


def _free(said: Mapping[str, Any], taken: Sequence[str]) -> list[Mapping[str, Any]]:
    return [card for card in said.get("cards", ()) if card["uuid"] not in taken]


def _cards(own: Sequence[Mapping[str, Any]], each: int) -> Cards:
    """In an order in which LOCAL_RANK names the first GPU of each rank; further ones come behind all these."""
    of_ranks = [own[number : number + each] for number in range(0, len(own), each)]
    ordered = [cards[0] for cards in of_ranks] + [card for cards in of_ranks for card in cards[1:]]
    return Cards(tuple(str(card["visible"]) for card in ordered), tuple(str(card["uuid"]) for card in ordered), each)


def _line(counts: Mapping[str, int], chosen: Mapping[str, Sequence[Mapping[str, Any]]], each: int) -> str:
    places = [
        f"{number} on {name} ({', '.join(sorted({str(card['name']) for card in chosen[name]}))})"
        for name, number in counts.items()
    ]
    return f"{'one GPU' if each == 1 else f'{each} GPUs'} a rank: {', '.join(places)}"


def _unequal(chosen: Mapping[str, Sequence[Mapping[str, Any]]]) -> list[str]:
    names = sorted({str(card["name"]) for cards in chosen.values() for card in cards})
    if len(names) < 2:
        return []
    return [
        f"the GPUs of this run differ ({', '.join(names)}): ranks that wait for each other go as fast as the slowest"
    ]
