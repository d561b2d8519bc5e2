"""What fits where: tasks and sites, containers, what policies may know, names that users type."""
