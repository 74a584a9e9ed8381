"""Graphs of similar rows: hashing, nearest neighbours, propagation, anchors."""
