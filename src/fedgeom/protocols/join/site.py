"""The site's half of joining: keys made once, a cohort that is checked, letters with shares, the hidden order."""

from __future__ import annotations

import secrets
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import cached_property
from types import MappingProxyType
from typing import Any, ClassVar

import msgspec

from fedgeom.crypto import shamir
from fedgeom.crypto.keys import (
    KEM_PUBLIC_BYTES,
    KEY_BYTES,
    agreement,
    decapsulate,
    derive,
    derive_for,
    encapsulate,
    exchange_public,
    fingerprint,
    hybrid,
    kem_public,
    new_exchange_secret,
    new_kem_secret,
    seal,
    unseal,
    verify,
)
from fedgeom.crypto.masks import keys_by_sum, lock
from fedgeom.crypto.neighbours import COMPLETE_UP_TO, neighbours
from fedgeom.errors import InputError, ProtocolError
from fedgeom.federation.messages import decode, encode
from fedgeom.federation.policy import check_settings, hash_terms, release_series
from fedgeom.federation.privacy import privacy_of, smallest_sum, spent_by
from fedgeom.federation.settings import Settings
from fedgeom.federation.site import Part, answers
from fedgeom.memo import memoize, memoize_last
from fedgeom.protocols.join.messages import (
    DRAWS,
    Ciphertexts,
    DrawRing,
    Hello,
    Letters,
    Meet,
    PublicKeys,
    RingNumber,
    SealedShares,
    Share,
    Term,
    class_floors,
    cohort_seed,
    correspondents,
    follow_chain,
    hash_columns,
    hidden_order,
    holder_numbers,
    lock_seal,
    seal_of,
    seed_contributors,
)
from fedgeom.version import __version__


class SumParts:
    """For each planned sum, the sites that may be in it."""

    def __init__(self, sums: int, sites: Sequence[Collection[str]] | None):
        self.sums = sums
        self.sites = sites
        """``sites`` is None where any site may be in any sum."""
        self._of: dict[str, Sequence[int]] = {}

    def of(self, name: str) -> Sequence[int]:
        """Return the numbers of the sums that a site may be in, in order."""
        if self.sites is None:
            return range(self.sums)
        if name not in self._of:
            self._of[name] = tuple(at for at, part in enumerate(self.sites) if name in part)
        return self._of[name]

    def check(self, number: int, names: Iterable[str]) -> None:
        """Refuse a sum over sites that are not drawn for it: nobody holds shares with which they could be unmasked."""
        if self.sites is None:
            return
        strange = sorted(set(names) - set(self.sites[number]))
        if strange:
            raise ProtocolError(
                f"{', '.join(strange[:8])} cannot be in this sum, of round {number}, for which by the terms and the "
                "seed others are drawn"
            )


@memoize_last
def pack_cohort(cohort: Mapping[str, PublicKeys]) -> bytes:
    """Encode everybody's keys; the same keys always give the same bytes."""
    return msgspec.msgpack.encode(dict(cohort), order="sorted")


@memoize(2, key=lambda seed, packed: seed)
def cohort_of(seed: bytes, packed: memoryview) -> Mapping[str, PublicKeys]:
    """Read everybody's keys, which have this hash (`cohort_seed`): to look at a thousand keys' bytes takes a while."""
    return read_cohort(bytes(packed))


@memoize(2, key=lambda seed, cohort: seed)
def floors_of(seed: bytes, cohort: Mapping[str, PublicKeys]) -> tuple[int, int]:
    """Return how many sites and rows a class must have in a cohort, which has this hash."""
    return class_floors(cohort)


@memoize(16, key=lambda seed, names, cohort: (seed, names))
def strictest_policy(seed: bytes, names: frozenset[str], cohort: Mapping[str, PublicKeys]) -> tuple[str, int]:
    """Return which of some sites asks for the most sites in a sum, and for how many; the cohort has this hash."""
    wanted = {name: cohort[name].min_cohort for name in sorted(names) if name in cohort}
    strictest = max(wanted, key=wanted.__getitem__, default="")
    return strictest, wanted.get(strictest, 0)


@memoize(2)  # the same for all sites of a process
def read_cohort(packed: bytes) -> Mapping[str, PublicKeys]:
    """Read everybody's keys (`pack_cohort`)."""
    return MappingProxyType(msgspec.msgpack.decode(packed, type=dict[str, PublicKeys]))


@memoize(2)  # the same for all sites of a process
def hash_each(packed: bytes) -> Mapping[str, bytes]:
    """Return a hash of each site's keys, of a cohort that is packed."""
    return {name: fingerprint(encode(keys))[:16] for name, keys in read_cohort(packed).items()}


