# fb-hadoop-interrack-opera: Facebook Hadoop, flows between racks only (Opera, NSDI 2020)
# columns: size_bytes cumulative_probability
# interpolation: linear
# source: github.com/TritonNetworking/opera-sim, Figure1_traffic/FB_Hadoop_Inter_Rack_FlowCDF.csv, commit c09861386c21b5f53cfa80e5dacbbe02483d4918
# licence: BSD-3-Clause, licences/opera-sim.txt
# changes: none
# note: another population than fb-hadoop; do not mix
325 0
1177 0.01728594
4264 0.022426176
15443 0.027658305
28000 0.06
37323 0.104879491
51067 0.335908276
74908 0.515476971
93293 0.641894623
141819 0.772500294
237853 0.889446481
573344 0.957208265
2076744 0.965639401
7521945 0.9687178
27244995 0.974237092
98686787 0.983862831
223092956 1
