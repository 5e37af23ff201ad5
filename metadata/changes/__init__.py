"""What people change by hand: they clear, mark, cancel and delete, also while things run.

A change is one transaction. It locks runs in the order of their ids, then their task instances in the order of theirs,
and only then looks at states. A scheduler that starts or decides leaves a locked run alone; a worker or a critical
section that waits for a row finds, when it gets it, that its compare-and-set no longer holds.
"""