@memoize(2)  # the same for all sites of a process
def broken_commitments(packed: bytes, numbers: bytes, draw: int) -> tuple[str, ...]:
    """Return the sites of a packed cohort whose numbers, encoded by name, are not those that they committed to."""
    shown = msgspec.msgpack.decode(numbers, type=dict[str, bytes])
    cohort = read_cohort(packed)
    return tuple(sorted(n for n in cohort if follow_chain(shown[n], draw + 1) != cohort[n].ring_commit))


@memoize(4)  # the same for all sites of a process
def hash_cohort(packed: bytes) -> bytes:
    """Return what a packed cohort is remembered by when the ring is drawn for it."""
    return fingerprint(b"drawn for", packed)


@memoize(4)  # the same for all sites of a process that have the same columns
def misfits(packed: bytes, columns: bytes, rounds: int) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the sites of a packed cohort with other columns, by their hash, and those with keys for other sums."""
    cohort = read_cohort(packed)
    others = [n for n, keys in cohort.items() if columns and keys.columns_hash and columns != keys.columns_hash]
    odd = [n for n, keys in cohort.items() if not len(keys.masks) == len(keys.seals) == rounds]
    return tuple(others), tuple(odd)


@memoize(2)  # failures are not kept; the sites of a process check the same keys by the same roster
def verify_cohort(roster: tuple[tuple[str, bytes], ...], run: bytes, terms: bytes, packed: bytes) -> None:
    """Raise `ProtocolError` unless each site of a packed cohort has signed its keys for this run and these terms."""
    known = dict(roster)
    for name, keys in read_cohort(packed).items():
        verify(known[name], keys.signature, "keys", *keys.statement(run, name, terms), signer=name)


class RingMemory(msgspec.Struct, kw_only=True):
    """What a site remembers of the draws."""

    secret: bytes = b""
    """Where the chain of numbers begins."""
    draws: dict[int, bytes] = {}
    """For each draw a hash of the cohort for which the number was shown."""
    cohort: dict[str, bytes] = {}
    """The cohort of the last draw: a hash of each site's keys."""


class RingDraw(Part[RingMemory]):
    """Commits to numbers, shows each for one cohort, and checks those of the others."""

    name: ClassVar[str] = "ring"

    def commit(self) -> bytes:
        """Return the end of this site's chain, which is made once."""
        memory = self.memory
        memory.secret = memory.secret or secrets.token_bytes(32)
        return follow_chain(memory.secret, DRAWS)

    @answers(DrawRing)
    def show_number(self, ask: DrawRing) -> RingNumber:
        """Show the number of a draw, for one cohort and no other."""
        memory = self.memory
        joining = self.site.joining  # type: ignore[attr-defined]
        if not 0 <= ask.draw < DRAWS:
            raise ProtocolError(f"draw {ask.draw + 1} of the ring is asked for; a run has {DRAWS}")
        joining.check_cohort(ask.cohort)
        if not self._is_drawn(len(ask.cohort)):
            raise ProtocolError(
                f"{len(ask.cohort)} sites need no ring; it is drawn for more than {COMPLETE_UP_TO}"
            )
        packed = pack_cohort(ask.cohort)
        over = hash_cohort(packed)
        if ask.draw not in memory.draws:
            shown = dict(hash_each(packed))
            anew = not memory.draws or (ask.draw > max(memory.draws) and shown.items() < memory.cohort.items())
            if joining.memory.cohort or not anew:
                raise ProtocolError(
                    "the ring was drawn; it is drawn anew, with the next number, when a site was lost"
                )
            memory.draws[ask.draw] = over
            memory.cohort = shown
        if memory.draws[ask.draw] != over:
            raise ProtocolError(f"the number of draw {ask.draw + 1} was shown for another cohort")
        return RingNumber(number=follow_chain(memory.secret, DRAWS - 1 - ask.draw))

    def _is_drawn(self, sites: int) -> bool:
        """Whether the order of so many sites is drawn: that of many is, and wherever the terms have drawn groups."""
        draw = getattr(self.site.joining.settings, "group_draw", None)  # type: ignore[attr-defined]
        return sites > COMPLETE_UP_TO or (draw is not None and draw.by == "sites")

    def check(self, cohort: Mapping[str, PublicKeys], numbers: Mapping[str, bytes], draw: int) -> None:
        """Refuse a ring that does not follow from the numbers to which the sites of this cohort have committed."""
        if not self._is_drawn(len(cohort)):
            if numbers or draw:
                raise ProtocolError(f"{len(cohort)} sites need no ring, but came with numbers for one")
            return
        draws = self.memory.draws
        packed = pack_cohort(cohort)
        if not draws or draw != max(draws) or draws[draw] != hash_cohort(packed):
            raise ProtocolError(
                "this is not the cohort, or not the draw, for which this site showed its last number"
            )
        if set(numbers) != set(cohort):
            raise ProtocolError("the ring's numbers are not those of the sites of the cohort, one from each")
        wrong = broken_commitments(packed, msgspec.msgpack.encode(dict(numbers), order="sorted"), draw)
        if wrong:
            raise ProtocolError(f"the ring's numbers of {', '.join(wrong[:8])} are not those committed to")


