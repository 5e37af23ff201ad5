"""Explain: the complete and true list of what a task instance or a run waits for right now.

Nothing here has rules of its own. What the loop would decide is asked of the loop's own code (`tasks.deciding`,
`scheduler.limits`), with reads that lock nothing, and then said in words.
"""
