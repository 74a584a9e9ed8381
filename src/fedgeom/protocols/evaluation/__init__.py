"""Testing the model where the rows are: sites count what it says of rows kept aside, and only sums of counts leave.

With a holdout in the terms (`Holdout`), this is the last sum of every method. A site compares what three models say of
the rows that it kept aside with what it calls them itself: its own model, the joint one where that is another, and one
that it trains on its own rows alone.
"""
