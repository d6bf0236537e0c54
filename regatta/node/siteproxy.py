"""The proxy through which this machine reaches the network (`http_proxy`, `https_proxy`, `no_proxy`), where it has one.

urllib, pip, uv and apt read these variables themselves. This module does what they leave: a tunnel for another
program's bytes, and a message that names the proxy without its password.
"""

import base64
import http.client
import socket
import urllib.request
from urllib.parse import SplitResult, unquote, urlsplit


def of(url: str) -> SplitResult | None:
    """The proxy of a URL; None where it is reached directly."""
    parts = urlsplit(url)
    host = parts.netloc.rpartition("@")[2]
    chosen = urllib.request.getproxies().get(parts.scheme)
    if not chosen or urllib.request.proxy_bypass(host):
        return None
    return address(chosen)


def address(text: str) -> SplitResult:
    """A proxy's address in its parts; a person may leave `http://` out."""
    return urlsplit(text if "://" in text else f"http://{text}")


def shown(url: str) -> str:
    """` through the proxy host:port (https_proxy)` for messages; empty where there is none. No password."""
    found = of(url)
    if not found:
        return ""
    return f" through the proxy {found.netloc.rpartition('@')[2]} ({urlsplit(url).scheme}_proxy)"


def connect(host: str, port: int, timeout: float) -> socket.socket:
    """A connection to a host, through the proxy for https where there is one. Raises OSError."""
    proxy = of(f"https://{host}:{port}/")
    if not proxy:
        return socket.create_connection((host, port), timeout=timeout)
    return tunnel(proxy, host, port, timeout)


def tunnel(proxy: SplitResult, host: str, port: int, timeout: float) -> socket.socket:
    """A connection to a host through this proxy. Raises OSError."""
    if not proxy.hostname:
        raise OSError("https_proxy names no host")
    connection = http.client.HTTPConnection(proxy.hostname, proxy.port or 80, timeout=timeout)
    headers = {}
    if proxy.username:
        word = f"{unquote(proxy.username)}:{unquote(proxy.password or '')}".encode()
        headers["Proxy-Authorization"] = f"Basic {base64.b64encode(word).decode()}"
    connection.set_tunnel(host, port, headers)
    connection.connect()
    return connection.sock