NO_NAMES = memoryview(b"")


@memoize_last
def pack_names(names: tuple[str, ...]) -> memoryview:
    """Encode a list of names; none are no bytes."""
    return memoryview(msgspec.msgpack.encode(names)) if names else NO_NAMES


def read_names(packed: memoryview) -> tuple[str, ...]:
    """Read a list of names (`pack_names`); equal lists are the very same tuple."""
    return _read(bytes(packed)) if packed else ()


@memoize(64)  # a few lists for all sites of a process
def _read(packed: bytes) -> tuple[str, ...]:
    return msgspec.msgpack.decode(packed, type=tuple[str, ...])


@memoize(64)  # likewise
def in_order(names: tuple[str, ...]) -> bool:
    """Say whether names are given once each, in alphabetical order."""
    return list(names) == sorted(set(names))


@memoize(64)  # likewise
def name_set(names: tuple[str, ...]) -> frozenset[str]:
    """Return the set of some names; those of a list that was read before are looked up."""
    return frozenset(names)


class HeldShares(msgspec.Struct, frozen=True, array_like=True):
    """The shares that a site holds for one sum, by the site that they are of."""

    masks: dict[str, bytes]
    selves: dict[str, bytes]


class JoinMemory(msgspec.Struct, kw_only=True):
    """What a site remembers of its keys, its peers and the terms."""

    letter_secret: bytes = b""
    kem_secret: bytes = b""
    mask_secrets: tuple[bytes, ...] = ()
    """For each sum the secret by which the site locks its pairs' keys, and which it shares."""
    pair_keys: tuple[bytes, ...] = ()
    """For each sum the keys of the site's pairs, in the order of its peers (`fedgeom.crypto.masks`)."""
    self_seeds: tuple[bytes, ...] = ()
    seed_secret: bytes = b""
    private: bytes = b""
    """The seed of randomness that is never shared, not even in shares."""
    signed: bytes = b""
    """A hash of what the site signed with its keys."""
    signature: bytes = b""
    own_keys: bytes = b""
    """A hash of the public keys that the site showed."""
    terms_hash: bytes = b""
    """A hash of the terms on which the site joined."""
    terms: dict[str, Term] = {}
    """The terms themselves: later questions must keep to them."""
    seed: int = 0
    """The run's seed, which is part of the terms."""
    participants_bytes: memoryview = NO_NAMES
    """Everyone who may take part, which is part of the terms, encoded."""
    sums: tuple[str, ...] = ()
    """The kinds of the questions whose answers are summed, by round: no other sum is answered."""
    cohort_bytes: memoryview = memoryview(b"")
    """Everybody's keys, encoded: a thousand sites' are read when they are needed, not copied with every question."""
    peers: tuple[str, ...] = ()
    cohort_seed: bytes = b""
    """A hash of the cohort, from which the neighbourhoods follow."""
    ciphertexts: bytes = b""
    """The secrets that were encapsulated for the others, as they were sent: asked again, the site sends the same."""
    encapsulated: bytes = b""
    """These secrets, by name, encoded, until the letters are read and nobody joins any more."""
    agreed_bytes: bytes = b""
    """What the site and each of those it writes to have agreed on (`fedgeom.crypto.keys.hybrid`), by name, encoded."""
    own_letter: SealedShares | None = None
    unsent: dict[str, SealedShares] = {}
    """Letters to those whose ciphertexts have not come yet."""
    letters: bytes = b""
    """What was sent to the others: asked again, the site sends the very same."""
    shares: tuple[bytes, ...] = ()
    """For each sum the shares that came in letters (`HeldShares`), encoded: they are read when they are asked for."""
    secret: bytes = b""
    order_bytes: memoryview = NO_NAMES
    """All sites that shared their keys, in the hidden order, encoded."""

    @property
    def participants(self) -> tuple[str, ...]:
        """Everyone who may take part."""
        return read_names(self.participants_bytes)

    @property
    def agreed(self) -> Mapping[str, bytes]:
        """What the site has agreed on with others, by name."""
        return msgspec.msgpack.decode(self.agreed_bytes, type=dict[str, bytes]) if self.agreed_bytes else {}

    @property
    def order(self) -> tuple[str, ...]:
        """All sites that shared their keys, in the hidden order; none before it is settled."""
        return read_names(self.order_bytes)

    def keep_shares(self, letters: Mapping[str, SealedShares], parts: SumParts) -> None:
        """Keep the shares of letters, by the site that they came from, each sum's together."""
        held = [HeldShares({}, {}) for _ in self.mask_secrets]
        for name, letter in letters.items():
            for at, mask, own in zip(parts.of(name), letter.mask_shares, letter.self_shares, strict=True):
                held[at].masks[name] = mask
                held[at].selves[name] = own
        self.shares = tuple(map(msgspec.msgpack.encode, held))

    def held(self, round: int) -> HeldShares:
        """Return the shares that the site holds for one sum."""
        return msgspec.msgpack.decode(self.shares[round], type=HeldShares)

    @property
    def cohort(self) -> Mapping[str, PublicKeys]:
        """Everybody's keys, by name; nobody's before the site joined."""
        return cohort_of(self.cohort_seed, self.cohort_bytes) if self.cohort_bytes else {}


