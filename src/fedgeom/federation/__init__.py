"""Messages, sites, the coordinator's view of them, the ledger, run records and engines.

No room above this one: nothing here knows a particular method.
"""
