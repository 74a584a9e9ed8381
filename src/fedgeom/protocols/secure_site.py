"""The site's side of joining: keys made once, a cohort that is checked, letters with shares, the hidden order."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from typing import ClassVar, TypeVar

import msgspec

from fedgeom import __version__
from fedgeom.crypto import shamir
from fedgeom.crypto.keys import exchange_public, fingerprint, new_exchange_secret, shared_key, verify
from fedgeom.crypto.letters import seal, unseal
from fedgeom.crypto.neighbours import neighbours
from fedgeom.errors import FedgeomError, ProtocolError
from fedgeom.federation.messages import decode, encode
from fedgeom.federation.site import Memory, Site, answers
from fedgeom.protocols.cohort import (
    Hello,
    Letter,
    Letters,
    PublicKeys,
    SecureMemory,
    Share,
    Term,
    cohort_seed,
    heralds_of,
    holder_numbers,
    print_of_terms,
    seal_of,
    threshold,
)

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


def _series(release: str) -> tuple[str, ...]:
    """Return what must agree of a release: its first two numbers."""
    return tuple(release.split(".")[:2])
