"""Ray, where work is given to it: the library, and a cluster of one's own where there is none."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from leaveout.cores import cores
from leaveout.errors import LeaveoutError

__all__ = ["imported", "started"]


def imported(missing: LeaveoutError) -> Any:
    """Return the library; raises ``missing`` where it is not installed."""
    try:
        import ray
    except ImportError:
        raise missing from None
    return ray


def started(ray: Any, size: int, variables: Mapping[str, str]) -> bool:
    """Start a cluster here, unless this process is connected to one, or can be.

    A cluster that ``RAY_ADDRESS`` names is connected to.

    Parameters
    ----------
    ray : module
    size : int
        How many workers are to run at once.
    variables : mapping of str to str
        Of the workers' environment.

    Returns
    -------
    bool
        Whether it is to be shut down when the work is done.
    """
    if ray.is_initialized():
        return False
    local = "RAY_ADDRESS" not in os.environ
    ray.init(
        num_cpus=max(cores(), size) if local else None,
        include_dashboard=False if local else None,
        log_to_driver=False,
        configure_logging=False,
        runtime_env={"env_vars": dict(variables)},
    )
    return True
