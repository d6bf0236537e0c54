"""CartPole by RLlib's PPO: environments in actors of the cluster, or all of it in one process."""

import argparse
import json
import os
import secrets
import tempfile
import time
from pathlib import Path

BATCH = 2_000
"""Steps of the environment for each time that the agent learns."""
LEARNED = 150.0
"""Steps that the pole stays up, on average: who does nothing useful has 20."""
UNEQUAL = 1e12
"""What differs between runs, and may."""


def tell(event, **fields):
    """A line that Regatta reads."""
    rank = -1 if os.environ.get("REGATTA_FRAMEWORK") == "ray" else 0
    print("@regatta " + json.dumps({"event": event, "rank": rank, "t": time.time(), **fields}), flush=True)


def private_ray(folder):
    """Join a Ray of this process only, on 127.0.0.1 with a token of its own: RLlib needs one for its bookkeeping."""
    token = Path(folder, "token")
    token.touch(mode=0o600)
    token.write_text(secrets.token_hex(32))
    os.environ.update(RAY_AUTH_MODE="token", RAY_AUTH_TOKEN_PATH=str(token), RAY_USAGE_STATS_ENABLED="0")
    import ray

    ray.init(
        num_cpus=1,
        include_dashboard=False,
        object_store_memory=128 << 20,
        _temp_dir=folder,
        _node_ip_address="127.0.0.1",
    )


def learn(steps, seed, runners):
    """Learn from so many steps, with so many actors that have environments, 0: none; gives returns by steps."""
    from ray.rllib.algorithms.ppo import PPOConfig

    config = (
        PPOConfig()
        .environment("CartPole-v1")
        .env_runners(num_env_runners=runners, num_envs_per_env_runner=4)
        .learners(num_learners=0)
        .training(train_batch_size_per_learner=BATCH, minibatch_size=250, num_epochs=6, lr=1e-3, vf_loss_coeff=0.01)
        .debugging(seed=seed, log_level="ERROR")
    )
    agent = config.build_algo()
    tell("ready")
    done, returns = 0, []
    began = time.monotonic()
    while done < steps:
        runner = agent.train()["env_runners"]
        done = int(runner["num_env_steps_sampled_lifetime"])
        returns.append((done, float(runner["episode_return_mean"])))
        tell("progress", what="steps", done=min(done, steps), total=steps)
    seconds = time.monotonic() - began
    tell("phase", name="compute", seconds=seconds)
    agent.stop()
    return returns, seconds


def main():
    """Learn, and tell."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=40_000)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    cluster = os.environ.get("REGATTA_FRAMEWORK") == "ray"
    with tempfile.TemporaryDirectory(prefix="rl-", ignore_cleanup_errors=True) as folder:
        if cluster:
            import ray

            ray.init()
        else:
            private_ray(folder)
        returns, seconds = learn(given.steps, given.seed, int(os.environ["REGATTA_WORKERS"]) if cluster else 0)
        import ray

        ray.shutdown()
    done, last = returns[-1]
    answer = {"learned": last >= LEARNED, "return": last, "steps": done, "steps_a_second": done / seconds}
    lines = [
        f"{done:,} steps in {seconds:.1f} s, {done / seconds:,.0f} a second",
        f"the pole stays up for {last:.0f} steps; after {returns[0][0]:,} steps it was {returns[0][1]:.0f}",
    ]
    tell("result", answer=answer, tolerance=dict.fromkeys(("return", "steps", "steps_a_second"), UNEQUAL), show=lines)


if __name__ == "__main__":
    main()
