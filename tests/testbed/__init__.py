"""Real clusters on loopback: two of Slurm, a Grid Engine cell and a plain SSH host.

``python -m tests.testbed up`` from the root of the project; docs/testbed.md.
"""
