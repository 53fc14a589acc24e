# solar2022: Alibaba elastic block storage, 2022
# columns: size_bytes cumulative_probability
# interpolation: linear
# source: Miao et al., From Luna to Solar, SIGCOMM 2022
# licence: numbers printed in the cited paper, written down here by us; Apache-2.0 like the rest of this repository
0 0
4095 0.00001
4096 0.3
16383 0.35
16384 0.5
65535 0.6
65536 0.95
262144 1
