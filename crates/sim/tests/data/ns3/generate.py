#!/usr/bin/env python3
"""Writes the flow lists of this folder. The committed CSVs are the reference; this says where they came from."""

import bisect
import math
import os

HERE = os.path.dirname(os.path.abspath(__file__))
MASK = (1 << 64) - 1


class SplitMix64:
    def __init__(self, seed):
        self.state = seed

    def bits(self):
        self.state = (self.state + 0x9E3779B97F4A7C15) & MASK
        z = self.state
        z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & MASK
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & MASK
        return z ^ (z >> 31)

    def unit(self):
        return (self.bits() >> 11) * 2.0**-53


def write(name, flows):
    with open(os.path.join(HERE, name), "w", newline="") as out:
        out.write("src,dst,size_bytes,start_ps\n")
        for flow in flows:
            out.write(",".join(str(field) for field in flow) + "\n")


def dumbbell(seed=1, count=40):
    """Flows over 4 pairs, round robin; sizes log-uniform in 10 KB .. 1 MB; starts 250 us apart and up to 100 us more:
    about 0.7 of the bottleneck, so that flows share it but it also empties."""
    draws = SplitMix64(seed)
    flows = []
    for i in range(count):
        size = int(10_000 * 100 ** draws.unit())
        start = i * 250_000_000 + draws.bits() % 100_000_000
        flows.append((i % 4, 4 + i % 4, size, start))
    return flows


# Web search (DCTCP), bytes and cumulative probability, linear in between.
WEB_SEARCH = [
    (0, 0.0), (10_000, 0.15), (20_000, 0.2), (30_000, 0.3), (50_000, 0.4), (80_000, 0.53), (200_000, 0.6),
    (1_000_000, 0.7), (2_000_000, 0.8), (5_000_000, 0.9), (10_000_000, 0.97), (30_000_000, 1.0),
]  # fmt: skip
CAP = 3_000_000


def web_search(u):
    at = min(bisect.bisect_left([p for _, p in WEB_SEARCH], u), len(WEB_SEARCH) - 1) or 1
    (b0, p0), (b1, p1) = WEB_SEARCH[at - 1], WEB_SEARCH[at]
    return max(1, min(CAP, int(b0 + (b1 - b0) * (u - p0) / (p1 - p0))))


def capped_mean():
    steps = 200_000
    return sum(web_search((i + 0.5) / steps) for i in range(steps)) / steps


def fat_tree():
    """200 flows on 16 hosts, Poisson at 0.4 of the host links (payload), any other host as destination."""
    draws = SplitMix64(7)
    mean_gap_ps = capped_mean() * 8 / (0.4 * 16 * 10e9) * 1e12
    flows, now = [], 0
    for _ in range(200):
        now += round(-math.log1p(-draws.unit()) * mean_gap_ps)
        src = dst = draws.bits() % 16
        while dst == src:
            dst = draws.bits() % 16
        flows.append((src, dst, web_search(draws.unit()), now))
    return flows


if __name__ == "__main__":
    write("dumbbell-flows.csv", dumbbell())
    # Many flows, so that one 5 ms timeout more or less does not decide the mean.
    write("dumbbell-many-flows.csv", dumbbell(seed=2, count=800))
    write("fat-tree-flows.csv", fat_tree())
