"""Computes the credit of valid results, and corrects credit totals."""
