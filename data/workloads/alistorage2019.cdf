# alistorage2019: Alibaba production storage cluster, 2019
# columns: size_bytes cumulative_probability
# interpolation: linear
# source: Li et al., HPCC, SIGCOMM 2019
# licence: numbers printed in the cited paper, written down here by us; Apache-2.0 like the rest of this repository
0 0
4000 0.2293
8000 0.6921
16000 0.8061
32000 0.9047
64000 0.9353
128000 0.9677
256000 0.9753
2000000 1
