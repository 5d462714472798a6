"""Blocks accounts, and unblocks them.

`account_blocks.block` and `unblock` change accounts, and `account_blocks.effects` counts what they
affect.
"""
