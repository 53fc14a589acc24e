# bimodal-f3-printed-mean: 10 KB and 1 MB flows, shares chosen to give the printed mean
# columns: size_bytes cumulative_probability
# interpolation: step
# source: the OMNeT++ study of ECMP and Hermes (UC Santa Cruz), founding document F3, section 4; KB = 1000 B
# licence: numbers printed in the cited paper, written down here by us; Apache-2.0 like the rest of this repository
# note: 500 long of 50000: mean 19 900 B, where the text prints 19.901 KB and 750 long flows
10000 0.99
1000000 1
