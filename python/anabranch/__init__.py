"""Compare load balancers on your topology, your traffic and your failures.

>>> import anabranch as ab
>>> net = ab.fat_tree(k=4)
>>> exp = ab.Experiment(net, ab.Traffic("web-search", load=[0.3, 0.6], flows=500), balancers=["ecmp", "drill"], seeds=3)
>>> res = exp.run()
>>> print(res)

The package is the `anabranch` program: experiments, results and errors are those of the command, byte for byte.
"""

from . import bounds
from ._generated import *
from ._generated import __all__ as _generated
from ._native import AnabranchError, Table, __version__
from .balancer import Balancer, Candidates, EdgeBalancer, Feedback, Packet, Place, SwitchBalancer, check_balancer
from .experiment import Experiment, InputFile, experiment_path
from .registries import Entry, balancers, collectives, metrics, patterns, topologies, transports, workloads
from .results import Results
from .topology import Topology

__all__ = [
    "AnabranchError",
    "Balancer",
    "Candidates",
    "EdgeBalancer",
    "Entry",
    "Experiment",
    "Feedback",
    "InputFile",
    "Packet",
    "Place",
    "Results",
    "SwitchBalancer",
    "Table",
    "Topology",
    "__version__",
    "balancers",
    "bounds",
    "check_balancer",
    "collectives",
    "experiment_path",
    "metrics",
    "patterns",
    "topologies",
    "transports",
    "workloads",
    *_generated,
]
