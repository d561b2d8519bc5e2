"""A model check of the core: random worlds, each from one integer seed, under an auditor that reads
the log and the actions alone.

``python -m tests.engine.model --seeds 0-9999`` explores worlds, ``--seed N --trace`` shows one.
``python -m tests.engine.model.mutants`` says which wrong changes of the core nothing notices. A
seed that breaks is mended, in the core or in the auditor, and kept in ``test_model.FOUND``.
"""
