"""fedgeom inside a Flower federation, by Flower's public interface alone: ServerApp, Grid, ClientApp.

Nothing of Flower is replaced. `engine` carries questions over a grid, `apps` makes the two apps. Folders, jobs and
methods are nobody's business here: they come in as functions, from `fedgeom.deploy.flower`.
"""
