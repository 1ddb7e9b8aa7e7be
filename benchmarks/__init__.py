"""What turns cost, next to a bare driver that does the same writes in the same run. Only ratios mean anything."""
