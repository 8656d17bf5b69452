"""The command groups of `lnattn`: one module each, with `add_arguments(parser)` and `run(args)`.

`run` prints its result on standard output (everything else goes to standard error) and returns
None or an exit code. Heavy imports stay inside `run`, so that `lnattn --help` is quick.
"""