@memoize(4, key=lambda settings, joined: (type(settings), joined.terms_hash, joined.cohort_seed))
def sum_parts(settings: Any, joined: JoinMemory) -> SumParts:
    """Return who may be in which of the planned sums, by what a site remembers of terms and cohort."""
    drawn = settings.sum_sites(tuple(sorted(joined.cohort)), joined.seed)
    return SumParts(len(joined.sums), drawn)


def write_letters(
    memory: JoinMemory, me: str, numbers: Mapping[str, int], needed: int, sums: Sequence[int], *, contributes: bool
) -> dict[str, SealedShares]:
    """Return a site's letters, one to itself among them, with shares of its secrets of the sums that it may be in.

    ``numbers`` are those of the holders; one that ``contributes`` to the seed writes its secret to all.
    """
    holders = (*memory.peers, me)
    given = [secrets[at] for secrets in (memory.mask_secrets, memory.self_seeds) for at in sums]
    shares = shamir.share_each(given, needed, [numbers[name] for name in holders])
    secret = memory.seed_secret if contributes else b""
    letters = {name: SealedShares(secret=secret) for name in numbers} if contributes else {}
    for name in holders:
        own = shares[numbers[name]]
        letters[name] = SealedShares(own[: len(sums)], own[len(sums) :], secret)
    return letters


def make_pair_keys(
    memory: JoinMemory, me: str, run: bytes, agreed: Mapping[str, bytes], sums: Sequence[int]
) -> tuple[bytes, ...]:
    """Remember the keys of a site's pairs for the sums that it may be in, and return them locked; none for the others.

    ``agreed`` is what the site has agreed on with its peers. The keys are those of this run, cohort and pair. Peers
    that were lost before have agreed on nothing: random keys stand in their places, and no sum has them in it
    (`JoinPart.open_letters`).
    """

    def root(peer: str) -> bytes:
        if peer not in agreed:
            return secrets.token_bytes(KEY_BYTES)
        return derive(agreed[peer], b"masks", run, memory.cohort_seed, *sorted((me.encode(), peer.encode())))

    roots = [root(peer) for peer in memory.peers]
    mine = set(sums)
    made = keys_by_sum(roots, len(memory.mask_secrets))
    memory.pair_keys = tuple(keys if at in mine else b"" for at, keys in enumerate(made))
    return tuple(map(lock, memory.pair_keys, memory.mask_secrets))


@memoize(64, key=lambda method, terms, terms_hash: (method, terms_hash))
def _settings_of(method: type[Any], terms: Mapping[str, Any], terms_hash: bytes) -> Settings:
    """Return the settings that terms stand for, read once in a process: a site is built anew for each question."""
    found: Settings = method.from_terms(terms)
    return found


