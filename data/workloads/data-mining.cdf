# data-mining: data mining cluster
# columns: size_bytes cumulative_probability
# interpolation: linear
# source: Greenberg et al., VL2, SIGCOMM 2009; the thirteen-point reading common to later work
# licence: numbers printed in the cited paper, written down here by us; Apache-2.0 like the rest of this repository
# note: 2 % of flows lie between 100 MB and 1 GB; the pFabric and Opera readings put 1 % there, so this mean is the largest published
0 0
180 0.1
216 0.2
560 0.3
900 0.4
1100 0.5
1870 0.6
3160 0.7
10000 0.8
400000 0.9
3160000 0.95
100000000 0.98
1000000000 1
