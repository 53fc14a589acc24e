# imc10: university and enterprise data centres (Benson et al., IMC 2010), as used by pHost
# columns: size_bytes cumulative_probability
# interpolation: linear
# source: github.com/NetSys/simulator, py/CDF_aditya.txt, commit 179b64ef7a78c3e1c3b95006b96a35f8fc0cff01
# licence: BSD-3-Clause, licences/NetSys-simulator.txt
# changes: packets multiplied by 1460 payload bytes, as the mean in the source program does
# note: the attribution is the pHost paper's; the source file carries no comment
1460 0
1460 0.5
2920 0.6
4380 0.7
7300 0.75
10220 0.8
58400 0.8125
105120 0.825
200020 0.85
389820 0.9
1733020 0.95
3076220 1
