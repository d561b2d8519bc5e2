"""PBS Professional, OpenPBS and Torque: what it is asked, what it prints, and what it offers."""
