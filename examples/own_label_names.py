"""Sites that never agreed on names find out which of their words mean the same."""

import fedgeom

words = {
    "Porto": {"class_0": "Barolo", "class_1": "Grignolino", "class_2": "Barbera"},
    "Turin": {"class_0": "B1", "class_1": "G", "class_2": "B2"},
    "Basel": {"class_0": "schwer", "class_1": "leicht", "class_2": "herb"},
}
wines = fedgeom.load_set("wine", n_sites=3).rename(list(words)).relabel(words)
run = fedgeom.run(fedgeom.Hulls(embedding="discriminant"), wines.train, seed=0)

for group in range(run.model.classes):
    names = (word for site in words for word, mine in run.local[site]["names"].items() if mine == group)
    print(f"class {group}: {' = '.join(names)}")

model = run.model.for_site(run.local["Basel"])
print("Basel's first test rows:", ", ".join(model.predict(wines.test[2].X)[:4]))
