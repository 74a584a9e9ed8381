"""Tests of training with pseudo-labels."""
