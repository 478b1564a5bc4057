"""The HTTP server: every API that clients already speak, over a Client. Knows nothing of engines.

A route family is a file with a table of routes; a route is a row (`routes`). `serve` listens, `app`
puts the families together, `endpoint` reads requests and writes replies, `guard` decides who may
ask.
"""
