"""Sites on this machine, and tasks that are processes of one launcher."""
