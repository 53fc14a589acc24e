# bimodal-f3: 10 KB and 1 MB flows, counts as printed: 49250 short and 750 long of 50000
# columns: size_bytes cumulative_probability
# interpolation: step
# source: the OMNeT++ study of ECMP and Hermes (UC Santa Cruz), founding document F3, section 4; KB = 1000 B
# licence: numbers printed in the cited paper, written down here by us; Apache-2.0 like the rest of this repository
# note: mean 24 850 B, not the 19.901 KB the text prints; see bimodal-f3-printed-mean
10000 0.985
1000000 1
