"""A package that claims the names of what comes with fedgeom; nothing of it may ever be loaded."""

raise RuntimeError("the thief was loaded")
