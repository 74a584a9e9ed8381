"""Joining: sites show signed keys, check each other against their rosters, and share recovery secrets.

The steps follow Bonawitz et al. 2017 (rounds 0 and 1) with the neighbourhoods of SecAgg+. Letters open
only between sites that were told the same cohort, and signatures fit only if they were told the same
terms. Beside the shares some *heralds* (when sites are few: everyone) send all sites a random secret,
end-to-end encrypted; all sites use that of the first herald still there. From it follows what the
sites must agree on behind the coordinator's back, for example the hidden order of Appendix B of the
hulls paper: sorting by keyed hashes instead of exchanging n² random numbers, with the same trust (a
site may know the order, the coordinator may not).
"""

from __future__ import annotations

import math
import secrets
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, ClassVar, TypeVar

import msgspec

from fedgeom import __version__
from fedgeom.errors import FedgeomError, InputError, ProtocolError
from fedgeom.federation.messages import Key, Message, Name, Question, Signature, decode, encode
from fedgeom.federation.site import Memory, Site, answers
from fedgeom.federation.sites import Answers, Sites
from fedgeom.secure import shamir
from fedgeom.secure.keys import exchange_public, fingerprint, new_exchange_secret, shared_key, verify
from fedgeom.secure.letters import seal, unseal
from fedgeom.secure.neighbours import COMPLETE_UP_TO, neighbours, ring_order

SecretShare = Annotated[bytes, msgspec.Meta(min_length=shamir.SHARE_BYTES, max_length=shamir.SHARE_BYTES)]
Term = bool | int | float | Annotated[str, msgspec.Meta(max_length=1000)] | None

HERALDS = 8
"""How many sites write to all others when not everyone does."""
MOST_ROUNDS = 64


class PublicKeys(Message, frozen=True, kw_only=True):
    """A site's keys for this run, signed by its identity: one for letters, one for each planned sum."""

    kind: ClassVar[str] = "join.keys"
    reveals: ClassVar[str] = "public keys; the number of columns"
    letters: Key
    masks: Annotated[tuple[Key, ...], msgspec.Meta(max_length=MOST_ROUNDS)]
    seals: Annotated[tuple[Key, ...], msgspec.Meta(max_length=MOST_ROUNDS)]
    """Hashes of the self-mask seeds: a seed put together from wrong shares is noticed."""
    columns: Annotated[int, msgspec.Meta(ge=0)]
    signature: Signature

    def statement(self, run: bytes, name: str, terms: bytes) -> tuple[bytes, ...]:
        """Return what the signature covers: the keys, and (as a hash) the terms on which the site joins."""
        counts = f"{len(self.masks)} {len(self.seals)} {self.columns}".encode()
        return (run, name.encode(), terms, counts, self.letters, *self.masks, *self.seals)


class Hello(Question, frozen=True, kw_only=True):
    """Invite a site to a run with this many secure sums, on these terms."""

    kind: ClassVar[str] = "join.hello"
    answer: ClassVar[type[Message]] = PublicKeys
    rounds: Annotated[int, msgspec.Meta(ge=0, le=MOST_ROUNDS)]
    release: Annotated[str, msgspec.Meta(max_length=50)] = __version__
    """The coordinator's release: sites and coordinator must compute the same."""
    terms: Annotated[dict[Name, Term], msgspec.Meta(max_length=100)] = {}
    """The method's parameters; a site looks at its data in their light before it answers."""


class Letters(Message, frozen=True, kw_only=True):
    """Sealed letters to other sites."""

    kind: ClassVar[str] = "join.letters"
    reveals: ClassVar[str] = "nothing: letters sealed for other sites, with shares of this run's mask keys"
    letters: dict[Name, bytes]
    needed: Annotated[int, msgspec.Meta(ge=1)]
    """How many shares give a secret of this site back."""


class Share(Question, frozen=True, kw_only=True):
    """Show a site everybody's keys and ask for its letters to the others."""

    kind: ClassVar[str] = "join.share"
    answer: ClassVar[type[Message]] = Letters
    cohort: dict[Name, PublicKeys]


