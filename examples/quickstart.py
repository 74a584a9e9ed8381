"""Four hospitals learn one classifier; then one of them uses it."""

import fedgeom
from fedgeom.data.sets import load_set

tumours = load_set("breast-cancer", n_sites=4)
run = fedgeom.run(fedgeom.Hulls(embedding="discriminant"), tumours.train, seed=0)

for mine, test in zip(tumours.train, tumours.test, strict=True):
    model = run.model.for_site(run.local[mine.name])
    print(f"{mine.name}: {(model.predict(test.X) == test.y).mean():.3f} of {len(test)} test rows are right")

print(run.ledger)
for step, kind, sites, size, reveals in run.ledger.summary():
    print(f"{step:3} {kind:17} {size // sites:6,} bytes per site: {reveals}")
