"""Coverage-guided fuzzing of what reads bytes of other people. `python -m fuzz`, or `make fuzz`.

In: nothing; inputs come from `corpus/`, from seeds made here and from mutation. Out: findings, each with a file that
shows it again. Must never: be part of the package that users install.
"""
