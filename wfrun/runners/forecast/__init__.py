"""Plans and predictions of runs, and the accuracy of predictions."""
