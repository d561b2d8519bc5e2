"""Sites on this machine, and sites with one launcher that is started directly."""
