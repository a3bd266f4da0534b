"""Learners that meet, for tests."""

import socket


def listening(port):
    """Addresses at which this machine listens at a port, of /proc/net/tcp and tcp6."""
    found = set()
    for name, family in (("tcp", socket.AF_INET), ("tcp6", socket.AF_INET6)):
        with open(f"/proc/net/{name}") as lines:
            rows = [line.split() for line in lines][1:]
        for row in rows:
            host, number = row[1].split(":")
            if row[3] == "0A" and int(number, 16) == port:
                words = [
                    bytes.fromhex(host[start : start + 8])[::-1] for start in range(0, len(host), 8)
                ]
                found.add(socket.inet_ntop(family, b"".join(words)))
    return found
