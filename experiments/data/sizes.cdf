# Bytes, and the share of flows of at most so many.
500 0
2000 0.4
20000 0.9
200000 1
