"""A loss that compares features with those of the joint and of the previous local model."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, ClassVar

from fedgeom.federation.settings import POSITIVE, Between
from fedgeom.methods.iterative.losses.base import Batch, Loss
from fedgeom.methods.iterative.losses.softmax import cross_entropy

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True)
class Contrastive(Loss):
    """Cross-entropy + μ·ℓ: features near those of the joint model, away from the site's own before (MOON).

    Li, He and Song 2021: ℓ = −log(exp(sim(z, z_joint)/τ) / (exp(sim(z, z_joint)/τ) + exp(sim(z, z_before)/τ))), with
    cosines as similarities. In a site's first round there is no model before, and ℓ is left away.
    """

    name: ClassVar[str] = "contrastive"
    looks_back: ClassVar[bool] = True

    mu: Annotated[float, Between(0)] = 1.0
    """μ: the weight of the comparison."""
    temperature: Annotated[float, POSITIVE] = 0.5
    """τ"""

    def __call__(self, batch: Batch) -> torch.Tensor:
        """Return the mean loss."""
        from torch.nn.functional import cosine_similarity, softplus  # optional

        loss = cross_entropy(batch, batch.scores)
        if batch.previous is None or not self.mu:
            return loss
        near = cosine_similarity(batch.features, batch.joint.features(batch.inputs))
        far = cosine_similarity(batch.features, batch.previous.features(batch.inputs))
        # −log(e^a/(e^a + e^b)) = log(1 + e^(b − a))
        return loss + self.mu * batch.mean(softplus((far - near) / self.temperature))
