"""The environment for learning."""

from __future__ import annotations

from typing import Any

import anabranch as ab
import gymnasium
import numpy as np
import pytest
from anabranch.environment import FabricEnv, asymmetric_leaf_spine
from gymnasium.utils.env_checker import check_env


def small(**arguments: Any) -> FabricEnv:
    return FabricEnv(asymmetric_leaf_spine(flows=60), **arguments)


def episode(env: FabricEnv, action: Any, seed: int, load: float = 0.5) -> tuple[float, dict[str, Any], list[bytes]]:
    """Run an episode with one action. Return the sum of rewards, the last info, and all observations."""
    env.reset(seed=seed, options={"load": load})
    total, seen = 0.0, []
    while True:
        observation, reward, ended, cut, info = env.step(action)
        total += reward
        seen.append(observation.tobytes())
        if ended or cut:
            return total, info, seen


@pytest.mark.parametrize("act", ["weights", "balancer"])
def test_gymnasium_accepts_it(act: str) -> None:
    env = gymnasium.make("anabranch/Fabric-v0", experiment=asymmetric_leaf_spine(flows=60), act=act)
    check_env(env.unwrapped)


def test_zeros_are_wcmp_and_an_index_is_that_balancer(tmp_path: Any) -> None:
    weights, balancer = small(), small(act="balancer", balancers=["ecmp", "wcmp"])
    zeros = np.zeros(len(weights.links_up))
    _, info = weights.reset(seed=7, options={"load": 0.5})
    experiment = asymmetric_leaf_spine(load=[0.5], flows=60)
    experiment.balancers, experiment.seeds = ["ecmp", "wcmp"], [info["seed"]]
    runs = {run["balancer"]: run for run in experiment.run(tmp_path, progress=False).summary["runs"]}
    for env, action, name in [(weights, zeros, "wcmp"), (balancer, 0, "ecmp"), (balancer, 1, "wcmp")]:
        last = episode(env, action, seed=7)[1]["run"]
        for key in ("fct_us", "slowdown", "packets", "reordering"):
            assert last[key] == runs[name][key], (name, key)
    assert runs["ecmp"]["fct_us"] != runs["wcmp"]["fct_us"]


def test_same_seed_and_actions_give_the_same_episode() -> None:
    env, other = small(), small()
    action = np.linspace(-1, 1, len(env.links_up))
    first, again, another = episode(env, action, 3), episode(other, action, 3), episode(env, action, 4)
    assert first == again
    assert first[2] != another[2]
    assert first[2] != episode(env, -action, 3)[2]


def test_sum_of_rewards_is_the_mean_completion_time() -> None:
    env = small(interval_us=50.0)
    total, info, _ = episode(env, np.zeros(len(env.links_up)), 1)
    assert info["completed"] == 60
    assert -total * env.interval_us == pytest.approx(info["fct_mean_us"], abs=env.interval_us)


def test_vectorised() -> None:
    envs = gymnasium.make_vec("anabranch/Fabric-v0", num_envs=2, experiment=asymmetric_leaf_spine(flows=60))
    observations, _ = envs.reset(seed=1)
    assert observations.shape == (2, 65)
    observations, rewards, *_ = envs.step(np.zeros((2, 16), np.float32))
    assert rewards.shape == (2,) and observations.any()
    envs.close()


def test_mistakes_are_errors() -> None:
    with pytest.raises(ValueError, match="must be"):
        small(act="other")
    with pytest.raises(ab.AnabranchError, match="does not decide in each switch alone"):
        small(act="balancer", balancers=["conga"])
    with pytest.raises(ab.AnabranchError, match="unknown balancer `ecmq`"):
        small(act="balancer", balancers=["ecmq"])
    env = small()
    with pytest.raises(ab.AnabranchError, match="call reset"):
        env.step(np.zeros(16))
    env.reset(seed=1)
    with pytest.raises(ValueError, match="16 numbers"):
        env.step(np.zeros(3))
    with pytest.raises(ValueError, match="must be above 0"):
        env.reset(options={"load": 0})
    env.close()
