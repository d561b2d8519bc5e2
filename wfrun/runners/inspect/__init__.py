"""Shows runs to users: displays, tables, reports, explanations and exports."""
