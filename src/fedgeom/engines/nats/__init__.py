"""NATS carries questions across machines: sites call out, a question is a request on the site's subject.

`link` is what both ends share, `engine` the coordinator's end, `site` a site's, `server` what runs `nats-server`.
"""
