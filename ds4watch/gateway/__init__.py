"""The OpenAI-compatible gateway: where the decisions of ds4watch take hold.

A process of its own that outlives the daemon. `handlers` takes a request in, `forward` tries
workers, `relay` passes an answer on, `call` is what is booked of it, `spool` keeps the books.
"""
