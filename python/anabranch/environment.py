"""Gymnasium: a fabric as an environment for learning.

Every interval of simulated time an agent sees the load and the queue of each link between switches, and acts: on the
weights of next hops, or on the choice of balancer.

>>> import gymnasium, anabranch.environment
>>> env = gymnasium.make("anabranch/Fabric-v0")
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Literal, Sequence

import gymnasium
import numpy as np
from gymnasium import spaces

from . import _native
from .experiment import Experiment

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Observation = NDArray[np.float32]

#: A weight of 1 or -1 multiplies or divides the capacity of a next hop by this.
WEIGHT_BASE = 8.0


class FabricEnv(gymnasium.Env["Observation", Any]):
    """A fabric whose switches are steered.

    experiment: the network, traffic and failures; of a sweep the first variant. Its balancers and seeds are not used.
    interval_us: simulated time between two actions, microseconds.
    act: "weights": an action has a number from -1 to 1 for each link upwards from a switch, `links_up`: the weight of the
        next hop is its capacity times 8 to this power. Zeros are `wcmp`. Or "balancer": an action is a position in
        `balancers`, which all switches use until the next action.
    balancers: balancers of switches to choose from, such as "ecmp", "drill", "letflow:gap=50us". Hosts resequence packets
        all the time if one of them spreads the packets of a flow.

    An observation has for each link between switches (`links`) the share of the last interval in which it sent, and the
    time that its queue needs, in intervals and at most 1; and at the end the share of the flows that run.

    The reward is minus the running flows by all flows: its sum over an episode times the interval is minus the mean
    completion time, to within an interval. An episode ends with its last flow, or is truncated at `stop.until`. Then
    `info` has the metrics of the run: `fct_mean_us`, `slowdown_mean`, `completed`, `failed`, and `run`, all of them.

    `reset(seed=...)` draws the seed of the run and its load, which `options={"load": 0.5}` sets instead. The same seed and
    actions give the same episode.
    """

    metadata = {"render_modes": []}

    def __init__(
        self,
        experiment: Experiment | None = None,
        interval_us: float = 1000.0,
        act: Literal["weights", "balancer"] = "weights",
        balancers: Sequence[str] = ("ecmp", "drill"),
    ) -> None:
        """Make the environment; without an experiment, of an asymmetric leaf-spine."""
        if act not in ("weights", "balancer"):
            raise ValueError(f'act = {act!r}: must be "weights" or "balancer"')
        self.experiment = asymmetric_leaf_spine() if experiment is None else experiment
        self.interval_us = float(interval_us)
        self.act = act
        chosen = ["wcmp"] if act == "weights" else list(balancers)
        self._fabric = _native.Fabric(self.experiment._read(), self.interval_us, chosen)
        links = self._fabric.links
        #: Numbers of the links between switches, and of those of them that lead away from hosts.
        self._seen = [number for number, link in enumerate(links) if link[3] != "host"]
        self._up = [number for number in self._seen if links[number][3] == "up"]
        #: The same by name, such as "leaf0 -> spine1".
        self.links = [f"{links[number][0]} -> {links[number][1]}" for number in self._seen]
        self.links_up = [f"{links[number][0]} -> {links[number][1]}" for number in self._up]
        #: Rates of `links`, bit/s.
        self.rates = np.array([links[number][2] for number in self._seen], dtype=np.float64)
        if act == "weights":
            self.action_space: Any = spaces.Box(-1.0, 1.0, (len(self._up),), np.float32)
        else:
            self.action_space = spaces.Discrete(len(chosen))
        self.observation_space = spaces.Box(0.0, 1.0, (2 * len(self._seen) + 1,), np.float32)
        self._flows = 1
        self._carried = np.zeros(len(self._seen))
        self._running = 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Observation, dict[str, Any]]:
        """Begin a run. Return the observation of the idle network, and its load and seed."""
        super().reset(seed=seed)
        loads, counts = self._fabric.loads, self._fabric.flow_counts
        position = int(self.np_random.integers(len(loads)))
        run_seed = int(self.np_random.integers(1, 2**31))
        load = loads[position]
        if options and "load" in options:
            load = float(options["load"])
            if load <= 0:
                raise ValueError(f"load = {load}: must be above 0")
        self._flows = max(counts[position], 1)
        self._carried = np.zeros(len(self._seen))
        self._fabric.start(load, run_seed)
        return np.zeros(2 * len(self._seen) + 1, np.float32), {"load": load, "seed": run_seed}

    def step(self, action: Any) -> tuple[Observation, float, bool, bool, dict[str, Any]]:
        """Act, and simulate an interval."""
        if self.act == "weights":
            weights = np.clip(np.asarray(action, dtype=np.float64), -1.0, 1.0)
            if weights.shape != (len(self._up),) or not np.isfinite(weights).all():
                raise ValueError(f"an action has {len(self._up)} numbers")
            factors = np.ones(len(self._fabric.links))
            factors[self._up] = WEIGHT_BASE**weights
            look = self._fabric.step(None, factors.tolist())
        else:
            look = self._fabric.step(int(action), [])
        if look is None:
            return self._ended()
        _, running, _, queued, carried = look
        now = np.array(carried, dtype=np.float64)[self._seen]
        in_an_interval = self.rates * self.interval_us / 8e6
        used = (now - self._carried) / in_an_interval
        waiting = np.array(queued, dtype=np.float64)[self._seen] / in_an_interval
        self._carried = now
        share = running / self._flows
        observation = np.clip(np.concatenate([used, waiting, [share]]), 0.0, 1.0).astype(np.float32)
        return observation, -share, False, False, {}

    def _ended(self) -> tuple[Observation, float, bool, bool, dict[str, Any]]:
        run = json.loads(self._fabric.result())
        # The name that the program gives the steered switches.
        del run["balancer"], run["parameters"]
        flows = run["flows"]
        is_cut = flows["completed"] + flows["failed"] < flows["listed"]
        info = {
            "fct_mean_us": run["fct_us"]["mean"],
            "slowdown_mean": run["slowdown"]["mean"],
            "completed": flows["completed"],
            "failed": flows["failed"],
            "run": run,
        }
        return np.zeros(2 * len(self._seen) + 1, np.float32), 0.0, not is_cut, is_cut, info

    def close(self) -> None:
        """Abandon a run that has not ended."""
        self._fabric.close()


def asymmetric_leaf_spine(load: Sequence[float] = (0.4, 0.5, 0.6), flows: int = 400) -> Experiment:
    """Return the experiment of `Fabric-v0`: four leaves and four spines, of which one has links of a quarter of the rate."""
    from . import Failure, Traffic, leaf_spine

    slow = [Failure("link-rate", link=f"leaf{leaf} -> spine3", fraction=0.25, at="0s") for leaf in range(4)]
    slow += [Failure("link-rate", link=f"spine3 -> leaf{leaf}", fraction=0.25, at="0s") for leaf in range(4)]
    traffic = Traffic("web-search", pattern="inter-rack", load=list(load), flows=flows)
    network = leaf_spine(leaves=4, spines=4, hosts_per_leaf=4)
    return Experiment(network, traffic, balancers=["wcmp"], seeds=1, name="fabric", failure=slow)


def register() -> None:
    """Register the environments; importing this module does."""
    gymnasium.register(id="anabranch/Fabric-v0", entry_point="anabranch.environment:FabricEnv")


register()


__all__ = ["WEIGHT_BASE", "FabricEnv", "asymmetric_leaf_spine", "register"]
