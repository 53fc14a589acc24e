# web-search-pfabric: web search in 1460-byte packets, as used by pFabric and pHost
# columns: size_bytes cumulative_probability
# interpolation: linear
# source: github.com/NetSys/simulator, py/CDF_dctcp.txt, commit 179b64ef7a78c3e1c3b95006b96a35f8fc0cff01
# licence: BSD-3-Clause, licences/NetSys-simulator.txt
# changes: packets multiplied by 1460 payload bytes, as the mean in the source program does
# note: 15 % of flows are exactly 6 packets
8760 0
8760 0.15
18980 0.2
27740 0.3
48180 0.4
77380 0.53
194180 0.6
973820 0.7
1946180 0.8
4866180 0.9
9733820 0.97
29200000 1
