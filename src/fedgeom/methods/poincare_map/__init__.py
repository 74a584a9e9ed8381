"""One joint Poincaré map of all sites' rows, from the means of cells of rows and no row."""
