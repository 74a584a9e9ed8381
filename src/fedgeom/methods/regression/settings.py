"""The settings of Regression, which both halves know."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Literal

from fedgeom.errors import InputError
from fedgeom.federation.settings import Between, ClassNames, Settings


def check_treatment(treatment: str, reference: Sequence[str]) -> None:
    """Refuse a treatment that is left out, as others are compared to it."""
    if treatment and treatment in reference:
        raise InputError(
            f"treatment={treatment!r} given, and reference={list(reference)!r}; a treatment is compared to the "
            "reference: wanted another word of its column as reference, or none"
        )


Family = Literal["binomial", "gaussian", "poisson", "gamma"]


@dataclass(frozen=True, kw_only=True)
class RegressionSettings(Settings):
    """What is modelled, and which errors are told."""

    family: Family = "binomial"
    """"binomial": the log odds of one of two classes; "gaussian": a number; "poisson": the logarithm of a mean count;
    "gamma": the logarithm of the mean of a positive number."""
    classes: ClassNames = None
    """With "binomial", the two label names. None: the sites' names, which they work out themselves."""
    event: str = ""
    """With "binomial", the label whose odds are modelled. "": the last of the two in alphabetical order, such as 1."""
    reference: tuple[str, ...] = ()
    """Columns that are left out, such as "arm = placebo", to which the other words of a column are compared. Of a
    column of words without one, it is the first word."""
    site_effects: Literal["none", "fixed"] = "none"
    """"fixed": each site has an intercept of its own, which it keeps to itself."""
    offset: bool = False
    """Whether rows come with an offset (`SiteData.from_frame(offset=…)`), a term with the coefficient 1."""
    weights: bool = False
    """Whether rows come with weights (`SiteData.from_frame(weights=…)`): how many rows each counts for."""
    ridge: Annotated[float, Between(0)] = 0.0
    """How strongly coefficients of standardised columns are held back: ridge/2 times the sum of their squares is taken
    from the log likelihood. 0: not at all."""
    errors: Literal["model", "robust", "cluster"] = "model"
    """Which standard errors tables show: those of the model, robust ones (HC0), or robust ones by site (CR1)."""
    treatment: str = ""
    """A column of 0 and 1, such as "arm = aspirin", whose effect is also standardised over all rows: what the mean
    outcome would be if all rows had 1 there, or 0. "": none."""
    heterogeneity: bool = True
    """Whether coefficients are compared between sites: Cochran's Q and I², from sums over sites."""
    level: Annotated[float, Between(0.5, 0.999)] = 0.95
    """The level of intervals."""
    tolerance: Annotated[float, Between(1e-14, 1e-2)] = 1e-12
    """Steps end where the next one would change the deviance by less."""
    n_rounds: Annotated[int, Between(1, 100)] = 25
    """The most steps: a sum each. Well-behaved data need five to seven."""
    min_rows: Annotated[int, Between(0)] = 2
    """Sites refuse to contribute a class with fewer rows."""
    min_sites: Annotated[int, Between(1)] = 2
    """The fewest sites that make a result."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.classes is not None and len(self.classes) != 2:
            raise InputError(f"classes={list(self.classes)!r} given; wanted two, of which one is the event")
        if self.classes is not None and self.event and self.event not in self.classes:
            raise InputError(f"event={self.event!r} given; wanted one of the classes {list(self.classes)!r}")
        check_treatment(self.treatment, self.reference)
        if self.site_effects == "fixed" and self.by_rows:
            raise InputError(
                f'site_effects="fixed" with errors={self.errors!r}, treatment={self.treatment!r} given; robust errors '
                'and standardised effects are for one intercept: wanted errors="cluster" or "model" and no '
                "treatment, or "
                'site_effects="none"'
            )

    @property
    def by_rows(self) -> bool:
        """Whether products of the rows' scores are summed."""
        return self.errors == "robust" or bool(self.treatment)

    @property
    def by_sites(self) -> bool:
        """Whether sites are compared."""
        return self.errors == "cluster" or self.heterogeneity
