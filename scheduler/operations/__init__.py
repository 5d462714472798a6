"""Writes: one public function, one transaction, one use."""
