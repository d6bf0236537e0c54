"""The NameNode as seen over HTTP: its own figures (JMX) and WebHDFS. No JVM is started, no proxy asked."""

import json
import urllib.error
import urllib.parse
import urllib.request

NAMENODE_INFO = "Hadoop:service=NameNode,name=NameNodeInfo"
SYSTEM_STATE = "Hadoop:service=NameNode,name=FSNamesystemState"


class WebError(Exception):
    """The NameNode does not answer, or says no."""


class _Stay(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_):
        """Redirects are the caller's: a PUT would become a GET."""


_OPENER = urllib.request.build_opener(urllib.request.ProxyHandler({}), _Stay())


def ask(url, method="GET", body=None, timeout=10):
    """(status, headers, body) of any answer; WebError where there is none."""
    request = urllib.request.Request(url, data=body, method=method)
    if body is not None:
        request.add_header("Content-Type", "application/octet-stream")
    try:
        with _OPENER.open(request, timeout=timeout) as answer:
            return answer.status, answer.headers, answer.read()
    except urllib.error.HTTPError as error:
        return error.code, error.headers, error.read()
    except OSError as error:
        raise WebError(f"{urllib.parse.urlsplit(url).netloc} does not answer ({error})") from None


def bean(web, name):
    """One of the daemon's beans as a dict."""
    status, _, body = ask(f"{web}/jmx?qry={urllib.parse.quote(name)}")
    beans = json.loads(body).get("beans") if status == 200 else None
    if not beans:
        raise WebError(f"{web} has no {name} yet (status {status})")
    return beans[0]


def webhdfs(web, operation, path, user, method="GET", **options):
    """A WebHDFS call without data; its JSON. WebError says what HDFS said."""
    query = urllib.parse.urlencode({"op": operation, "user.name": user, **options})
    status, _, body = ask(f"{web}/webhdfs/v1{urllib.parse.quote(path)}?{query}", method)
    if status >= 400:
        raise WebError(f"{operation} {path}: {said(body) or f'status {status}'}")
    return json.loads(body or b"{}")


def said(body):
    """The message of HDFS's exception."""
    try:
        return json.loads(body)["RemoteException"]["message"].splitlines()[0]
    except (ValueError, KeyError, TypeError, IndexError):
        return ""


def transfer(web, operation, path, user, method, body=None, **options):
    """Data to or from a file, from the DataNode that the NameNode names."""
    query = urllib.parse.urlencode({"op": operation, "user.name": user, **options})
    status, headers, answer = ask(f"{web}/webhdfs/v1{urllib.parse.quote(path)}?{query}", method)
    if status == 307:
        status, _, answer = ask(headers["Location"], method, body, timeout=30)
    if status >= 400:
        raise WebError(f"{operation} {path}: {said(answer) or f'status {status}'}")
    return answer


def datanodes(web):
    """({address: figures} of the live DataNodes, {name: figures} of the dead ones)."""
    info = bean(web, NAMENODE_INFO)
    live = {item["xferaddr"].rpartition(":")[0]: item for item in json.loads(info["LiveNodes"]).values()}
    return live, json.loads(info["DeadNodes"])


def safe_mode(web):
    """Why the NameNode takes no writes; empty when it does."""
    return bean(web, NAMENODE_INFO)["Safemode"]