class JoinPart(Part[JoinMemory]):
    """Joins a run, once, on terms that are then kept to."""

    name: ClassVar[str] = "joining"

    @classmethod
    def unmasked(cls) -> type[Part[Any]]:
        """Return the part that joins a plain run."""
        return OpenJoining

    @answers(Hello)
    def show_keys(self, ask: Hello) -> PublicKeys:
        """Look at the data, make this run's keys, once, and sign them."""
        memory = self.memory
        if release_series(ask.release) != release_series(__version__):
            raise ProtocolError(
                f"the coordinator runs fedgeom {ask.release or 'of no release'}, this site {__version__}"
            )
        if not in_order(ask.participants):
            raise ProtocolError("those who may take part must be named once each, in alphabetical order")
        if self.site.name not in ask.participants:
            raise ProtocolError(f"{self.site.name!r} is not among those who may take part")
        terms = hash_terms(ask.job(method := self.site.method_type.name))  # type: ignore[attr-defined]
        settings = self._read(ask.terms, terms)
        check_settings(self.site.policy, settings, site=self.site.name)
        planned = self.site.all_sums(settings)  # type: ignore[attr-defined]
        sums = tuple(question.kind for question in planned)
        if len(sums) != ask.rounds:
            raise ProtocolError(f"these terms need {len(sums)} sums, not {ask.rounds}")
        if memory.terms_hash and memory.terms_hash != terms:
            raise ProtocolError("the run was announced on other terms before")
        self.site.examine(settings, ask.seed)  # the data are looked at last: until here nothing depends on them
        if not memory.terms_hash:
            self.site.identity.budget.charge(self.site.run, method, spent_by(settings))
            memory.terms_hash = terms
            memory.terms = ask.terms
            memory.seed = ask.seed
            memory.sums = sums
            memory.participants_bytes = pack_names(ask.participants)
            self._make_secrets(ask.rounds)
        keys = self._own_keys()
        memory.own_keys = fingerprint(encode(keys))
        return keys

    def _read(self, terms: Mapping[str, Any], terms_hash: bytes) -> Settings:
        """Read the terms as the method's settings; what is wrong with them is the coordinator's affair."""
        try:
            return _settings_of(self.site.method_type, terms, terms_hash)
        except (InputError, TypeError, ValueError) as error:
            raise ProtocolError(f"the terms are not those of this method: {error}") from error

    @cached_property
    def settings(self) -> Any:
        """The method's settings, as the terms on which the site joined have them."""
        if not self.memory.terms_hash:
            raise ProtocolError("the site was asked before it joined")
        return _settings_of(self.site.method_type, self.memory.terms, self.memory.terms_hash)

    def keep_to_terms(self, **said: object) -> None:
        """Refuse a question that departs from what was settled when the site joined.

        A coordinator could invite on coarse terms, which a steward looks at, and then ask in fine ones. What the
        terms leave open (None) may be settled later.
        """
        for name, value in said.items():
            agreed = self.memory.terms.get(name)
            if agreed is not None and agreed != value:
                raise ProtocolError(f"{name}={value} is asked for; the site joined on {name}={agreed}")

    def _make_secrets(self, rounds: int) -> None:
        """Make this run's secrets, with those of so many sums."""
        memory = self.memory
        memory.letter_secret = new_exchange_secret()
        memory.kem_secret = new_kem_secret()
        memory.mask_secrets = tuple(secrets.token_bytes(32) for _ in range(rounds))
        memory.self_seeds = tuple(secrets.token_bytes(32) for _ in range(rounds))
        memory.seed_secret = secrets.token_bytes(32)
        memory.private = secrets.token_bytes(32)

    def _columns(self) -> tuple[int, bytes]:
        """Return how many columns the site has, and a hash of their names."""
        if self.settings.preparing:  # what columns the sites have, they tell each other later
            return 0, b""
        data = self.site.data
        return data.shape[1], hash_columns(self.site.run, data.columns)

    def _own_keys(self) -> PublicKeys:
        memory = self.memory
        site = self.site
        columns, columns_hash = self._columns()
        unsigned = PublicKeys(
            letters=exchange_public(memory.letter_secret),
            kem=kem_public(memory.kem_secret),
            masks=tuple(lock_seal(secret) for secret in memory.mask_secrets),
            seals=tuple(seal_of(seed) for seed in memory.self_seeds),
            columns=columns,
            columns_hash=columns_hash,
            floors=site.policy.class_floors,
            ring_commit=site.ring.commit(),  # type: ignore[attr-defined]
            min_cohort=site.policy.min_cohort,
            min_difference=0 if site.policy.sums_after_losses else site.policy.min_cohort,
            signature=bytes(64),
        )
        statement = unsigned.statement(site.run, site.name, memory.terms_hash)
        signed = fingerprint(site.identity.key.public, *statement)
        if memory.signed != signed:  # ML-DSA signs otherwise each time; asked again, the site shows the very same
            memory.signed = signed
            memory.signature = site.identity.key.sign("keys", *statement)
        return msgspec.structs.replace(unsigned, signature=memory.signature)

    @answers(Meet)
    def meet(self, ask: Meet) -> Ciphertexts:
        """Check the announced cohort and encapsulate a secret for each site that this one writes to."""
        memory = self.memory
        me = self.site.name
        seed = cohort_seed(self.site.run, ask.cohort, ask.numbers, ask.draw)
        if memory.cohort and memory.cohort_seed != seed:
            raise ProtocolError("another cohort was announced before; one run has one cohort")
        if memory.ciphertexts:
            return decode(memory.ciphertexts, Ciphertexts)
        self.check_cohort(ask.cohort)
        self.site.ring.check(ask.cohort, ask.numbers, ask.draw)  # type: ignore[attr-defined]
        numbers = holder_numbers(ask.cohort, seed)
        peers = neighbours(numbers, seed, self.settings.smallest_sum(len(numbers)))[me]
        everybody = len(numbers) <= COMPLETE_UP_TO or self.site.pairs_meet(self.settings)  # type: ignore[attr-defined]
        made = {
            name: encapsulate(ask.cohort[name].kem, owner=name)
            for name in correspondents(me, peers, tuple(numbers), everybody=everybody)
        }
        answer = Ciphertexts(ciphertexts={name: one.ciphertext for name, one in made.items()})
        memory.cohort_bytes = memoryview(pack_cohort(ask.cohort))
        memory.cohort_seed = seed
        memory.peers = peers
        memory.encapsulated = msgspec.msgpack.encode({name: one.secret for name, one in made.items()})
        memory.ciphertexts = encode(answer)
        self.site.ring.memory.cohort = {}  # type: ignore[attr-defined]  # the ring is settled: it is not drawn again
        return answer

    @answers(Share)
    def share_secrets(self, ask: Share) -> Letters:
        """Agree with all those whose ciphertexts came, and send each its letter.

        Asked again, the site sends the very same, and besides the letters to those whose ciphertexts came late.
        """
        memory = self.memory
        me = self.site.name
        if not memory.ciphertexts:
            raise ProtocolError("ciphertexts came before the cohort was announced")
        before = memory.agreed
        late = {name: one for name, one in ask.ciphertexts.items() if name not in before}
        if memory.letters and (memory.secret or not late):
            return decode(memory.letters, Letters)
        agreed = {**before, **self._agree(late)}
        sums = self.parts.of(me)
        needed = self.holders_needed()
        sent: dict[str, bytes] = {}
        if memory.letters:  # new shares would not fit those that the others hold already
            sent = decode(memory.letters, Letters).letters
        else:
            numbers = holder_numbers(memory.cohort, memory.cohort_seed)
            contributes = me in seed_contributors(list(numbers))
            memory.unsent = write_letters(memory, me, numbers, needed, sums, contributes=contributes)
            memory.own_letter = memory.unsent.pop(me)
        for name in [name for name in memory.unsent if name in agreed]:
            sent[name] = self._seal(agreed[name], name, memory.unsent.pop(name))
        locked = make_pair_keys(memory, me, self.site.run, agreed, sums)
        answer = Letters(letters=sent, needed=needed, locked=locked)
        memory.letters = encode(answer)
        memory.agreed_bytes = msgspec.msgpack.encode(agreed)
        return answer

    @property
    def is_done(self) -> bool:
        """Whether the site has joined: it knows the cohort, and shares keys with it."""
        return bool(self.memory.letters)

    @property
    def parts(self) -> SumParts:
        """Who may be in which sum, of the cohort that was announced."""
        return sum_parts(self.settings, self.memory)

    def holders_needed(self) -> int:
        """Return how many of the holders of this site's shares must come together.

        On a ring sites have different holders, and lists of the living are signed by neighbourhood. With 5/8 of the
        holders or fewer, two neighbourhoods could sign two lists between which a site is caught: one list has its far
        peers alive, the other gives their mask keys away. So it is 2/3 at least: two sets of 2/3 of a neighbourhood
        of k that sign different lists are k/3 apart, which is longer than two neighbourhoods that overlap.
        """
        holders = 1 + len(self.memory.peers)
        needed = self.site.policy.holders_needed(holders)
        on_ring = len(self.memory.cohort) > COMPLETE_UP_TO
        return max(needed, -(-2 * holders // 3)) if on_ring else needed

    def check_cohort(self, cohort: Mapping[str, PublicKeys]) -> None:
        """Refuse a cohort that is too small, or not of known sites with keys for the same run and terms."""
        site = self.site
        memory = self.memory
        me = self.site.name
        if len(cohort) < site.policy.min_cohort:
            raise ProtocolError(
                f"the cohort has {len(cohort)} sites; the policy of {me!r} asks for at least "
                f"{site.policy.min_cohort}"
            )
        if not memory.letter_secret:
            raise ProtocolError("a cohort was announced before the site was invited")
        if me not in cohort or fingerprint(encode(cohort[me])) != memory.own_keys:
            raise ProtocolError(f"the announced cohort does not contain {me!r} with its own keys")
        others = sorted(cohort.keys() - name_set(memory.participants))
        if others:
            raise ProtocolError(f"not among those who may take part: {', '.join(others)}")
        roster = site.identity.roster
        strangers = sorted(cohort.keys() - roster.known)
        if strangers:
            raise ProtocolError(f"not in the roster of {me!r}: {', '.join(strangers)}")
        packed = pack_cohort(cohort)
        verify_cohort(roster.entries, site.run, memory.terms_hash, packed)
        renamed, odd = misfits(packed, cohort[me].columns_hash, len(memory.mask_secrets))
        for name in renamed[:1]:
            raise ProtocolError(
                f"the columns of {name!r} and {me!r} have other names, or stand in another order; list them in one "
                "order at each site, columns = […] in site.toml"
            )
        for name in odd[:1]:
            raise ProtocolError(f"{name!r} was announced with keys for another number of sums than ours")

    def _agree(self, ciphertexts: Mapping[str, bytes]) -> dict[str, bytes]:
        """Return what this site and each of those whose ciphertexts came agree on."""
        memory = self.memory
        cohort = memory.cohort
        me = self.site.name
        mine = decode(memory.ciphertexts, Ciphertexts).ciphertexts
        encapsulated = msgspec.msgpack.decode(memory.encapsulated, type=dict[str, bytes])
        strangers = sorted(set(ciphertexts) - set(mine))
        if strangers:
            raise ProtocolError(
                f"ciphertexts came from {', '.join(strangers[:8])}, with whom this site has no letters"
            )
        found = {}
        for other, ciphertext in ciphertexts.items():
            opened = decapsulate(memory.kem_secret, cohort[me].kem, ciphertext, sender=other)
            ends = {
                me: (encapsulated[other], cohort[me].letters, cohort[me].kem, mine[other]),
                other: (opened, cohort[other].letters, cohort[other].kem, ciphertext),
            }
            first, second = sorted(ends)
            shown = (self.site.run, first.encode(), *ends[first][1:], second.encode(), *ends[second][1:])
            dh = agreement(memory.letter_secret, cohort[other].letters, owner=other)
            found[other] = hybrid(dh, ends[first][0], ends[second][0], *shown)
        return found

    def agreed_with(self, other: str) -> bytes:
        """Return what this site and another have agreed on, or raise `ProtocolError`."""
        agreed = self.memory.agreed
        if other not in agreed:
            raise ProtocolError(
                f"no ciphertext came from {other!r} when the letters were written: no key is shared"
            )
        return agreed[other]

    def _key(self, agreed: bytes, sender: str, recipient: str) -> tuple[bytes, bytes]:
        """Return the key of a letter between this site and another, and what the letter is bound to."""
        bound = fingerprint(b"letter", self.site.run, self.memory.cohort_seed, sender.encode(), recipient.encode())
        return derive_for(agreed, bound), bound

    def _seal(self, agreed: bytes, recipient: str, letter: SealedShares) -> bytes:
        key, envelope = self._key(agreed, self.site.name, recipient)
        return seal(key, msgspec.msgpack.encode(letter), envelope)

    def _unseal(self, agreed: bytes, sender: str, sealed: bytes, sums: int) -> SealedShares:
        """Open the letter of a sender, which has shares for so many sums where it is a peer."""
        key, envelope = self._key(agreed, sender, self.site.name)
        text = unseal(key, sealed, envelope, sender=sender)
        try:
            letter = msgspec.msgpack.decode(text, type=SealedShares)
        except ValueError as error:
            raise ProtocolError(f"the letter from {sender!r} makes no sense: {error}") from error
        if not len(letter.mask_shares) == len(letter.self_shares) == sums and sender in self.memory.peers:
            raise ProtocolError(f"the letter from {sender!r} does not hold a share for each of {sums} sums")
        return letter

    def open_letters(self, members: tuple[str, ...], letters: Mapping[str, bytes]) -> None:
        """Read the mail, once, and settle the secret and the hidden order that follow from it.

        A name said twice would leave a gap in the hidden order, next to that site's place: the coordinator
        could read off the sum where the gap is.
        """
        memory = self.memory
        me = self.site.name
        if not in_order(members):
            raise ProtocolError("the members must be named once each, in alphabetical order")
        if memory.secret:
            if name_set(members) != name_set(memory.order):
                raise ProtocolError("other members were announced before; one run has one hidden order")
            return
        if me not in members or not name_set(members) <= memory.cohort.keys():
            raise ProtocolError("the announced members are not a part of the cohort with this site in it")
        senders = sorted(set(letters) & set(members) - {me})
        parts = self.parts
        agreed = memory.agreed
        unknown = sorted((set(senders) | set(memory.peers) & set(members)) - set(agreed))
        if unknown:
            raise ProtocolError(
                f"no ciphertext came from {', '.join(unknown[:8])} when the letters were written: no key is shared"
            )
        opened = {
            sender: self._unseal(agreed[sender], sender, letters[sender], len(parts.of(sender)))
            for sender in senders
        }
        opened[me] = memory.own_letter or SealedShares()
        contributors = seed_contributors(list(holder_numbers(memory.cohort, memory.cohort_seed)))
        missing = sorted((set(memory.peers) | set(contributors)) & set(members) - set(opened))
        if missing:
            raise ProtocolError(f"no letter was delivered from {', '.join(missing)}")
        said = [opened[name].secret for name in contributors if name in opened]
        if not said or len(said[0]) != 32:
            raise ProtocolError("no seed contributor's secret arrived: all were lost while joining; start anew")
        memory.keep_shares({name: opened[name] for name in (*memory.peers, me) if name in opened}, self.parts)
        memory.secret = said[0]
        memory.own_letter = None
        memory.unsent = {}
        memory.encapsulated = b""
        memory.order_bytes = pack_names(hidden_order(memory.secret, members))

    @property
    def class_floors(self) -> tuple[int, int]:
        """How many sites and rows in all a class must have to be summed; (1, 1): any class is."""
        return (1, 1) if privacy_of(self.settings) else floors_of(self.memory.cohort_seed, self.memory.cohort)

    @property
    def block(self) -> int:
        """This site's place in the hidden order (Appendix B), counted from 0."""
        if not self.memory.order:
            raise ProtocolError("the hidden order is not settled yet")
        return self.memory.order.index(self.site.name)

    def shared_secret(self, purpose: bytes) -> bytes:
        """Return a key that all sites share and the coordinator does not know."""
        if not self.memory.secret:
            raise ProtocolError("the sites have no common secret yet")
        return fingerprint(purpose, self.memory.secret)

    def check_many_enough(self, names: Any) -> None:
        """Refuse what would be shared among fewer sites than the policy asks for."""
        least = self.site.policy.min_cohort
        who = f"the policy of {self.site.name!r} asks"
        if privacy_of(self.settings):  # with fewer, the noise of those that are left would not be enough
            wanted = max((keys.min_cohort for keys in self.memory.cohort.values()), default=0)
            least = max(least, smallest_sum(self.settings, wanted))
            who = "the run's noise is calibrated"
        found = len(frozenset(names))
        if found < least:
            raise ProtocolError(f"{found} sites are left; {who} for at least {least}")


class OpenJoining(JoinPart):
    """Joins a plain run: terms are read and rows looked at as ever, but nobody has keys, and any number will do."""

    def _make_secrets(self, rounds: int) -> None:
        self.memory.private = fingerprint(b"plain", self.site.run, self.site.name.encode())

    def _own_keys(self) -> PublicKeys:
        columns, columns_hash = self._columns()
        blank = bytes(KEY_BYTES)
        return PublicKeys(
            letters=blank,
            kem=bytes(KEM_PUBLIC_BYTES),
            masks=(),
            seals=(),
            columns=columns,
            columns_hash=columns_hash,
            ring_commit=blank,
            min_cohort=self.site.policy.min_cohort,
            min_difference=0,
            signature=bytes(64),
        )

    def meet(self, ask: Meet) -> Ciphertexts:
        """Take note of who is there; the common secret is no secret."""
        memory = self.memory
        run = self.site.run
        memory.cohort_bytes = memoryview(pack_cohort(ask.cohort))
        memory.cohort_seed = cohort_seed(run, ask.cohort)
        memory.secret = fingerprint(b"plain", run)
        memory.order_bytes = pack_names(hidden_order(memory.secret, tuple(sorted(ask.cohort))))
        return Ciphertexts(ciphertexts={})

    @property
    def is_done(self) -> bool:
        """Whether the site has joined: it knows the cohort."""
        return bool(self.memory.cohort)

    def open_letters(self, members: tuple[str, ...], letters: Mapping[str, bytes]) -> None:
        """There are none: everybody is in the order since the cohort was told."""

    @property
    def class_floors(self) -> tuple[int, int]:
        """Any class is summed: no policy has anything against it."""
        return 1, 1

    def check_many_enough(self, names: Any) -> None:
        """Nothing is hidden among others."""
