"""A search over parameters by scikit-learn, whose trials joblib runs on Ray."""

import joblib
import numpy as np
import ray
from ray.util.joblib import register_ray
from sklearn.datasets import load_digits
from sklearn.model_selection import RandomizedSearchCV
from sklearn.svm import SVC


def main() -> None:
    """Search, and print the best."""
    digits = load_digits()
    space = {"C": np.logspace(-2, 3, 12), "gamma": np.logspace(-5, -1, 12)}
    search = RandomizedSearchCV(SVC(), space, cv=3, n_iter=12, random_state=0)
    ray.init()
    register_ray()
    with joblib.parallel_backend("ray"):
        search.fit(digits.data, digits.target)
    print(f"best of {len(search.cv_results_['params'])}: {search.best_score_:.3f} {search.best_params_}")


if __name__ == "__main__":
    main()
