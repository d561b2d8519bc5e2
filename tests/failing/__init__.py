"""Tests in which the n-th system call of a program fails, or the power goes."""
