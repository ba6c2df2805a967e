"""What the commands do, as calls: `bm.run`, `bm.compare`, `bm.relate`, `bm.predict` and others.

A verb takes what a command takes (the path of a configuration or of a run) and what only Python
has: settings as a dict, rows in memory, a model. It shows its progress in terminals and notebooks
and returns a result that you can look at, turn into a table and save. Commands whose work is more
than one call below them call the verbs.
"""
