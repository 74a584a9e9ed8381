"""The site's half of joining: keys made once, a cohort that is checked, letters with shares, the hidden order."""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Mapping
from functools import cached_property
from typing import Any, ClassVar

import msgspec

from fedgeom.crypto.keys import agreement, derive_for, exchange_public, fingerprint, new_exchange_secret
from fedgeom.crypto.letters import seal, unseal
from fedgeom.crypto.neighbours import COMPLETE_UP_TO, neighbours
from fedgeom.errors import InputError, ProtocolError
from fedgeom.federation.approval import hash_terms, release_series
from fedgeom.federation.messages import decode, encode
from fedgeom.federation.policy_checks import check_settings
from fedgeom.federation.privacy import privacy_of, smallest_sum, spent_by
from fedgeom.federation.settings import Settings
from fedgeom.federation.site import Part, answers
from fedgeom.protocols.joining.cohorts import misfits, pack_cohort, verify_cohort
from fedgeom.protocols.joining.memory import JoiningMemory
from fedgeom.protocols.joining.messages import (
    Hello,
    Letter,
    Letters,
    PublicKeys,
    Share,
    class_floors,
    cohort_seed,
    hash_columns,
    heralds_of,
    hidden_order,
    holder_numbers,
    lock_seal,
    seal_of,
)
from fedgeom.protocols.joining.name_lists import in_order, name_set, pack_names
from fedgeom.protocols.joining.parts import SumParts
from fedgeom.protocols.joining.writing import make_pair_keys, sum_parts, write_letters
from fedgeom.version import __version__

_SETTINGS: dict[tuple[type[Settings], bytes], Settings] = {}


def _settings_of(method: type[Any], terms: Mapping[str, Any], terms_hash: bytes) -> Settings:
    """Return the settings that terms stand for, read once in a process: a site is built anew for each question."""
    key = method, terms_hash
    if key not in _SETTINGS:
        if len(_SETTINGS) >= 64:
            _SETTINGS.clear()
        _SETTINGS[key] = method.from_terms(terms)
    return _SETTINGS[key]


