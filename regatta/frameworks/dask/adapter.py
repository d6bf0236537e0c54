"""Starts runs under dask: rank 0 has the scheduler, and a worker next to it; each other rank is a worker.

All of it belongs to the run and ends with it. Scheduler and workers talk by TLS, with a certificate of the run's own,
which each of them must show.
"""

import datetime
from collections.abc import Mapping

from regatta.frameworks import spec
from regatta.frameworks.api import MIB, Framework
from regatta.frameworks.plan import Plan, Rank
from regatta.hosts.cluster import Cluster
from regatta_protocol.run import Spec

DAYS = 365
"""So long a certificate is valid."""


class Dask(Framework):
    """A scheduler and workers of dask, started for the run."""

    name = "dask"
    backend = "dask"
    token = True
    requirements = ("distributed>=2024.8",)
    rank_bytes = 200 * MIB
    driver_bytes = 150 * MIB
    start_seconds = 8.0

    def specs(self, plan: Plan, cluster: Cluster) -> dict[str, Spec]:
        """See `Framework`."""
        scheduler = f"tls://{plan.ranks[0].node.cluster_address}:{plan.master_port}"

        def environment(rank: Rank) -> Mapping[str, str]:
            own = {"RANK": str(rank.rank), "WORLD_SIZE": str(len(plan.ranks))}
            return {**own, "REGATTA_SCHEDULER": scheduler, "REGATTA_ADDRESS": rank.node.cluster_address}

        return {
            node.name: spec.python_ranks(plan, node, spec.one_by_one(plan, node, environment)) for node in plan.nodes
        }

    def secrets(self, plan: Plan) -> Mapping[str, str]:
        """The key and the certificate of the run."""
        key, certificate = _certified(plan.run)
        return {"REGATTA_TLS_KEY": key, "REGATTA_TLS_CERTIFICATE": certificate}


def _certified(name: str) -> tuple[str, str]:
    """A new private key (P-256), and a certificate for it that it has signed itself; both as PEM."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    who = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name[:64])])
    now = datetime.datetime.now(datetime.timezone.utc)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(who)
        .issuer_name(who)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=DAYS))
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .sign(key, hashes.SHA256())
    )
    text = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    return text.decode(), certificate.public_bytes(serialization.Encoding.PEM).decode()


FRAMEWORK = Dask()
