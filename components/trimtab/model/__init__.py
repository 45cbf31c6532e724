"""The vocabulary that every other part shares: pure values, standard library only."""
