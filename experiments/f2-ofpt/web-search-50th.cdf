# Flow sizes of web search (data/workloads/web-search.cdf), divided by 50, for links of 20 Mb/s instead of 1 Gb/s.
# columns: size_bytes cumulative_probability
# interpolation: linear
# source: Alizadeh et al., Data Center TCP (DCTCP), SIGCOMM 2010; the twelve-point reading common to later work
# licence: numbers printed in the cited paper, written down here by us; Apache-2.0 like the rest of this repository
0 0
200 0.15
400 0.2
600 0.3
1000 0.4
1600 0.53
4000 0.6
20000 0.7
40000 0.8
100000 0.9
200000 0.97
600000 1
