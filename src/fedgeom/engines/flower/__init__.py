"""Everything that knows Flower is behind this door: no other room imports ``flwr``.

It carries questions across machines (`engine`, `nodes`, `client_app`, `server_app`), or through the same messages in
one process (`loopback`), knows Flower's commands and log (`commands`, `calls`, `log_lines`), and says which of Flower's
symbols are replaced, and why (`patch_table`). Folders, jobs and methods are nobody's business here: they come in as
names, keys and functions, from `fedgeom.deploy`.
"""
