"""What a run will do: plans and predictions, and how accurate predictions are."""
