"""PBS Professional, OpenPBS and Torque."""
