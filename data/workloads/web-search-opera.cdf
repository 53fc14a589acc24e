# web-search-opera: web search, re-read from the figure for Opera (NSDI 2020)
# columns: size_bytes cumulative_probability
# interpolation: linear
# source: github.com/TritonNetworking/opera-sim, Figure1_traffic/websearch.csv, commit c09861386c21b5f53cfa80e5dacbbe02483d4918
# licence: BSD-3-Clause, licences/opera-sim.txt
# changes: none
4000 0
5971 0.07704918
8722 0.152459016
18614 0.195081967
27563 0.3
44871 0.427868852
77113 0.532786885
193593 0.601639344
620119 0.696721311
1933313 0.801639344
3147330 0.860655738
4853634 0.903278689
6901099 0.942622951
9812271 0.972131148
15759080 0.985245902
28589215 1
