"""Four hospitals learn one classifier; then each of them uses it."""

import fedgeom

tumours = fedgeom.load_set("breast-cancer", n_sites=4)
run = fedgeom.run(fedgeom.Hulls(embedding="discriminant"), tumours.train, seed=0)

for test in tumours.test:
    model = run.model.for_site(run.local[test.name])
    print(f"{test.name}: {(model.predict(test.X) == test.y).mean():.3f} of {len(test)} test rows are right")

print(run.ledger)
for step, kind, sites, size, reveals in run.ledger.summary():
    print(f"{step:3} {kind:17} {size // sites:6,} bytes per site: {reveals}")
