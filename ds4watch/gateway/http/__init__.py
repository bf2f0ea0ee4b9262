"""HTTP/1.1 for the gateway, over httptools: a server that trusts no client, a pool of connections.

`head` reads a request's head strictly, `body` takes a body in, `connection` is one client's,
`server` all of them; `upstream` is one connection to a worker, `pool` keeps them. Reasons for not
using aiohttp here: its server and client alone took more CPU than a request may cost.
"""
