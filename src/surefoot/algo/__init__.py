"""The algorithm: estimates, loss terms, the update, the learner."""