class Joining(Part[JoiningMemory]):
    """Joins a run, once, on terms that are then kept to."""

    name: ClassVar[str] = "joining"

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
        if memory.letter_secret and memory.terms_hash != terms:
            raise ProtocolError("the run was announced on other terms before")
        self.site.examine(settings, ask.seed)  # the data are looked at last: until here nothing depends on them
        if not memory.letter_secret:
            self.site.identity.budget.charge(self.site.run, method, spent_by(settings))
            memory.terms_hash, memory.terms, memory.seed, memory.sums = terms, ask.terms, ask.seed, sums
            memory.participants_bytes = pack_names(ask.participants)
            memory.letter_secret = new_exchange_secret()
            memory.mask_secrets = tuple(secrets.token_bytes(32) for _ in range(ask.rounds))
            memory.self_seeds = tuple(secrets.token_bytes(32) for _ in range(ask.rounds))
            memory.herald_secret = secrets.token_bytes(32)
            memory.private = secrets.token_bytes(32)
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

    def _own_keys(self) -> PublicKeys:
        memory, site = self.memory, self.site
        raw = bool(memory.terms.get("prepare"))  # what columns the sites have, they tell each other later
        unsigned = PublicKeys(
            letters=exchange_public(memory.letter_secret),
            masks=tuple(lock_seal(secret) for secret in memory.mask_secrets),
            seals=tuple(seal_of(seed) for seed in memory.self_seeds),
            columns=0 if raw else site.data.shape[1],
            columns_hash=b"" if raw else hash_columns(site.run, site.data.columns),
            floors=site.policy.class_floors,
            ring_commit=site.ring.commit(),  # type: ignore[attr-defined]
            min_cohort=site.policy.min_cohort,
            min_difference=0 if site.policy.sums_after_losses else site.policy.min_cohort,
            signature=bytes(64),
        )
        statement = unsigned.statement(site.run, site.name, memory.terms_hash)
        return msgspec.structs.replace(unsigned, signature=site.identity.key.sign("keys", *statement))

    @answers(Share)
    def share_secrets(self, ask: Share) -> Letters:
        """Check the announced cohort and send each peer its shares."""
        memory, me, run = self.memory, self.site.name, self.site.run
        seed = cohort_seed(run, ask.cohort, ask.numbers, ask.draw)
        if memory.cohort and memory.cohort_seed != seed:
            raise ProtocolError("another cohort was announced before; one run has one cohort")
        if memory.letters:  # new shares would not fit those that the others hold already
            return decode(memory.letters, Letters)
        self.check_cohort(ask.cohort)
        self.site.ring.check(ask.cohort, ask.numbers, ask.draw)  # type: ignore[attr-defined]
        memory.cohort_bytes, memory.cohort_seed = memoryview(pack_cohort(ask.cohort)), seed
        numbers = holder_numbers(ask.cohort, seed)
        heralds = heralds_of(list(numbers))
        memory.peers = neighbours(numbers, seed, self.settings.smallest_sum(len(numbers)))[me]
        needed = self.holders_needed()
        sums = self.parts.of(me)
        letters = write_letters(memory, me, numbers, needed, sums, herald=me in heralds)
        memory.own_letter = letters.pop(me)
        agreed = self._agree(letters)  # once for the letter and for all sums
        sealed = {name: self._seal(agreed[name], name, letter) for name, letter in letters.items()}
        locked = make_pair_keys(memory, me, run, agreed, sums)
        answer = Letters(letters=sealed, needed=needed, locked=locked)
        memory.letters = encode(answer)
        self.site.ring.memory.cohort = {}  # type: ignore[attr-defined]  # the ring is settled: it is not drawn again
        return answer

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
        site, memory, me = self.site, self.memory, self.site.name
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

    def _agree(self, others: Iterable[str]) -> dict[str, bytes]:
        """Return what this site and each of some others agree on."""
        secret, cohort = self.memory.letter_secret, self.memory.cohort
        return {other: agreement(secret, cohort[other].letters) for other in others}

    def _key(self, agreed: bytes, sender: str, recipient: str) -> tuple[bytes, bytes]:
        """Return the key of a letter between this site and another, and what the letter is bound to."""
        bound = fingerprint(b"letter", self.site.run, self.memory.cohort_seed, sender.encode(), recipient.encode())
        return derive_for(agreed, bound), bound

    def _seal(self, agreed: bytes, recipient: str, letter: Letter) -> bytes:
        key, envelope = self._key(agreed, self.site.name, recipient)
        return seal(key, msgspec.msgpack.encode(letter), envelope)

    def _unseal(self, agreed: bytes, sender: str, sealed: bytes, sums: int) -> Letter:
        """Open the letter of a sender, which has shares for so many sums where it is a peer."""
        key, envelope = self._key(agreed, sender, self.site.name)
        text = unseal(key, sealed, envelope, sender=sender)
        try:
            letter = msgspec.msgpack.decode(text, type=Letter)
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
        memory, me = self.memory, self.site.name
        if not in_order(members):
            raise ProtocolError("the members must be named once each, in alphabetical order")
        if memory.secret:
            if name_set(members) != name_set(memory.order):
                raise ProtocolError("other members were announced before; one run has one hidden order")
            return
        if me not in members or not name_set(members) <= memory.cohort.keys():
            raise ProtocolError("the announced members are not a part of the cohort with this site in it")
        senders = sorted(set(letters) & set(members) - {me})
        parts, agreed = self.parts, self._agree(senders)
        opened = {
            sender: self._unseal(agreed[sender], sender, letters[sender], len(parts.of(sender)))
            for sender in senders
        }
        opened[me] = memory.own_letter or Letter()
        heralds = heralds_of(list(holder_numbers(memory.cohort, memory.cohort_seed)))
        missing = sorted((set(memory.peers) | set(heralds)) & set(members) - set(opened))
        if missing:
            raise ProtocolError(f"no letter was delivered from {', '.join(missing)}")
        said = [opened[name].secret for name in heralds if name in opened]
        if not said or len(said[0]) != 32:
            raise ProtocolError("no herald's secret arrived: all of them were lost while joining; start anew")
        memory.keep_shares({name: opened[name] for name in (*memory.peers, me) if name in opened}, self.parts)
        memory.secret, memory.own_letter = said[0], None
        memory.order_bytes = pack_names(hidden_order(memory.secret, members))

    @property
    def class_floors(self) -> tuple[int, int]:
        """How many sites and rows in all a class must have to be summed; (1, 1): any class is."""
        return (1, 1) if privacy_of(self.settings) else class_floors(self.memory.cohort)

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
        least, who = self.site.policy.min_cohort, f"the policy of {self.site.name!r} asks"
        if privacy_of(self.settings):  # with fewer, the noise of those that are left would not be enough
            wanted = max((keys.min_cohort for keys in self.memory.cohort.values()), default=0)
            least, who = max(least, smallest_sum(self.settings, wanted)), "the run's noise is calibrated"
        found = len(frozenset(names))
        if found < least:
            raise ProtocolError(f"{found} sites are left; {who} for at least {least}")
