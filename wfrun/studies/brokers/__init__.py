"""The study of thesis section 6.4: workflows on the real DAS-3, with a broker for each."""
