"""Where chapter 5 of the thesis contradicts itself: a part of the page written by hand."""

CONTRADICTIONS = """
## Where the thesis contradicts itself

- **FPLT with S-T (claims 4 and 8 against 24).** With S-T, FPLT takes the largest task of all bags
  first; with S-BoT, one bag after the other. FPF takes tasks in the order of arrival, so that with
  S-T it does almost what FPLT does with S-BoT: in the quick study its NSL at 95% is 2.04 and that
  of FPLT with S-BoT 2.01, while FPLT with S-T has 15.4. Section 5.4.4 says that the NSL of S-BoT
  is up to 16 times lower than that of the others, among them S-T (claims 23 and 24). Then the NSL
  of FPF under S-T must also be many times lower than that of FPLT. Section 5.4.1 says of the same
  policies under S-T that the balance of FPLT is among the best (claim 4) and that the NSL of FPF
  is poor (claim 8).
- **fcondor (claim 34).** The text says of loads below 50% and of loads of 50% and more alike that
  the NSL of fcondor is similar to that of sep-c, and calls these results mixed; the first sep-c is
  taken as csp here.
"""
