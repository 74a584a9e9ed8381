"""Cryptography's local halves: keys, letters, masks and secret sharing.

Nothing here sends anything. Every random byte comes from the operating system.
"""
