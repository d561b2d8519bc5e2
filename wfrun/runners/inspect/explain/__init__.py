"""Why a task waits, or went where it is; why a site is idle."""
