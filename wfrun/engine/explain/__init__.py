"""Why tasks wait and sites are idle, and how long a run still takes."""
