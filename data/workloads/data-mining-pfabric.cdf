# data-mining-pfabric: data mining in 1460-byte packets, as used by pFabric and pHost
# columns: size_bytes cumulative_probability
# interpolation: linear
# source: github.com/NetSys/simulator, py/CDF_datamining.txt, commit 179b64ef7a78c3e1c3b95006b96a35f8fc0cff01
# licence: BSD-3-Clause, licences/NetSys-simulator.txt
# changes: packets multiplied by 1460 payload bytes, as the mean in the source program does
# note: half of all flows are one packet
1460 0
1460 0.5
2920 0.6
4380 0.7
10220 0.8
389820 0.9
3076220 0.95
97333820 0.99
973333820 1
