"""Predictions of run times and queue waits (thesis chapter 7; JGC paper, section 6.2).

A *method* predicts the next value of one series of run times. A *class* says which jobs share a
series. A *predictor* answers for a job: it is a method applied to each class, a model of the JGC
paper, or a combination of other predictors. Predictors do no input or output, and learn only from
jobs that have ended.
"""