class Letter(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a letter says: shares of the sender's mask keys and self masks, and a herald's secret."""

    mask_shares: tuple[SecretShare, ...] = ()
    self_shares: tuple[SecretShare, ...] = ()
    secret: bytes = b""


class SecureMemory(Memory, kw_only=True):
    """What a site remembers of its keys, its peers and its answers."""

    letter_secret: bytes = b""
    mask_secrets: tuple[bytes, ...] = ()
    self_seeds: tuple[bytes, ...] = ()
    herald_secret: bytes = b""
    private: bytes = b""
    """The seed of randomness that is never shared, not even in shares."""
    joined_on: bytes = b""
    """A hash of the terms on which the site joined."""
    terms: dict[str, Term] = {}
    """The terms themselves: later questions must keep to them."""
    sums: tuple[str, ...] = ()
    """The questions whose answers are summed, by round; empty: any."""
    cohort: dict[str, PublicKeys] = {}
    peers: tuple[str, ...] = ()
    own_letter: Letter | None = None
    opened: dict[str, Letter] = {}
    secret: bytes = b""
    order: tuple[str, ...] = ()
    """All sites that shared their keys, in the hidden order."""
    participants: dict[int, tuple[str, ...]] = {}
    """In each round, the sites it was masked for."""
    asked: dict[str, bytes] = {}
    """Fingerprints of the questions answered in each round: no mask serves twice."""
    sealed: dict[str, bytes] = {}
    """What was sealed, by the question that asked for it: asked again, the site sends the very same."""


def seal_of(seed: bytes) -> bytes:
    """Commit to a self-mask seed; 256 random bits cannot be guessed from their hash."""
    return fingerprint(b"self mask", seed)


def print_of_terms(terms: Mapping[str, Term]) -> bytes:
    """Hash the terms of a run, which every site signs with its keys."""
    return fingerprint(b"terms", msgspec.msgpack.encode(dict(terms), order="sorted"))


def cohort_seed(run: bytes, cohort: Mapping[str, PublicKeys]) -> bytes:
    """Hash everybody's keys: it fixes the neighbourhoods, and stands for the cohort in every letter."""
    return fingerprint(b"cohort", run, msgspec.msgpack.encode(dict(cohort), order="sorted"))


def holder_numbers(run: bytes, cohort: Mapping[str, PublicKeys]) -> dict[str, int]:
    """Number the sites from 1 in ring order."""
    return {name: at + 1 for at, name in enumerate(ring_order(sorted(cohort), cohort_seed(run, cohort)))}


def heralds_of(order: Sequence[str]) -> Sequence[str]:
    """Return the sites that send everyone a secret, given all in ring order.

    As long as everyone writes to everyone anyway, all are heralds: then no loss that the sums survive
    can take the secret away.
    """
    return order if len(order) <= COMPLETE_UP_TO else order[:HERALDS]


def threshold(holders: int, share: float = 2 / 3) -> int:
    """Return how many of a secret's holders must come together."""
    return max(2, math.ceil(share * holders - 1e-9))


@dataclass(frozen=True)
class Cohort:
    """The sites that joined, as the coordinator knows them."""

    sites: Sites
    keys: dict[str, PublicKeys]
    peers: dict[str, tuple[str, ...]]
    mail: dict[str, dict[str, bytes]]
    """For each recipient, the sealed letters by sender."""
    needed: dict[str, int]
    """For each site, how many shares give a secret of it back."""

    @property
    def names(self) -> tuple[str, ...]:
        """The sites that joined and sent their letters."""
        return tuple(sorted(self.needed))

    def numbers(self) -> dict[str, int]:
        """Return each site's number as a holder of shares: its place on the ring, from 1."""
        return holder_numbers(self.sites.run, self.keys)


def join(sites: Sites, *, rounds: int, terms: Mapping[str, Term] | None = None, smallest: int = 2) -> Cohort:
    """Bring the sites together for ``rounds`` secure sums; those that fail to answer stay outside."""
    hello = Hello(rounds=rounds, terms=dict(terms or {}))
    shown = sites.ask(hello, expect=PublicKeys)
    if sites.roster is not None:
        _leave_out_strangers(shown, sites, hello)
    shown.need(smallest, "the invitation")
    check_columns({name: keys.columns for name, keys in shown.items()})
    peers = neighbours(sorted(shown), cohort_seed(sites.run, shown))
    sent = sites.ask(Share(cohort=dict(shown)), of=shown, expect=Letters)
    _leave_out_unrecoverable(sent, sites, peers)
    sent.need(smallest, "with letters to the others")
    mail: dict[str, dict[str, bytes]] = {name: {} for name in sent}
    for sender, answer in sent.items():
        for recipient, letter in answer.letters.items():
            if recipient in mail:
                mail[recipient][sender] = letter
    needed = {name: answer.needed for name, answer in sent.items()}
    return Cohort(sites, dict(shown), peers, mail, needed)


def _leave_out_strangers(shown: Answers[PublicKeys], sites: Sites, hello: Hello) -> None:
    """Leave out sites that the others would refuse: one wrong key must not stop everybody."""
    signed_on = print_of_terms(hello.terms)
    for name, keys in list(shown.items()):
        try:
            if sites.roster is None or name not in sites.roster:
                raise ProtocolError(f"{name!r} is not in the roster")
            verify(
                sites.roster[name],
                keys.signature,
                "keys",
                *keys.statement(sites.run, name, signed_on),
                signer=name,
            )
        except ProtocolError as error:
            del shown.came[name]
            shown.missing[name] = sites.lost[name] = f"refused: {error}; was it admitted with another key?"


def _leave_out_unrecoverable(sent: Answers[Letters], sites: Sites, peers: Mapping[str, tuple[str, ...]]) -> None:
    """Leave out sites of whose shares too few hold one: no sum with them in it could ever be unmasked.

    Noticed later, it would be too late: once the hidden order is settled, nobody who is lost can come back.
    """
    while True:
        holders = {name: len({name, *peers[name]} & set(sent)) for name in sent}
        few = [name for name, answer in sent.items() if answer.needed > holders[name]]
        if not few:
            return
        for name in few:
            reason = f"{holders[name]} of the {sent[name].needed} holders that its shares need are left. "
            reason += "Nothing was revealed"
            sent.missing[name] = sites.lost[name] = reason
        for name in few:
            del sent.came[name]


def _series(release: str) -> tuple[str, ...]:
    """Return what must agree of a release: its first two numbers."""
    return tuple(release.split(".")[:2])


def check_columns(columns: Mapping[str, int]) -> None:
    """Raise `InputError`, naming the odd ones out, unless all sites have the same number of columns."""
    counts = Counter(columns.values())
    if len(counts) > 1:
        usual = counts.most_common(1)[0][0]
        odd = ", ".join(f"{name!r} has {n}" for name, n in sorted(columns.items()) if n != usual)
        raise InputError(f"sites must have the same columns: most have {usual}, but site {odd}")


Mem = TypeVar("Mem", bound=SecureMemory)


class SecureSite(Site[Mem]):
    """A site that can join and take part in secure sums."""

    memory_type: ClassVar[type[Memory]] = SecureMemory

    @classmethod
    def sums(cls, terms: Mapping[str, Term]) -> tuple[str, ...]:
        """Return the kinds of the questions whose answers are summed, in order of their rounds.

        A site answers no other sum: with a second sum of the same data over fewer sites, a coordinator
        could take the difference. Empty means that the site does not mind.
        """
        return ()

    @answers(Hello)
    def show_keys(self, ask: Hello) -> PublicKeys:
        """Look at the data, make this run's keys, once, and sign them."""
        memory = self.memory
        if _series(ask.release) != _series(__version__):
            raise ProtocolError(
                f"the coordinator runs fedgeom {ask.release or 'of no release'}, this site {__version__}"
            )
        try:
            self.check(ask.terms)
            memory.sums = self.sums(ask.terms)
        except FedgeomError:
            raise
        except (KeyError, TypeError, AttributeError, ValueError, OverflowError) as error:
            raise ProtocolError("the terms are not those of this method") from error
        if memory.sums and len(memory.sums) != ask.rounds:
            raise ProtocolError(f"these terms need {len(memory.sums)} sums, not {ask.rounds}")
        terms = print_of_terms(ask.terms)
        if not memory.letter_secret:
            memory.joined_on, memory.terms = terms, ask.terms
            memory.letter_secret = new_exchange_secret()
            memory.mask_secrets = tuple(new_exchange_secret() for _ in range(ask.rounds))
            memory.self_seeds = tuple(secrets.token_bytes(32) for _ in range(ask.rounds))
            memory.herald_secret = secrets.token_bytes(32)
            memory.private = secrets.token_bytes(32)
        if len(memory.mask_secrets) != ask.rounds:
            raise ProtocolError(f"the run was announced with {len(memory.mask_secrets)} sums, now {ask.rounds}")
        if memory.joined_on != terms:
            raise ProtocolError("the run was announced on other terms before")
        return self._own_keys()

    def keep_to_terms(self, **said: object) -> None:
        """Refuse a question that departs from what was settled when the site joined.

        A coordinator could invite on coarse terms, which a steward looks at, and then ask in fine ones.
        """
        for name, value in said.items():
            agreed = self.memory.terms.get(name)
            if agreed is not None and agreed != value:
                raise ProtocolError(f"{name}={value} is asked for; the site joined on {name}={agreed}")

    def _own_keys(self) -> PublicKeys:
        memory = self.memory
        unsigned = PublicKeys(
            letters=exchange_public(memory.letter_secret),
            masks=tuple(exchange_public(secret) for secret in memory.mask_secrets),
            seals=tuple(seal_of(seed) for seed in memory.self_seeds),
            columns=self.data.X.shape[1],
            signature=bytes(64),
        )
        statement = unsigned.statement(self.run, self.badge.name, memory.joined_on)
        return msgspec.structs.replace(unsigned, signature=self.badge.identity.sign("keys", *statement))

    @answers(Share)
    def share_secrets(self, ask: Share) -> Letters:
        """Check the announced cohort and send each peer its shares."""
        memory, me = self.memory, self.badge.name
        if memory.cohort and memory.cohort != ask.cohort:
            raise ProtocolError("another cohort was announced before; one run has one cohort")
        if ask.kind in memory.sealed:  # new shares would not fit those that the others hold already
            return decode(memory.sealed[ask.kind], Letters)
        self._check_cohort(ask.cohort)
        memory.cohort = ask.cohort
        numbers = holder_numbers(self.run, ask.cohort)
        heralds = heralds_of(list(numbers))
        memory.peers = neighbours(list(numbers), cohort_seed(self.run, ask.cohort))[me]
        needed = threshold(1 + len(memory.peers), self.badge.policy.threshold)
        letters = self._write(numbers, needed, herald=me in heralds)
        memory.own_letter = letters.pop(me)
        seed = cohort_seed(self.run, memory.cohort)
        sealed = {name: self._seal(seed, name, letter) for name, letter in letters.items()}
        answer = Letters(letters=sealed, needed=needed)
        memory.sealed[ask.kind] = encode(answer)
        return answer

    def _check_cohort(self, cohort: Mapping[str, PublicKeys]) -> None:
        me, policy = self.badge.name, self.badge.policy
        if len(cohort) < policy.smallest_cohort:
            raise ProtocolError(
                f"the cohort has {len(cohort)} sites; the policy of {me!r} asks for at least "
                f"{policy.smallest_cohort}"
            )
        if not self.memory.letter_secret:
            raise ProtocolError("a cohort was announced before the site was invited")
        if cohort.get(me) != self._own_keys():
            raise ProtocolError(f"the announced cohort does not contain {me!r} with its own keys")
        strangers = sorted(set(cohort) - set(self.badge.roster))
        if strangers:
            raise ProtocolError(f"not in the roster of {me!r}: {', '.join(strangers)}")
        rounds = len(self.memory.mask_secrets)
        for name, keys in cohort.items():
            statement = keys.statement(self.run, name, self.memory.joined_on)
            verify(self.badge.roster[name], keys.signature, "keys", *statement, signer=name)
            if not len(keys.masks) == len(keys.seals) == rounds:
                raise ProtocolError(f"{name!r} was announced with keys for another number of sums than ours")

    def _write(self, numbers: Mapping[str, int], needed: int, *, herald: bool) -> dict[str, Letter]:
        memory, me = self.memory, self.badge.name
        holders = (*memory.peers, me)
        xs = [numbers[name] for name in holders]
        masks = [shamir.share(secret, needed, xs) for secret in memory.mask_secrets]
        selves = [shamir.share(seed, needed, xs) for seed in memory.self_seeds]
        secret = memory.herald_secret if herald else b""
        letters = {name: Letter(secret=secret) for name in numbers} if herald else {}
        for name in holders:
            x = numbers[name]
            letters[name] = Letter(tuple(s[x] for s in masks), tuple(s[x] for s in selves), secret)
        return letters

    def _envelope(self, seed: bytes, sender: str, recipient: str) -> tuple[bytes, ...]:
        return (b"letter", self.run, seed, sender.encode(), recipient.encode())

    def _seal(self, seed: bytes, recipient: str, letter: Letter) -> bytes:
        envelope = self._envelope(seed, self.badge.name, recipient)
        key = shared_key(self.memory.letter_secret, self.memory.cohort[recipient].letters, *envelope)
        return seal(key, msgspec.msgpack.encode(letter), fingerprint(*envelope))

    def _unseal(self, seed: bytes, sender: str, sealed: bytes) -> Letter:
        envelope = self._envelope(seed, sender, self.badge.name)
        key = shared_key(self.memory.letter_secret, self.memory.cohort[sender].letters, *envelope)
        text = unseal(key, sealed, fingerprint(*envelope), sender=sender)
        try:
            letter = msgspec.msgpack.decode(text, type=Letter)
        except ValueError as error:
            raise ProtocolError(f"the letter from {sender!r} makes no sense: {error}") from error
        rounds = len(self.memory.mask_secrets)
        if sender in self.memory.peers and not len(letter.mask_shares) == len(letter.self_shares) == rounds:
            raise ProtocolError(f"the letter from {sender!r} does not hold a share for each of {rounds} sums")
        return letter

    def open_letters(self, members: tuple[str, ...], letters: Mapping[str, bytes]) -> None:
        """Read the mail, once, and settle the secret and the hidden order that follow from it.

        A name said twice would leave a gap in the hidden order, next to that site's place: the coordinator
        could read off the sum where the gap is.
        """
        memory, me = self.memory, self.badge.name
        if list(members) != sorted(set(members)):
            raise ProtocolError("the members must be named once each, in alphabetical order")
        if memory.secret:
            if set(members) != set(memory.order):
                raise ProtocolError("other members were announced before; one run has one hidden order")
            return
        if me not in members or not set(members) <= set(memory.cohort):
            raise ProtocolError("the announced members are not a part of the cohort with this site in it")
        seed = cohort_seed(self.run, memory.cohort)
        for sender in sorted(set(letters) & set(members) - {me}):
            memory.opened[sender] = self._unseal(seed, sender, letters[sender])
        memory.opened[me] = memory.own_letter or Letter()
        heralds = heralds_of(list(holder_numbers(self.run, memory.cohort)))
        missing = sorted((set(memory.peers) | set(heralds)) & set(members) - set(memory.opened))
        if missing:
            raise ProtocolError(f"no letter was delivered from {', '.join(missing)}")
        said = [memory.opened[name].secret for name in heralds if name in memory.opened]
        if not said or len(said[0]) != 32:
            raise ProtocolError("no herald's secret arrived: all of them were lost while joining; start anew")
        memory.secret = said[0]
        memory.order = tuple(sorted(members, key=lambda name: fingerprint(b"order", memory.secret, name.encode())))

    @property
    def block(self) -> int:
        """This site's place in the hidden order (Appendix B), counted from 0."""
        if not self.memory.order:
            raise ProtocolError("the hidden order is not settled yet")
        return self.memory.order.index(self.badge.name)
