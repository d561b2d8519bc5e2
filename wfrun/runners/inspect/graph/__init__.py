"""The graph of a workflow as text and as a picture."""
