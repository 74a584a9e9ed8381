"""pandas: one DataFrame with all hospitals and several rows per patient; no patient is learnt from and tested on."""

import numpy as np
import pandas as pd

import fedgeom

rng = np.random.default_rng(0)
visits = pd.DataFrame(
    {"patient": rng.integers(0, 150, 600), "bmi": rng.normal(26, 4, 600), "crp": rng.gamma(2, 3, 600)}
)
visits["hospital"] = np.array(["Bern", "Lyon", "Turin"])[visits["patient"] % 3]
risk = (visits["bmi"] - 26) / 4 + (visits["crp"] - 6) / 4 + rng.normal(0, 0.5, 600)
visits["diagnosis"] = np.where(risk > 0, "ill", "well")
visits.index = [f"visit-{i}" for i in range(600)]

sites = fedgeom.SiteData.from_frame(visits, label="diagnosis", by="hospital", group="patient")
print(*sites, sep="\n")

parts = [fedgeom.holdout(site, 0.3, seed=0) for site in sites]
run = fedgeom.run(fedgeom.Moments(space="euclidean"), [train for train, _ in parts], seed=0)
for train, test in parts:
    shared = set(train.groups) & set(test.groups)
    right = run.model.score(test.X, test.y)
    print(f"{test.name}: {right:.2f} of {len(test)} visits, {len(shared)} patients on both sides")

# Columns are found by name: another order is put right, an unknown or missing one refused.
new = visits.loc[["visit-3", "visit-7"], ["crp", "bmi"]]
print(pd.Series(run.model.predict(new), index=new.index, name="predicted"))
